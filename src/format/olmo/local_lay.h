/* SPDX-License-Identifier: Apache-2.0 */
/* A "local" save while it is opened: its flat parameters and how the ranks share them. */
#ifndef OLMO_LOCAL_LAY_H
#define OLMO_LOCAL_LAY_H

#include <zf/assemble/flat_vector.h>
#include <zf/assemble/numbered.h>
#include <zf/base/table.h>

#include "flat_params.h"
#include "save.h"

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
