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

/* Takes ds_autoep_layers into *out, sorted by name; at most so many tensors.  Two records of it must agree; zerofs cannot
 * read experts that are cut in another way than one after the other. */
void ds_autoep_take(const struct zf_take *layers, uint64_t most, struct ds_fused **out,
                    uint32_t *n_out);
/* The fused tensor of that name, or NULL. */
const struct ds_fused *ds_autoep_find(const struct ds_fused *fused, uint32_t n,
                                      struct ds_name name);

#endif
