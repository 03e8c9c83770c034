/* SPDX-License-Identifier: Apache-2.0 */
/* Knowledge of a tensor by its name in a rank's file: which layer and expert it is of, how the
 * tensor-parallel ranks share it, and how large all of it must be. */
#ifndef FORMAT_MEGATRON_LEGACY_NAMES_H
#define FORMAT_MEGATRON_LEGACY_NAMES_H

#include "../settings.h"

#define LEGACY_STACKS 6
#define LEGACY_MTP 2 /* that of multi-token prediction */

enum legacy_cut {
    LEGACY_COPY,    /* every rank holds all of it */
    LEGACY_ROWS,    /* cut along dimension 0 */
    LEGACY_GATED,   /* likewise, but a rank's rows are two halves [W_r | V_r] of [W | V] */
    LEGACY_COLUMNS, /* cut along dimension 1 */
    LEGACY_EITHER,  /* cut along dimension 0 or a copy: its size says which */
};

struct legacy_text {
    const char *p;
    size_t n;
};

struct legacy_name {
    enum legacy_cut cut;
    uint32_t ndim;
    uint64_t shape[2]; /* of the joined tensor; 0 = not known */
    /* The number of the layer within its file, and where in the name it is; n = 0: of no layer. */
    struct legacy_text stack; /* "decoder.layers.", which is in front of it */
    uint64_t layer;
    size_t layer_n;    /* digits */
    uint32_t stack_id; /* below LEGACY_STACKS */
    bool mtp;          /* its numbers are those of the whole model already */
    /* The same of the expert; at = 0: of none. */
    uint64_t expert;
    size_t expert_at, expert_n;
};

/* False: the name is not known, or its gated halves or heads are not as the table has them. */
bool legacy_names_parse(const char *p, size_t n, const struct megatron_settings *s,
                        struct legacy_name *out);

/* The stack whose last norm this terminated name is of; -1: of none. */
int legacy_names_final(const char *p, size_t n);

/* The name of the embedding that this is a tied copy of; NULL: it is none. */
const char *legacy_names_tied(const char *p, size_t n);

#endif
