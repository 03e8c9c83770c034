/* SPDX-License-Identifier: Apache-2.0 */
/* Finds tensors given on the command line. */
#ifndef ZF_CMD_PARAM_H
#define ZF_CMD_PARAM_H

#include <zf/each.h>
#include <zf/view.h>

/* A tensor file of the tree. */
struct param {
    uint64_t ino;
    struct zf_node_tensor x;
};

/* Finds the tensor at path (normalized by zf_each_normal), with or without the suffix of its dtype.  False: there
 * is none. */
bool param_walk(struct zf_tree *t, const char *path, struct param *out);

/* For a path that is no tensor: calls each for what matches it as a pattern.  Errors: ZF_E_USAGE it is a directory
 * or another file; ZF_E_NOENT nothing matches, with the most similar names; those of each. */
bool param_match(struct zf_tree *t, const char *path, const struct zf_each *each,
                 struct zf_err *err) ZF_CHECKED;

/* The path of a raw tensor file from the root of the tree, malloc'ed; NULL: out of memory. */
char *param_path(const struct zf_set *s, const struct zf_tensor *t);

#endif
