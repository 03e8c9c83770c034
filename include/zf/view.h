/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoint -> tree: every set with every presentation (zerofs(5)). */
#ifndef ZF_VIEW_H
#define ZF_VIEW_H

#include <zf/model/model.h>
#include <zf/tree.h>

struct zf_view_opts {
    uint64_t shard_size;     /* bytes of one hf/ shard; 0 = 5 GB */
    const char *const *keep; /* globs: tensors that as/ leaves as they are */
    uint32_t n_keep;
    const struct zf_limits *lim;
};

/* Takes c (freed with the tree, and on failure). */
struct zf_tree *zf_tree_new(struct zf_checkpoint *c, const struct zf_view_opts *o,
                            struct zf_err *err) ZF_CHECKED;

/* The checkpoint inside a tree made by zf_tree_new (borrowed). */
const struct zf_checkpoint *zf_tree_checkpoint(const struct zf_tree *t);

/* Describes a raw tensor file of the tree; false for every other inode. */
struct zf_node_tensor {
    const struct zf_set *set;
    const struct zf_tensor *tensor;
    enum zf_dtype dtype; /* as served: differs from the tensor's under as/ */
};
bool zf_tree_tensor(const struct zf_tree *t, uint64_t ino, struct zf_node_tensor *out);

/* The map of a file that is served as it is mapped (raw tensors, blobs, bulk files), borrowed, for
 * tools that look at its pieces (export's holes).  NULL, and *err is cleared, for what is computed
 * (casts, .npy) and for directories; NULL with an error when a bulk file cannot be planned. */
const struct zf_map *zf_tree_map(struct zf_tree *t, uint64_t ino, struct zf_err *err);

#endif
