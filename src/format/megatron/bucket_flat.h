/* SPDX-License-Identifier: Apache-2.0 */
/* The flat buffers of a save: tensors of bucket space and dp_reshardable, and those in the objects of
 * dp_zero_gather_scatter. */
#ifndef FORMAT_MEGATRON_BUCKET_FLAT_H
#define FORMAT_MEGATRON_BUCKET_FLAT_H

#include "bucket_match.h"
#include "save.h"

/* One state of a buffer. */
struct flat_state {
    struct mg_text name;
    struct zf_draft **bucket; /* [n_buckets] */
};
struct flat_buffer {
    const char *name; /* of the object, or of the keys without bucket_idx; for messages */
    uint32_t chain;   /* MG_NO_CHAIN */
    uint64_t group, gbuf;
    struct mg_text dtype; /* "(torch.bfloat16, torch.float32)": of weights and of gradients */
    uint32_t n_buckets, n_states;
    struct flat_state *state;
    const struct flat_state *master; /* or NULL */
    uint64_t *len;                   /* [n_buckets] without padding; NULL = not known */
    bool joined;
    const char *why; /* it cannot be mapped, or NULL */
};
struct flat_buffers {
    zf_vec(struct flat_buffer);
};

static inline void zf_auto_flat_buffers(struct flat_buffers *f)
{
    zf_vec_fini(f);
}

/* Makes tensors of what dp_zero's objects hold, and finds all buffers; texts and arrays live in `arena`.
 * A fault of one buffer is its `why`.  Errors: of the build; ZF_E_NOMEM. */
bool mg_flat_find(struct mg_save *s, struct zf_arena *arena, struct flat_buffers *out,
                  struct zf_err *err) ZF_CHECKED;

#endif
