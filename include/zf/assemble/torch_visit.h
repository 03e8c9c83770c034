/* SPDX-License-Identifier: Apache-2.0 */
/* Goes through the value of a torch.save file and shows each leaf with its path. */
#ifndef ZF_ASSEMBLE_TORCH_VISIT_H
#define ZF_ASSEMBLE_TORCH_VISIT_H

#include <zf/assemble/names.h>
#include <zf/codec/torch.h>

/* A tensor (kind says which), or a plain value (kind NOT) that holds no further values. */
struct zf_leaf {
    struct zf_path path; /* valid during the call only */
    enum zf_torch_kind kind;
    const struct zf_pv *value;
};

/* The visitor.  n_unnamed counts the plain values that have no name worth making: fn does not get
 * them, as a hostile file holds a hundred million. */
struct zf_visit {
    bool (*fn)(void *ctx, const struct zf_leaf *leaf, struct zf_err *err);
    void *ctx;
    uint64_t n_unnamed; /* out */
};

/* Calls the visitor for the leaves of v in the order of the file; stops with its failure.  prefix:
 * the first step of every path, or NULL.
 *
 * The keys of mappings and the positions in lists are steps.  An object is shown by its attributes,
 * which are joined to its own step with dots, and the tables of an nn.Module (_parameters,
 * _buffers, _modules) are left out of names, so a pickled module looks like its state dict.  A
 * value that holds itself is left out, and so is the second sight of one that holds no tensor.
 * Of plain values, numbers are shown, unless they are in a list that is too shallow for an
 * optimizer's state, and bytes that are in a mapping; others may be counted only.
 * Errors: fn's; ZF_E_LIMIT pickle_depth, tensors; ZF_E_NOMEM. */
bool zf_torch_visit(struct zf_torch *t, const struct zf_pv *v, const char *prefix,
                    const struct zf_limits *lim, struct zf_visit *visit,
                    struct zf_err *err) ZF_CHECKED;

#endif
