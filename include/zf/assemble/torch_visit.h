/* SPDX-License-Identifier: Apache-2.0 */
/* Walks the value of a torch.save file and reports each leaf with its path. */
#ifndef ZF_ASSEMBLE_TORCH_VISIT_H
#define ZF_ASSEMBLE_TORCH_VISIT_H

#include <zf/assemble/names.h>
#include <zf/codec/torch.h>

/* A tensor (of any kind but NOT), or a plain value (kind NOT) that contains no other values. */
struct zf_leaf {
    struct zf_path path; /* valid during the call only */
    enum zf_torch_kind kind;
    const struct zf_pv *value;
};

/* The visitor.  n_unnamed counts the plain values for which no path is made and fn is not called, because a hostile
 * file may hold a hundred million. */
struct zf_visit {
    bool (*fn)(void *ctx, const struct zf_leaf *leaf, struct zf_err *err);
    void *ctx;
    uint64_t n_unnamed; /* out */
};

/* Calls the visitor for the leaves of v in the order of the file; stops if it fails.  prefix: the first step of every
 * path, or NULL.
 *
 * The steps are keys of mappings and positions in lists.  The attributes of an object are joined to its own step with
 * dots, and the tables of an nn.Module (_parameters, _buffers, _modules) are left out of names, so that a pickled
 * module looks like its state dict.  A value that contains itself is left out, as is one without tensors when it occurs
 * again.  Of plain values, fn gets numbers, unless they are in a list that is too shallow for an optimizer's state, and
 * bytes in mappings; others may only be counted.
 * Errors: those of fn; ZF_E_LIMIT pickle_depth, tensors; ZF_E_NOMEM. */
bool zf_torch_visit(struct zf_torch *t, const struct zf_pv *v, const char *prefix,
                    const struct zf_limits *lim, struct zf_visit *visit,
                    struct zf_err *err) ZF_CHECKED;

#endif
