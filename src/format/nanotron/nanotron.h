/* SPDX-License-Identifier: Apache-2.0 */
/* A nanotron save while it is being opened. */
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
    uint64_t at, n; /* offset in the rank's tensor, in C order, and number of elements */
};

/* A rank's part of a tensor. */
struct nanotron_part {
    uint32_t n;
    const struct nanotron_slice *slice; /* [n], stored one after the other */
    uint64_t elems;                     /* number of elements of the rank's tensor */
};

/* Reads shape and slices from the header of a file with one tensor; without them it holds the whole tensor.
 * *whole: dtype and shape of the whole.  Errors: ZF_E_FORMAT; ZF_E_UNSUPPORTED steps, slices that are not
 * consecutive rows; of the arena. */
bool slices_read_part(const struct zf_st_header *h, struct zf_arena *a, struct zf_type *whole,
                      struct nanotron_part *out, struct zf_err *err) ZF_CHECKED;

/* Adds elements [first, end) of the rank's tensor, which are contiguous at byte off of src, to the whole tensor. */
bool slices_put(const struct nanotron_part *p, struct zf_draft *whole, uint64_t first, uint64_t end,
                struct zf_source *src, uint64_t off, struct zf_err *err) ZF_CHECKED;

#define NANOTRON_META "checkpoint_metadata.json"
#define NANOTRON_CONFIG "optimizer/optimizer_config.json"

struct nanotron_param {
    UT_hash_handle hh; /* key: name */
    const char *name;
    struct zf_type type;
    uint32_t n_parts;           /* number of tensor-parallel shards; 1: it is not sharded */
    struct nanotron_part *part; /* [n_parts]; n is 0 if the file could not be read */
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
    const struct zf_pv *config; /* with ZeRO: optimizer_config.json; else NULL */
};

/* Loads a small JSON file of the save.  NULL: errors of the store; of zf_pv_of_json. */
const struct zf_pv *nanotron_json(const struct nanotron *s, const char *path, struct zf_err *err);

/* Drafts the optimizer states, after the parameters. */
bool optim_draft(struct nanotron *s, struct zf_err *err) ZF_CHECKED;

#endif
