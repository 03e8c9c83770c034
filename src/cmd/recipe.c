/* SPDX-License-Identifier: Apache-2.0 */
/* zerofs recipes and zerofs recipe check: which recipes fit a checkpoint, and what is wrong with one. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cmd.h"
#include "open.h"
#include "page.h"
#include "print.h"
#include "recipe_file.h"

/* Opens the checkpoint with its own names, without any recipe. */
static struct zf_checkpoint *recipe_open(const char *path, const struct opts *o, struct zf_err *err)
{
    struct opts without = *o; /* borrows its strings */
    char off[] = "off";

    without.recipe = off;
    return open_checkpoint(path, &without, err);
}

static bool recipe_print(void *ctx, const struct zf_hf_fit *fit)
{
    const char *how = !fit->fits ? "no" : fit->why ? "refused" : "fits";
    bool *any = ctx;

    *any = *any || (fit->fits && !fit->why);
    const struct page p = page_of(stdout, COLOR_NEVER);
    const int used = printf("%-8s %-22s ", how, fit->name);
    page_hang(&p, used > 0 ? (size_t)used : 0, fit->why ? fit->why : fit->title);
    return true;
}

int cmd_recipes(const struct opts *o, int n, char **word)
{
    struct zf_err err;
    bool any = false;
    zf_auto(checkpoint) struct zf_checkpoint *c = recipe_open(word[0], o, &err);

    (void)n;
    if (!c || !zf_hf_each(c, &o->lim, recipe_print, &any, &err))
        return cmd_fail(&err);
    return cmd_finish(any ? EXIT_OK : EXIT_NEGATIVE);
}

static void recipe_print_problem(void *ctx, const char *problem)
{
    ++*(uint64_t *)ctx;
    print_name(stdout, problem);
    (void)fputc('\n', stdout);
}

int cmd_recipe(const struct opts *o, int n, char **word)
{
    zf_auto(mem) char *text = NULL;
    uint64_t made = 0, problems = 0;
    struct zf_hf_opts how;
    struct zf_err err;

    (void)n;
    if (strcmp(word[0], "check") != 0) {
        return cmd_usage(cmd_find("recipe"), "the word before the recipe is check, not %.40s",
                         word[0]);
    }
    if (!recipe_file_read(word[1], &o->lim, &how, &text, &err))
        return cmd_fail(&err);
    zf_auto(checkpoint) struct zf_checkpoint *c = recipe_open(word[2], o, &err);
    if (!c || !zf_hf_check(c, &how, recipe_print_problem, &problems, &made, &err))
        return cmd_fail(&err);
    if (!problems) {
        (void)printf("%s makes %" PRIu64 " tensors and uses all of this checkpoint\n", how.name,
                     made);
    }
    return cmd_finish(problems ? EXIT_NEGATIVE : EXIT_OK);
}
