/* SPDX-License-Identifier: Apache-2.0 */
/* zerofs cat: writes files of the tree to standard output, without a mount. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zf/base/fd.h>
#include <zf/base/name.h>
#include <zf/each.h>
#include <zf/view.h>

#include "open.h"

#define CHUNK (1u << 20)

static bool cat_copy(struct zf_tree *t, const struct zf_stat *st, struct zf_err *err)
{
    struct zf_through through = {.tree = t, .ino = st->ino, .size = st->size};
    zf_auto(mem) char *buf = malloc(CHUNK);
    uint64_t off = 0;
    size_t n;

    if (!buf)
        return zf_fail_sys(err, "copy");
    do {
        if (!zf_through_read(&through, buf, CHUNK, off, &n, err))
            return false;
        if (!zf_fd_write(STDOUT_FILENO, buf, n))
            return zf_fail_sys(err, "write to standard output");
        off += n;
    } while (n > 0);
    return true;
}

struct cat {
    struct zf_tree *tree;
    bool terminal; /* standard output is a terminal, without --force */
};

/* True for JSON, logs and files next to a checkpoint, which are text; false for tensors in any format. */
static bool cat_is_text(const char *path, const struct zf_stat *st, struct zf_tree *t)
{
    static const char *const binary[] = {".safetensors", ".bin", ".npy", ".pt", ".model"};
    struct zf_node_tensor tensor;

    for (size_t i = 0; i < sizeof binary / sizeof binary[0]; i++)
        if (zf_name_ends(path, binary[i]))
            return false;
    return !zf_tree_tensor(t, st->ino, &tensor) && strncmp(path, "extra/", 6) != 0;
}

static bool cat_file(void *ctx, const char *path, const struct zf_stat *st, struct zf_err *err)
{
    const struct cat *c = ctx;

    if (c->terminal && !cat_is_text(path, st, c->tree)) {
        (void)zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                      "refusing to write binary data to a terminal (-f overrides)");
        return zf_err_in(err, "%s", path);
    }
    return cat_copy(c->tree, st, err);
}

static bool cat_path(struct cat *c, const char *given, struct zf_err *err)
{
    const struct zf_each each = {.tree = c->tree, .file = cat_file, .ctx = c};
    zf_auto(mem) char *path = zf_each_normal(given);
    struct zf_stat st;

    if (!path)
        return zf_fail_sys(err, "copy");
    if (zf_tree_walk(c->tree, path, &st)) {
        if (st.kind == ZF_NODE_FILE)
            return cat_file(c, path, &st, err);
        (void)zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "is a directory");
        return zf_err_in(err, "%s", given);
    }
    return zf_each_match(&each, path, err);
}

int cmd_cat(const struct opts *o, int n, char **word)
{
    struct zf_err err;
    zf_auto(tree) struct zf_tree *tree = open_asked(word[0], o, &err);

    if (!tree)
        return cmd_fail(&err);
    struct cat c = {.tree = tree, .terminal = !o->force && isatty(STDOUT_FILENO) == 1};
    (void)open_listing(tree, o, false);
    for (int i = 1; i < n; i++)
        if (!cat_path(&c, word[i], &err))
            return cmd_fail(&err);
    return EXIT_OK;
}
