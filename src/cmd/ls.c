/* SPDX-License-Identifier: Apache-2.0 */
#include <fnmatch.h>
#include <inttypes.h>
#include <string.h>

#include "each.h"
#include "index.h"
#include "open.h"
#include "print.h"

struct ls {
    struct zf_tree *tree;
    const char *glob; /* or NULL */
    bool longer, json, all, zero;
    uint64_t shown;
};

static void show_long(const struct ls *ls, const struct zf_stat *st)
{
    struct zf_node_tensor x;

    (void)printf("%15" PRIu64 "  ", st->size);
    if (zf_tree_tensor(ls->tree, st->ino, &x)) {
        (void)printf("%-8s ", zf_dtype_info(x.dtype)->suffix);
        print_shape(stdout, x.tensor);
        (void)fputs(x.tensor->lost ? "  (damaged)  " : "  ", stdout);
    } else {
        (void)fputs("-        -  ", stdout);
    }
}

static void show_json(const struct ls *ls, const char *path, const struct zf_stat *st)
{
    struct zf_node_tensor x;
    bool tensor = zf_tree_tensor(ls->tree, st->ino, &x);
    json_t *j = tensor ? index_tensor(x.set, x.tensor) : json_object();

    /* Under as/ the size and type are those served, not those stored. */
    if (tensor) {
        (void)json_object_set_new(j, "dtype", json_string(zf_dtype_info(x.dtype)->suffix));
    }
    (void)json_object_set_new(j, "bytes", json_integer((json_int_t)st->size));
    (void)json_object_set_new(j, "path", index_string(path, strlen(path)));
    (void)json_dumpf(j, stdout, JSON_COMPACT);
    json_decref(j);
}

static bool show(void *ctx, const char *path, const struct zf_stat *st, struct zf_err *err)
{
    struct ls *ls = ctx;

    (void)err;
    if (ls->glob && fnmatch(ls->glob, path, 0) != 0) {
        return true;
    }
    ls->shown++;
    if (ls->json) {
        show_json(ls, path, st);
    } else {
        if (ls->longer) {
            show_long(ls, st);
        }
        print_name(stdout, path);
    }
    (void)fputc(ls->zero ? '\0' : '\n', stdout);
    return true;
}

static bool list_all(struct ls *ls, struct zf_err *err)
{
    const struct each each = {.tree = ls->tree, .all = ls->all, .file = show, .ctx = ls};

    return each_file(&each, "", err);
}

static int run(const struct cmd *self, int argc, char **argv)
{
    zf_auto(opts) struct opts o = opts_default();
    struct ls ls = {0};
    const struct opt_flag flags[] = {
        {.letter = 'l', .set = &ls.longer},
        {.letter = 'a', .name = "all", .set = &ls.all},
        {.letter = '0', .name = "null", .set = &ls.zero},
        {.name = "json", .set = &ls.json},
        {0},
    };
    struct zf_err err;
    int at, code = opts_parse(&o, self, flags, argc, argv, &at);

    if (code >= 0) {
        return code;
    }
    if (argc - at < 1 || argc - at > 2) {
        return cmd_usage(self, "needs a checkpoint and at most one pattern");
    }
    ls.glob = argv[at + 1];
    zf_auto(tree) struct zf_tree *tree = open_tree(argv[at], &o, &err);
    if (!tree) {
        return cmd_fail(&err);
    }
    ls.tree = tree;
    ls.all = open_listing(tree, &o, ls.all);
    if (!list_all(&ls, &err)) {
        return cmd_fail(&err);
    }
    /* A pattern may well mean a presentation: look there before saying no. */
    if (ls.shown == 0 && ls.glob) {
        zf_tree_list_all(tree);
        ls.all = true;
        if (!list_all(&ls, &err)) {
            return cmd_fail(&err);
        }
    }
    return cmd_finish(ls.glob && ls.shown == 0 ? EXIT_NEGATIVE : EXIT_OK);
}

const struct cmd cmd_ls = {
    .name = "ls",
    .args = "[-la0] [--json] CKPT [GLOB]",
    .summary = "List the files a mount would show",
    .flags = "  -l                     with size, type and shape\n"
             "  -a, --all              npy/, as/, hf/ and the bulk files too\n"
             "  -0, --null             end names with NUL\n"
             "      --json             one JSON object a line\n\n",
    .run = run,
};
