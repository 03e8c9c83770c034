/* SPDX-License-Identifier: Apache-2.0 */
/* zerofs cache: the caches on disk, of blocks of remote objects (-o cache_dir=) and of models (-o
 * model_cache=). */
#include <stdio.h>
#include <string.h>

#include <zf/remote.h>

#include "kept.h"
#include "options.h"
#include "print.h"

struct cache_sum {
    uint64_t bytes, n;
};

static void cache_line(struct cache_sum *sum, uint64_t bytes, struct timespec used,
                       const char *what)
{
    char when[32] = "?";
    struct tm tm;

    if (localtime_r(&used.tv_sec, &tm))
        (void)strftime(when, sizeof when, "%Y-%m-%d %H:%M", &tm);
    (void)printf("%10s  %s  %s\n", number_bytes(bytes).text, when, what[0] ? what : "?");
    sum->bytes += bytes;
    sum->n++;
}

static void cache_object_line(void *ctx, const struct zf_cached *c)
{
    cache_line(ctx, c->bytes, c->used, c->url);
}

static void cache_model_line(void *ctx, const struct zf_keep_entry *e)
{
    cache_line(ctx, e->bytes, e->used, e->what);
}

static int cache_ls(const char *dir, bool models)
{
    struct cache_sum sum = {0};
    struct zf_err err;

    if (!(models ? zf_keep_each(dir, cache_model_line, &sum, &err)
                 : zf_remote_cache_each(dir, cache_object_line, &sum, &err)) &&
        !(models && err.code == ZF_E_NOENT))
        return cmd_fail(&err);
    (void)printf("%s, %s\n", number_of(sum.n, models ? "model" : "object").text,
                 number_bytes(sum.bytes).text);
    return cmd_finish(EXIT_OK);
}

static int cache_clear(const char *dir, bool models)
{
    struct zf_err err;
    uint64_t bytes;

    if (!(models ? zf_keep_clear(dir, &bytes, &err) : zf_remote_cache_clear(dir, &bytes, &err)) &&
        !(models && err.code == ZF_E_NOENT))
        return cmd_fail(&err);
    (void)printf("freed %s\n", number_bytes(bytes).text);
    return cmd_finish(EXIT_OK);
}

static void cache_count_model(void *ctx, const struct zf_keep_entry *e)
{
    (void)e;
    ((struct cache_sum *)ctx)->n++;
}

/* True if dir is a model cache: the user's default one (`home`, even if empty), or any that holds models. */
static bool cache_is_of_models(const char *dir, const char *home)
{
    struct cache_sum sum = {0};
    struct zf_err err;

    return dir == home || (zf_keep_each(dir, cache_count_model, &sum, &err) && sum.n > 0);
}

int cmd_cache(const struct opts *o, int n, char **word)
{
    const struct cmd *c = &cmd_table[CMD_CACHE];
    zf_auto(mem) char *home = kept_home();
    const char *dir = n == 2 ? word[1] : home;

    (void)o;
    if (!dir)
        return cmd_usage(c, "needs the directory of a cache: HOME is not set");
    const bool models = cache_is_of_models(dir, home);
    if (strcmp(word[0], "ls") == 0)
        return cache_ls(dir, models);
    if (strcmp(word[0], "clear") == 0)
        return cache_clear(dir, models);
    return cmd_usage(c, "knows ls and clear, not \"%s\"", word[0]);
}
