/* SPDX-License-Identifier: Apache-2.0 */
/* Which parameter each nameless master copy is of.  An optimizer keeps the parameters of a group in
 * the order of the model, with what the group does not train left out; which ones those are is proved
 * by what fits: the earliest assignment that keeps the order and the latest one bound all others, so
 * where the two are equal there is no other.  Candidates that are settled for one group are not free
 * for the next. */
#ifndef ZF_ASSEMBLE_ASSIGN_H
#define ZF_ASSEMBLE_ASSIGN_H

#include <zf/base/auto.h>
#include <zf/base/err.h>

struct zf_assign_group {
    uint32_t n;
    uint32_t first; /* the caller's: number of the first item in a list of its own */
    uint32_t *to;   /* [n] out: the candidate of each item */
    bool settled;   /* out */
};

struct zf_assign {
    uint32_t n_candidates;
    bool *used; /* [n_candidates] not free, also set here */
    struct zf_assign_group *group;
    uint32_t n_groups;
    /* Does the item of that group fit the candidate?  Asked for free ones only. */
    bool (*fit)(void *ctx, uint32_t group, uint32_t item, uint32_t candidate, bool *yes,
                struct zf_err *err);
    void *ctx;
    uint64_t most; /* questions, after which ZF_E_LIMIT is the answer */
    uint64_t asked;
    /* The failure: an item that fits nothing behind the one before it, or one that fits both. */
    struct {
        uint32_t group, item, two[2];
        bool none;
    } open;
};

/* Settles all groups, or says in *proven that there is more than one way, or none.
 * Errors: of fit; ZF_E_LIMIT; ZF_E_NOMEM. */
bool zf_assign_prove(struct zf_assign *a, bool *proven, struct zf_err *err) ZF_CHECKED;

#endif
