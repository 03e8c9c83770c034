/* SPDX-License-Identifier: Apache-2.0 */
#include "tensors.h"

bool tensors_each(struct zf_tree *tree, const char *word, tensors_fn *fn, void *ctx,
                  struct zf_err *err)
{
    const struct zf_each each = {.tree = tree, .file = fn, .ctx = ctx};
    struct zf_stat st;

    if (!word)
        return zf_each_file(&each, "", err);
    zf_auto(mem) char *path = zf_each_normal(word);
    if (!path)
        return zf_fail_sys(err, "list tensors");
    if (!zf_tree_walk(tree, path, &st))
        return zf_each_match(&each, path, err);
    return st.kind == ZF_NODE_DIR ? zf_each_file(&each, path, err) : fn(ctx, path, &st, err);
}
