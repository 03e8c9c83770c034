/* SPDX-License-Identifier: Apache-2.0 */
/* A save of nanotron while it is opened. */
#ifndef NANOTRON_NANOTRON_H
#define NANOTRON_NANOTRON_H

#include <zf/assemble/numbered.h>
#include <zf/assemble/pieces.h>
#include <zf/assemble/torch_ahead.h>
#include <zf/base/table.h>
#include <zf/codec/safetensors.h>
#include <zf/format.h>
#include <zf/model/build.h>

/* A box of the whole tensor. */
struct nanotron_slice {
    const uint64_t *start, *size; /* [ndim] elements */
    uint64_t at, n; /* elements: where the rank's tensor has it, in C order, and how many */
};

/* A part of a tensor, as one rank has it. */
struct nanotron_part {
    uint32_t n;
    const struct nanotron_slice *slice; /* [n] one behind the other */
    uint64_t elems;                     /* of the rank's tensor */
};

/* Reads both texts of the header of a file with one tensor; without them it is the whole tensor.  *whole: its type.
 * Errors: ZF_E_FORMAT; ZF_E_UNSUPPORTED steps, slices that are not rows one behind the other; of the arena. */
bool slices_read_part(const struct zf_st_header *h, struct zf_arena *a, struct zf_type *whole,
                      struct nanotron_part *out, struct zf_err *err) ZF_CHECKED;

/* Elements [first, end) of the rank's tensor are at src's byte off, packed: puts them into the whole one. */
bool slices_put(const struct nanotron_part *p, struct zf_draft *whole, uint64_t first, uint64_t end,
                struct zf_source *src, uint64_t off, struct zf_err *err) ZF_CHECKED;

#define NANOTRON_META "checkpoint_metadata.json"
#define NANOTRON_CONFIG "optimizer/optimizer_config.json"

struct nanotron_param {
    UT_hash_handle hh; /* by name */
    const char *name;
    struct zf_type type;
    uint32_t n_parts;           /* tensor-parallel ranks; 1: it is not cut */
    struct nanotron_part *part; /* [n_parts]; without slices: its file could not be read */
};

struct nanotron {
    struct zf_store *st;
    const struct zf_open_opts *o;
    struct zf_build *b;
    struct zf_keeper keep;
    struct zf_torch_ahead ahead;
    uint64_t tp, dp;
    struct nanotron_param *param; /* uthash */
    struct zf_pieces pieces;
    struct zf_numbered optim;
    const char **path;          /* [optim.file.n] */
    const struct zf_pv *config; /* under ZeRO: optimizer_config.json; else NULL */
};

/* A small JSON document of the save.  NULL: of the store; of zf_pv_of_json. */
const struct zf_pv *nanotron_json(const struct nanotron *s, const char *path, struct zf_err *err);

/* Drafts the states of the parameters, which are drafted already. */
bool optim_draft(struct nanotron *s, struct zf_err *err) ZF_CHECKED;

#endif
