/* SPDX-License-Identifier: Apache-2.0 */
/* One rank's model file of OLMo's "local" layout: its shards of FSDP's flat parameters,
 * and where in them the parameters are.
 *
 * {"modules": [{"name": text, "handles": [{"flat_param.data": vector, …}, …]}, …]}.
 * Source: olmo/checkpoint.py, LocalShardedCheckpointer (0.2 … 0.6); torch/distributed/fsdp/
 * flat_param.py (1.13 … 2.0), _flat_param.py (2.2 … 2.14). */
#ifndef OLMO_FLAT_PARAMS_H
#define OLMO_FLAT_PARAMS_H

#include <zf/assemble/tensor_ref.h>

/* The part of a parameter that a shard holds, as the file says it. */
struct olmo_part {
    bool in;               /* is anything of it in this shard? */
    uint64_t at, first, n; /* elements: place in the shard, and in the parameter; how many */
};

struct olmo_param {
    const char *name; /* full, without wrappers */
    uint32_t ndim;
    const uint64_t *shape;
    uint64_t len; /* elements */
    uint64_t pad; /* elements of padding behind it in the whole vector */
    struct olmo_part part;
};

/* One flat parameter. */
struct olmo_flat {
    uint32_t n;
    struct olmo_param *param;  /* [n] in the order of the vector */
    struct zf_tensor_ref data; /* packed, of one dimension: this rank's shard, with its padding */
};

struct olmo_flats {
    uint32_t n;
    struct olmo_flat *flat; /* [n] */
    uint64_t n_params;      /* of all */
};

/* Reads the root value of t.  Texts and numbers are in k's arena, sources are held by k.
 * Errors: ZF_E_FORMAT the value is not of this form, or contradicts itself; of the arena. */
bool flat_params_read(struct zf_keeper *k, struct zf_torch *t, struct olmo_flats *out,
                      struct zf_err *err) ZF_CHECKED;

/* Do both speak of the same parameters in the same order?  The parts are not compared.
 * Errors: ZF_E_FORMAT naming the first difference and both files. */
bool flat_params_agree(const struct olmo_flats *f, const struct olmo_flats *first,
                       const char *first_path, struct zf_err *err) ZF_CHECKED;

#endif
