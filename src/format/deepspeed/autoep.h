/* SPDX-License-Identifier: Apache-2.0 */
/* AutoEP: a layer's experts are one tensor, cut along its first dimension over the ranks of expert
 * parallelism, and the model-states files say how. */
#ifndef FORMAT_DEEPSPEED_AUTOEP_H
#define FORMAT_DEEPSPEED_AUTOEP_H

#include "name.h"
#include "save.h"

/* One of a layer's fused tensors. */
struct ds_fused {
    struct ds_name name; /* of the whole and of each shard of it */
    uint32_t ndim;
    const uint64_t *shape; /* [ndim] of the whole; NULL = not recorded: n_ep times the shard */
    uint32_t n_ep;         /* ranks of expert parallelism */
    const uint64_t *first; /* [n_ep] the first expert of each … */
    const uint64_t *n;     /* [n_ep] … and how many it has */
    uint32_t ep_rank;      /* of the file that says all this */
};

/* Reads ds_autoep_layers into *out, sorted by name.
 * Errors: ZF_E_FORMAT a value of the wrong kind, two records of it disagree; ZF_E_UNSUPPORTED cut
 * in another way than experts one after the other. */
bool ds_autoep_read(struct ds_save *ds, const struct zf_pv *layers, struct ds_fused **out,
                    uint32_t *n_out, struct zf_err *err) ZF_CHECKED;
/* The fused tensor of that name, or NULL. */
const struct ds_fused *ds_autoep_find(const struct ds_fused *fused, uint32_t n,
                                      struct ds_name name);

#endif
