/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizers without ZeRO: torch state dicts, whose states have parameter ids instead of names. */
#ifndef FORMAT_DEEPSPEED_ZERO0_H
#define FORMAT_DEEPSPEED_ZERO0_H

#include <zf/assemble/prove.h>

#include "overlap.h"
#include "steps.h"

/* Drafts the states in one file. */
struct ds_states {
    struct ds_save *ds;
    struct zf_torch *torch; /* the open file */
    const char *path;       /* of the open file */
    struct ds_overlap overlap;
};
static inline void zf_auto_states(struct ds_states *s)
{
    zf_vec_fini(&s->overlap);
}

/* A parameter's range of a flat buffer. */
struct ds_stretch {
    const struct zf_tensor_ref *like; /* has the parameter's shape */
    uint64_t at;                      /* first element */
    uint64_t whole;                   /* elements of the flat buffer; 0: the range is all of it */
};

/* Drafts a number or a dense tensor, the value `key` of parameter spot.name; other values are ignored, or left out with
 * a note.  part: the tensor must be as long as the range, or as the flat buffer that contains it; NULL: any length. */
bool ds_states_draft_value(struct ds_states *s, struct zf_spot spot, struct ds_name key,
                           const struct zf_pv *v, const struct ds_stretch *part,
                           struct zf_err *err) ZF_CHECKED;
/* The same for all string keys of `map`, each in its own set. */
bool ds_states_draft(struct ds_states *s, struct ds_name name, const struct zf_pv *map,
                     const struct ds_stretch *part, struct zf_err *err) ZF_CHECKED;

/* A save without ZeRO, whose model-states file holds the optimizer. */
struct ds_zero0 {
    struct ds_rank *mp;
    struct zf_prove_weight *weight; /* [n_entries]; view set: a possible trained parameter */
    struct ds_states states;
};

/* Drafts the states of an optimizer without masters (fp32 training) under parameter names, if the optimizer recorded
 * them, or if each state has the shape of exactly one weight; else leaves them to ds_numbered_draft. */
bool ds_zero0_bare(struct ds_zero0 *q, const struct zf_pv *optim, struct zf_err *err) ZF_CHECKED;

#endif
