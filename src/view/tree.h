/* SPDX-License-Identifier: Apache-2.0 */
/* The tree of one checkpoint.  An inode number is a kept node's index + 1, or, for a computed
 * file, (shelf + 1) << 32 | (tensor + 1): both directions are arithmetic, and numbers are the same
 * after a remount.  After the last shelf follow the kept nodes of an hf/ that is made later. */
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
    uint64_t first; /* the inode numbers of its nodes start after this one */
    struct nodes nodes;
    struct shelf_set *set; /* [2 n_sets]: each set, and its undamaged part (omit_lost) */
    struct shelf *shelf;
    uint32_t n_shelves;
    zf_vec(struct bulk *) bulk; /* each in the arena */
    struct later *later;        /* hf/ of the root, as a separate tree; NULL = it is in this one */
    const struct tree *of;      /* if this is such a separate tree: the tree it belongs to */
    uint32_t hf[ZF_DT_COUNT + 1]; /* the nodes here for the NODE_LATER nodes there */
};

/* What an inode number refers to. */
struct spot {
    const struct tree *t;      /* the tree, or that of its hf/ */
    const struct node *node;   /* a kept node, or NULL */
    const struct shelf *shelf; /* else tensor i on this shelf */
    uint32_t i;
};

/* After a failed read of [off, off + n) at `s`: if it includes bytes known to be lost, *err reports these,
 * their tensor and the reason. */
void tree_explain(const struct spot *s, uint64_t off, size_t n, struct zf_err *err);

/* Extended attribute k of the node at `s`; see struct zf_tree_ops. */
bool tree_xattr(const struct spot *s, size_t k, struct zf_xattr *out);

/* hf/ of the root, made at its first access: a separate tree of the same checkpoint, so that readers of other files
 * need not wait until a recipe is evaluated (later.c). */
/* Takes ownership of o->later.ctx (on failure, too), copies all other options except the target of o->keep. */
struct later *later_new(const struct zf_view_opts *o, struct zf_err *err) ZF_CHECKED;
/* NULL is fine. */
void later_free(struct later *l);
/* The separate tree for hf/ of t; made at the first call.  wait: as for o->later.enter.  Thread: any.
 * Errors: of the model; ZF_E_BUSY, ZF_E_NOMEM, ZF_E_LIMIT; the next call tries again. */
const struct tree *later_get(const struct tree *t, bool wait, struct zf_err *err) ZF_CHECKED;

/* Makes the separate tree for hf/ of the root of `of`, from c, which has that model; takes ownership of c. */
struct tree *layout_later(const struct tree *of, struct zf_checkpoint *c,
                          const struct zf_view_opts *o, struct zf_err *err) ZF_CHECKED;

extern const struct zf_tree_ops tree_ops;

/* Writes the list as JSON, at most cap bytes; the last entry counts the pieces that do not fit.
 * served: the dtype of the file. */
void sources_put(const struct zf_tensor *t, enum zf_dtype served, size_t cap, struct zf_out *o);

#endif
