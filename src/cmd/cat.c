/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "open.h"

#define CHUNK (1u << 20)

static bool write_all(const char *p, size_t n, struct zf_err *err)
{
    while (n > 0) {
        ssize_t k = write(STDOUT_FILENO, p, n);

        if (k < 0 && errno != EINTR) {
            return zf_fail_sys(err, "write to standard output");
        }
        if (k > 0) {
            p += k;
            n -= (size_t)k;
        }
    }
    return true;
}

static bool copy(struct zf_tree *t, uint64_t ino, struct zf_err *err)
{
    zf_auto(mem) char *buf = malloc(CHUNK);
    uint64_t off = 0;
    size_t n;

    if (!buf) {
        return zf_fail_sys(err, "copy");
    }
    do {
        if (!t->ops->read(t, ino, buf, CHUNK, off, &n, err) || !write_all(buf, n, err)) {
            return false;
        }
        off += n;
    } while (n > 0);
    return true;
}

static bool cat(struct zf_tree *t, const char *path, struct zf_err *err)
{
    struct zf_stat st;

    if (!zf_tree_walk(t, path, &st)) {
        (void)zf_fail(err, ZF_E_NOENT, ZF_OFF_NONE, "no such file in this checkpoint");
        return zf_err_in(err, "%s", path);
    }
    if (st.kind != ZF_NODE_FILE) {
        (void)zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "is a directory");
        return zf_err_in(err, "%s", path);
    }
    return copy(t, st.ino, err);
}

static int run(const struct cmd *self, int argc, char **argv)
{
    zf_auto(opts) struct opts o = opts_default();
    bool force = false;
    const struct opt_flag flags[] = {{.letter = 'f', .name = "force", .set = &force}, {0}};
    struct zf_err err;
    int at, code = opts_parse(&o, self, flags, argc, argv, &at);

    if (code >= 0) {
        return code;
    }
    if (argc - at < 2) {
        return cmd_usage(self, "needs a checkpoint and a path in its tree");
    }
    if (!force && isatty(STDOUT_FILENO)) {
        return cmd_usage(self,
                         "refuses to write tensor bytes to a terminal; -f does it all the same");
    }
    zf_auto(tree) struct zf_tree *tree = open_tree(argv[at], &o, &err);
    if (!tree) {
        return cmd_fail(&err);
    }
    for (at++; at < argc; at++) {
        if (!cat(tree, argv[at], &err)) {
            return cmd_fail(&err);
        }
    }
    return EXIT_OK;
}

const struct cmd cmd_cat = {
    .name = "cat",
    .args = "[-f] CKPT PATH...",
    .summary = "Write files of the tree to standard output, without mounting",
    .flags = "  -f, --force            even to a terminal\n\n",
    .run = run,
};
