/* SPDX-License-Identifier: Apache-2.0 */
/* A "local" save while it is opened: its flat parameters and how the ranks share them. */
#ifndef OLMO_LOCAL_LAY_H
#define OLMO_LOCAL_LAY_H

#include <zf/assemble/flat_vector.h>
#include <zf/assemble/numbered.h>
#include <zf/assemble/tensor_ref.h>
#include <zf/base/table.h>

#include "save.h"

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

struct olmo_where {
    uint32_t flat, param;
};

struct olmo_local {
    struct olmo_save *save;
    struct zf_ranks model;
    /* the ranks that shard a flat parameter; all of them, or those of one replica */
    uint32_t n_shards;
    struct olmo_flats first; /* of the first rank whose file could be read */
    const char *first_path;
    struct zf_flat_vector *vector; /* [first.n]: where each parameter is */
    struct olmo_where *where;      /* [first.n_params] in the order of the file */
    struct local_name *by_name;    /* hash of a parameter's name -> its number in where */
};

/* Entry of by_name. */
struct local_name {
    UT_hash_handle hh;
    uint32_t number;
};

/* Works out from l->first how many ranks share a vector, and where everything is.
 * Errors: ZF_E_FORMAT the shards are not of as many ranks as have files; of the arena. */
bool local_lay(struct olmo_local *l, struct zf_err *err) ZF_CHECKED;

/* The part that shard i has of a parameter; false: none. */
bool local_part(const struct olmo_local *l, struct olmo_where at, uint32_t shard,
                struct zf_flat_piece *out);

/* Drafts the states of all parameters, when there is an optim/ at all (local_optim.c). */
bool local_optim_draft(struct olmo_local *l, struct zf_err *err) ZF_CHECKED;

#endif
