/* SPDX-License-Identifier: Apache-2.0 */
/* zerofs newest: prints the path of the newest complete save of a run; on stderr, why newer ones were rejected. */
#include <stdlib.h>
#include <string.h>

#include <zf/verify/verify.h>

#include "open.h"
#include "print.h"

/* How many times the search is tried, if files change during it. */
#define NEWEST_TRIES 5

struct newest {
    const struct opts *o;
    const char *run;
    struct zf_err *damage; /* of the save being verified; code ZF_OK: none so far */
    char *text;            /* the messages about rejected saves */
    size_t n_text, n_passed;
    FILE *to;     /* a memory stream that writes `text` */
    char *chosen; /* path of the chosen save, or NULL */
};

/* The path of a save in the run; malloc'ed. */
static char *newest_path(const char *run, const char *name)
{
    const size_t len = strlen(run);
    char *path = malloc(len + strlen(name) + 2);

    if (path) {
        (void)sprintf(path, "%s%s%s", run, *name && len > 0 && run[len - 1] != '/' ? "/" : "",
                      name);
    }
    return path;
}

static void newest_fini(struct newest *n)
{
    if (n->to)
        (void)fclose(n->to);
    free(n->text);
    free(n->chosen);
    *n = (struct newest){.o = n->o, .run = n->run};
}

static void newest_found(void *ctx, const struct zf_finding *f)
{
    const struct newest *n = ctx;

    if (f->weight >= ZF_WEIGHT_DAMAGE && n->damage->code == ZF_OK) {
        (void)zf_fail(n->damage, f->weight == ZF_WEIGHT_UNREAD ? ZF_E_IO : ZF_E_FORMAT, ZF_OFF_NONE,
                      "%s", f->text);
        if (f->file[0])
            (void)zf_err_in(n->damage, "%s", f->file);
    }
}

/* Makes all checks of zerofs verify except code and coverage: calls in a pickle and data not shown are no damage. */
static bool newest_verify_all(struct newest *n, struct zf_tree *tree, struct zf_err *err)
{
    const struct zf_checkpoint *c = zf_tree_checkpoint(tree);
    zf_vec(struct zf_verify_tensor) all = {0};
    struct zf_verify_progress progress = {0};
    struct zf_verify_sum sum;
    bool ok = true;

    for (uint32_t i = 0; ok && i < c->n_sets; i++) {
        for (uint32_t k = 0; ok && k < c->set[i].n; k++) {
            const bool tied = c->set[i].tensor[k].alias_of != k;
            struct zf_verify_tensor *t = tied ? NULL : zf_vec_push(&all, err);

            ok = t || tied;
            if (t) {
                *t = (struct zf_verify_tensor){.path = c->set[i].tensor[k].name,
                                               .set = &c->set[i],
                                               .tensor = &c->set[i].tensor[k]};
            }
        }
    }
    const struct zf_verify_opts how = {.tensor = all.at,
                                       .n = all.n,
                                       .jobs = opts_jobs(n->o),
                                       .lim = &n->o->lim,
                                       .tree = tree,
                                       .found = newest_found,
                                       .ctx = n,
                                       .progress = &progress};
    n->damage = err;
    if (ok)
        zf_err_clear(err);
    ok = ok && zf_verify(c, &how, &sum, err) && err->code == ZF_OK;
    zf_vec_fini(&all);
    return ok;
}

/* Verifies a save, opened separately as by zerofs verify: the run's store also has files of other saves. */
static bool newest_verify(void *ctx, const char *name, struct zf_err *err)
{
    struct newest *n = ctx;
    struct opts how = *n->o; /* borrows its strings */
    zf_auto(mem) char *path = newest_path(n->run, name);

    if (!path)
        return zf_fail_sys(err, "look for the newest save");
    how.tag = NULL;
    how.recipe = (char *)"off";
    how.model_cache = (char *)"off"; /* read the files themselves */
    zf_auto(tree) struct zf_tree *tree = open_tree(path, &how, err);
    return tree && newest_verify_all(n, tree, err);
}

static void newest_judged(void *ctx, const char *name, const struct zf_err *why)
{
    struct newest *n = ctx;
    char text[1024];

    if (!why) {
        n->chosen = newest_path(n->run, name);
        return;
    }
    n->n_passed++;
    (void)fprintf(n->to, "%s is skipped: %s\n", *name ? name : ".",
                  zf_err_text(why, text, sizeof text));
}

static void newest_say(struct newest *n)
{
    char *save;

    for (char *line = fflush(n->to) == 0 ? strtok_r(n->text, "\n", &save) : NULL; line;
         line = strtok_r(NULL, "\n", &save)) {
        (void)fputs("zerofs: ", stderr);
        print_name(stderr, line);
        (void)fputc('\n', stderr);
    }
}

static int newest_print(const struct newest *n, bool ok, const struct zf_err *err)
{
    if (ok && n->chosen) {
        (void)puts(n->chosen);
        return EXIT_OK;
    }
    if (n->n_passed == 0)
        return err->sys ? cmd_fail(err) : cmd_negative(err); /* no such run, or no save in it */
    (void)fputs("zerofs: no save of ", stderr);
    print_name(stderr, n->run);
    (void)fputs(" is whole. List them all: zerofs tags RUN\n", stderr);
    return EXIT_NEGATIVE;
}

int cmd_newest(const struct opts *o, int n, char **word)
{
    struct newest found = {.o = o, .run = word[0]};
    const struct zf_choice choice = {
        .accepts = o->quick ? NULL : newest_verify, .judged = newest_judged, .ctx = &found};
    struct zf_err err;
    bool ok = false, changed = true;

    (void)n;
    if (o->tag || o->degraded) {
        return cmd_usage(&cmd_table[CMD_NEWEST], "selects the save itself. Leave out %s",
                         o->tag ? "tag=" : "degraded");
    }
    for (int i = 0; i < NEWEST_TRIES && changed; i++) {
        newest_fini(&found);
        found.to = open_memstream(&found.text, &found.n_text);
        if (!found.to) {
            (void)zf_fail_sys(&err, "look for the newest save");
            return cmd_fail(&err);
        }
        ok = open_newest(word[0], o, &choice, &changed, &err);
    }
    newest_say(&found);
    const int code = changed ? cmd_fail(&err) : newest_print(&found, ok, &err);
    newest_fini(&found);
    return cmd_finish(code);
}
