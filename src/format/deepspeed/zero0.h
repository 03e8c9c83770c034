/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizers without ZeRO: state dicts of torch, whose states have numbers. */
#ifndef FORMAT_DEEPSPEED_ZERO0_H
#define FORMAT_DEEPSPEED_ZERO0_H

#include <zf/assemble/prove.h>

#include "overlap.h"
#include "steps.h"

/* The states of one file that are drafted. */
struct ds_states {
    struct ds_save *ds;
    struct zf_torch *torch; /* the open file */
    const char *path;       /* of it */
    struct ds_overlap overlap;
};
static inline void zf_auto_states(struct ds_states *s)
{
    zf_vec_fini(&s->overlap);
}

/* A part of a group's vector. */
struct ds_stretch {
    const struct zf_tensor_ref *like; /* shape and elements */
    uint64_t at;                      /* first element */
    uint64_t whole;                   /* elements of the vector; 0: the part is all of it */
};

/* Drafts a number or a dense tensor, the value `key` of parameter spot.name; others are nothing, or left out with a note.
 * part: the tensor is as long as that, or as the whole vector, of which it is the part; NULL: of any length. */
bool ds_states_draft_value(struct ds_states *s, struct zf_spot spot, struct ds_name key,
                           const struct zf_pv *v, const struct ds_stretch *part,
                           struct zf_err *err) ZF_CHECKED;
/* The same of all text keys of `map`, each in its own set. */
bool ds_states_draft(struct ds_states *s, struct ds_name name, const struct zf_pv *map,
                     const struct ds_stretch *part, struct zf_err *err) ZF_CHECKED;

/* A save without ZeRO, whose model-states file holds the optimizer. */
struct ds_zero0 {
    struct ds_rank *mp;
    struct zf_prove_weight *weight; /* [n_entries] trained parameters, by all but their bytes */
    struct ds_states states;
};

/* Drafts the states of an optimizer that keeps no masters (fp32 training): under the parameters' names where the optimizer
 * recorded these, or where each state has the shape of one weight only; else leaves them to ds_numbered_draft. */
bool ds_zero0_bare(struct ds_zero0 *q, const struct zf_pv *optim, struct zf_err *err) ZF_CHECKED;

#endif
