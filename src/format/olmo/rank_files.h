/* SPDX-License-Identifier: Apache-2.0 */
/* The files of one directory of a save that are numbered by rank: model/rank3.pt,
 * optim/rank_3.safetensors.  Source: olmo/checkpoint.py (0.2 ... 0.6). */
#ifndef OLMO_RANK_FILES_H
#define OLMO_RANK_FILES_H

#include <zf/base/arena.h>
#include <zf/source/store.h>

/* Names of the files: <dir>/<stem><rank><tail>; dir "" is the root of the store. */
struct olmo_series {
    const char *dir, *stem, *tail;
};

struct olmo_ranks {
    const char *dir;   /* "model/", or "" for the root of the store */
    uint32_t n;        /* the greatest rank and one */
    uint32_t n_here;   /* files that are there */
    const char **path; /* [n] */
    bool *here;        /* [n] */
};

/* Is this <stem><decimal number><tail>?  *rank_out is the number. */
bool rank_files_parse(const char *name, const char *stem, const char *tail, uint32_t *rank_out);

/* Lists them; none is opened.  world: ranks that there are at least, known from elsewhere, or 0.
 * Errors: ZF_E_LIMIT too many ranks; of the arena. */
bool rank_files_list(struct zf_store *st, struct zf_arena *a, struct olmo_series series,
                     uint32_t world, struct olmo_ranks *out, struct zf_err *err) ZF_CHECKED;

/* The first file that is not there must not be missing.  Errors: ZF_E_FORMAT. */
bool rank_files_complete(const struct olmo_ranks *r, struct zf_err *err) ZF_CHECKED;

#endif
