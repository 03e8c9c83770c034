/* SPDX-License-Identifier: Apache-2.0 */
/* The tree of one checkpoint.  An inode number is a kept node's index + 1, or, for a computed
 * file, (shelf + 1) << 32 | (tensor + 1): so both directions are arithmetic, and remounts give
 * the same. */
#ifndef VIEW_TREE_H
#define VIEW_TREE_H

#include "bulk.h"
#include "nodes.h"

struct tree {
    struct zf_tree base;
    struct zf_checkpoint *c;
    struct zf_arena *arena;
    struct nodes nodes;
    struct shelf_set *set; /* [2 n_sets]: each, and what of it is not damaged (omit_lost) */
    struct shelf *shelf;
    uint32_t n_shelves;
    zf_vec(struct bulk *) bulk; /* each in the arena */
};

/* The node of an inode number. */
struct spot {
    const struct node *node;   /* a kept node, or NULL */
    const struct shelf *shelf; /* else tensor i on this shelf */
    uint32_t i;
};

/* After a failed read of [off, off + n) at `s`: if bytes that are known to be lost are among them,
 * *err says which, of which tensor and why. */
void tree_explain(const struct tree *t, const struct spot *s, uint64_t off, size_t n,
                  struct zf_err *err);

/* Extended attribute k of the node at `s`; see struct zf_tree_ops. */
bool tree_xattr(const struct tree *t, const struct spot *s, size_t k, struct zf_xattr *out);

extern const struct zf_tree_ops tree_ops;

#endif
