/* SPDX-License-Identifier: Apache-2.0 */
/* The nameless masters of a save without ZeRO, and the parameters they are proved to belong to. */
#ifndef FORMAT_DEEPSPEED_MASTERS_H
#define FORMAT_DEEPSPEED_MASTERS_H

#include <zf/assemble/values.h>

#include "apart.h"
#include "rank.h"

/* A master and where its states are. */
struct ds_master {
    uint32_t entry; /* of module, once it is settled */
    struct zf_tensor_ref view;
    const struct zf_pv *state;
    uint64_t at;    /* first element in the group's vector … */
    uint64_t whole; /* … and the vector's elements; 0 for masters of their own */
};

struct ds_masters {
    struct ds_master *m;
    uint32_t n;
    bool settled;
};

struct ds_guess {
    struct ds_rank *mp;
    const uint32_t *tie;
    bool *weight; /* [n_entries] trained parameters, by all but their bytes */
    bool *used;   /* [n_entries] those that belong to a master already */
    struct zf_sample sample;
    struct ds_masters *group;
    uint64_t n_groups;
    uint64_t work;          /* comparisons so far */
    struct ds_apart states; /* those that are drafted */
    /* where the comparison that failed last did */
    struct zf_mismatch miss;
    /* A master of this group fits both parameters, so that no names are proven; name[0] is NULL
     * where that is not so. */
    struct {
        uint64_t group;
        const struct ds_name *name[2];
    } open;
};

/* Marks the weights of module and chooses how much of each is compared. */
bool ds_masters_init(struct ds_guess *q, struct zf_err *err) ZF_CHECKED;
/* Finds the pieces of a fused vector and whose they are, or sets q->open.
 * Errors: ZF_E_FORMAT naming a parameter whose piece does not round to it. */
bool ds_masters_cut(struct ds_guess *q, uint64_t g, const struct zf_tensor_ref *whole,
                    const struct zf_pv *state, struct zf_err *err) ZF_CHECKED;
/* Settles all groups, or sets q->open.  Errors: ZF_E_FORMAT naming a parameter that no master rounds
 * to; ZF_E_LIMIT too many comparisons. */
bool ds_masters_settle(struct ds_guess *q, struct zf_err *err) ZF_CHECKED;

#endif
