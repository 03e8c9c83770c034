/* SPDX-License-Identifier: Apache-2.0 */
/* A "local" save while it is being opened: its flat parameters and how ranks share them. */
#ifndef OLMO_LOCAL_LAY_H
#define OLMO_LOCAL_LAY_H

#include <zf/assemble/flat_vector.h>
#include <zf/assemble/numbered.h>
#include <zf/assemble/tensor_ref.h>
#include <zf/base/table.h>

#include "save.h"

/* The part of a parameter in a shard, as recorded in the file. */
struct olmo_part {
    bool in;               /* a part of it is in this shard */
    uint64_t at, first, n; /* offset in the shard and in the parameter; length (elements) */
};

struct olmo_param {
    const char *name; /* full name, without wrappers */
    uint32_t ndim;
    const uint64_t *shape;
    uint64_t len; /* number of elements */
    uint64_t pad; /* elements of padding after it in the whole vector */
    struct olmo_part part;
};

/* One flat parameter. */
struct olmo_flat {
    uint32_t n;
    struct olmo_param *param;  /* [n] in the order of the vector */
    struct zf_tensor_ref data; /* this rank's shard with its padding: contiguous, one dimension */
};

struct olmo_flats {
    uint32_t n;
    struct olmo_flat *flat; /* [n] */
    uint64_t n_params;      /* total over all flat parameters */
};

/* Reads the root value of t.  Strings and numbers are in k's arena, k holds the sources.
 * Errors: ZF_E_FORMAT the value is not of this form, or contradicts itself; of the arena. */
bool flat_params_read(struct zf_keeper *k, struct zf_torch *t, struct olmo_flats *out,
                      struct zf_err *err) ZF_CHECKED;

/* Checks that both have the same parameters in the same order; does not compare parts.
 * Errors: ZF_E_FORMAT naming the first difference and both files. */
bool flat_params_agree(const struct olmo_flats *f, const struct olmo_flats *first,
                       const char *first_path, struct zf_err *err) ZF_CHECKED;

struct olmo_where {
    uint32_t flat, param;
};

struct olmo_local {
    struct olmo_save *save;
    struct zf_ranks model;
    /* number of ranks that share a flat parameter: all, or those of one replica */
    uint32_t n_shards;
    struct olmo_flats first; /* of the first rank whose file could be read */
    const char *first_path;
    struct zf_flat_vector *vector; /* [first.n]: where each parameter is */
    struct olmo_where *where;      /* [first.n_params] in the order of the file */
    struct local_name *by_name;    /* hash of a parameter's name -> its index in `where` */
};

/* Entry of by_name. */
struct local_name {
    UT_hash_handle hh;
    uint32_t number;
};

/* Computes from l->first how many ranks share a vector, and where each parameter is.
 * Errors: ZF_E_FORMAT the shards do not fit the number of ranks with files; of the arena. */
bool local_lay(struct olmo_local *l, struct zf_err *err) ZF_CHECKED;

/* The part of a parameter that is in `shard`; false: none. */
bool local_part(const struct olmo_local *l, struct olmo_where at, uint32_t shard,
                struct zf_flat_piece *out);

/* Drafts the optimizer states of all parameters, if there is an optim/ (local_optim.c). */
bool local_optim_draft(struct olmo_local *l, struct zf_err *err) ZF_CHECKED;

#endif
