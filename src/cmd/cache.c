/* SPDX-License-Identifier: Apache-2.0 */
/* zerofs cache: what is kept on disk of remote objects (-o cache_dir=). */
#include <stdio.h>
#include <string.h>

#include <zf/remote.h>

#include "options.h"
#include "print.h"

struct cache_sum {
    uint64_t bytes, n;
};

static void cache_line(void *ctx, const struct zf_cached *c)
{
    struct cache_sum *sum = ctx;
    char size[32], when[32] = "?";
    struct tm tm;

    print_bytes_in(size, c->bytes);
    if (localtime_r(&c->used.tv_sec, &tm)) {
        (void)strftime(when, sizeof when, "%Y-%m-%d %H:%M", &tm);
    }
    (void)printf("%10s  %s  %s\n", size, when, c->url[0] ? c->url : "?");
    sum->bytes += c->bytes;
    sum->n++;
}

static int cache_ls(const char *dir)
{
    struct cache_sum sum = {0};
    struct zf_err err;

    if (!zf_remote_cache_each(dir, cache_line, &sum, &err)) {
        return cmd_fail(&err);
    }
    (void)printf("%llu object%s, ", (unsigned long long)sum.n, sum.n == 1 ? "" : "s");
    print_bytes(stdout, sum.bytes);
    (void)putchar('\n');
    return cmd_finish(EXIT_OK);
}

static int cache_clear(const char *dir)
{
    struct zf_err err;
    uint64_t bytes;

    if (!zf_remote_cache_clear(dir, &bytes, &err)) {
        return cmd_fail(&err);
    }
    (void)fputs("freed ", stdout);
    print_bytes(stdout, bytes);
    (void)putchar('\n');
    return cmd_finish(EXIT_OK);
}

static int cache_run(const struct cmd *self, int argc, char **argv)
{
    zf_auto(opts) struct opts o = opts_default();
    const struct opt_flag flags[] = {{0}};
    int at, code = opts_parse(&o, self, flags, argc, argv, &at);

    if (code >= 0) {
        return code;
    }
    if (argc - at != 2) {
        return cmd_usage(self, "needs ls or clear, and the directory of a cache");
    }
    if (strcmp(argv[at], "ls") == 0) {
        return cache_ls(argv[at + 1]);
    }
    if (strcmp(argv[at], "clear") == 0) {
        return cache_clear(argv[at + 1]);
    }
    return cmd_usage(self, "knows ls and clear, not \"%s\"", argv[at]);
}

const struct cmd cmd_cache = {
    .name = "cache",
    .takes = TAKES_NONE,
    .args = "ls|clear DIR",
    .summary = "List or empty a cache of remote blocks (-o cache_dir=)",
    .flags = "",
    .run = cache_run,
};
