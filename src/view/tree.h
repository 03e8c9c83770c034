/* SPDX-License-Identifier: Apache-2.0 */
/* The tree of one checkpoint.  An inode number is a kept node's index + 1, or, for a computed
 * file, (shelf + 1) << 32 | (tensor + 1): so both directions are arithmetic, and remounts give
 * the same.  Behind the last shelf come the kept nodes of hf/ that is laid out later. */
#ifndef VIEW_TREE_H
#define VIEW_TREE_H

#include <zf/base/out.h>
#include <zf/model/model.h>

#include "bulk.h"
#include "nodes.h"

struct later;

struct tree {
    struct zf_tree base;
    struct zf_checkpoint *c;
    struct zf_arena *arena;
    uint64_t first; /* inode numbers of its nodes begin behind it */
    struct nodes nodes;
    struct shelf_set *set; /* [2 n_sets]: each, and what of it is not damaged (omit_lost) */
    struct shelf *shelf;
    uint32_t n_shelves;
    zf_vec(struct bulk *) bulk; /* each in the arena */
    struct later *later;        /* hf/ of the root is a tree of its own; NULL = it is in this one */
    const struct tree *of;      /* this one is that, of the tree `of`: */
    uint32_t hf[ZF_DT_COUNT + 1]; /* its nodes for those of NODE_LATER there */
};

/* The node of an inode number. */
struct spot {
    const struct tree *t;      /* the tree, or that of its hf/ */
    const struct node *node;   /* a kept node, or NULL */
    const struct shelf *shelf; /* else tensor i on this shelf */
    uint32_t i;
};

/* After a failed read of [off, off + n) at `s`: if bytes that are known to be lost are among them,
 * *err says which, of which tensor and why. */
void tree_explain(const struct spot *s, uint64_t off, size_t n, struct zf_err *err);

/* Extended attribute k of the node at `s`; see struct zf_tree_ops. */
bool tree_xattr(const struct spot *s, size_t k, struct zf_xattr *out);

/* hf/ of the root, laid out when it is first looked into: a tree of its own over the same checkpoint, as no reader of
 * anything else should wait for a recipe to be worked out (later.c). */
/* Takes o->later.ctx (on failure, too), copies all other options but what o->keep leads to. */
struct later *later_new(const struct zf_view_opts *o, struct zf_err *err) ZF_CHECKED;
/* NULL is fine. */
void later_free(struct later *l);
/* The tree of hf/ of t, whose root it is not; made by the first who asks.  wait: as for o->later.enter.  Thread: any.
 * Errors: of the model; ZF_E_BUSY, ZF_E_NOMEM, ZF_E_LIMIT; then the next one tries again. */
const struct tree *later_get(const struct tree *t, bool wait, struct zf_err *err) ZF_CHECKED;

/* hf/ of the root of t, which c shows with it; c is taken. */
struct tree *layout_later(const struct tree *of, struct zf_checkpoint *c,
                          const struct zf_view_opts *o, struct zf_err *err) ZF_CHECKED;

extern const struct zf_tree_ops tree_ops;

/* Writes the list as JSON, at most cap bytes; what does not fit is counted in its last entry.
 * served: the type of the file that is asked about. */
void sources_put(const struct zf_tensor *t, enum zf_dtype served, size_t cap, struct zf_out *o);

#endif
