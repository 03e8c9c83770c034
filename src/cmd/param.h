/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors that are named on the command line. */
#ifndef ZF_CMD_PARAM_H
#define ZF_CMD_PARAM_H

#include <zf/each.h>
#include <zf/view.h>

/* A file of the tree that is a tensor. */
struct param {
    uint64_t ino;
    struct zf_node_tensor x;
};

/* The tensor at path (normal, zf_each_normal), which may lack the suffix of its type.  False: there is none. */
bool param_walk(struct zf_tree *t, const char *path, struct param *out);

/* Of a path that is none: calls each for what matches it as a pattern.  Errors: ZF_E_USAGE it is a directory or another
 * file; ZF_E_NOENT nothing matches, with the names most like it; those of each. */
bool param_match(struct zf_tree *t, const char *path, const struct zf_each *each,
                 struct zf_err *err) ZF_CHECKED;

/* The path of a raw tensor file from the root of the tree, malloc'ed; NULL without memory. */
char *param_path(const struct zf_set *s, const struct zf_tensor *t);

#endif
