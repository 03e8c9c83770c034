/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the parameter of each nameless master copy.  An optimizer keeps the parameters of a group in the order of the
 * model, without those that the group does not train.  The proof: of all assignments that fit and keep this order, the
 * earliest and the latest bound all others, so if these two are equal, there is only one.  Candidates assigned to one
 * group are not available to the next. */
#ifndef ZF_ASSEMBLE_ASSIGN_H
#define ZF_ASSEMBLE_ASSIGN_H

#include <zf/base/auto.h>
#include <zf/base/err.h>

struct zf_assign_group {
    uint32_t n;
    uint32_t first; /* for the caller's use: index of the first item in its own list */
    uint32_t *to;   /* [n] out: the candidate of each item */
    bool settled;   /* out: `to` is proved */
};

struct zf_assign {
    uint32_t n_candidates;
    bool *used; /* [n_candidates] not available; also set here */
    struct zf_assign_group *group;
    uint32_t n_groups;
    /* Sets *yes if the item of the group fits the candidate.  Called only for available candidates. */
    bool (*fit)(void *ctx, uint32_t group, uint32_t item, uint32_t candidate, bool *yes,
                struct zf_err *err);
    void *ctx;
    uint64_t most; /* limit of calls of `fit`; more fail with ZF_E_LIMIT */
    uint64_t asked;
    /* Why there is no proof: an item that fits no candidate after the previous item's (none), or that fits both of
     * two. */
    struct {
        uint32_t group, item, two[2];
        bool none;
    } open;
};

/* Assigns all groups.  *proven is false if there is no assignment or more than one.
 * Errors: those of fit; ZF_E_LIMIT; ZF_E_NOMEM. */
bool zf_assign_prove(struct zf_assign *a, bool *proven, struct zf_err *err) ZF_CHECKED;

#endif
