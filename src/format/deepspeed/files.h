/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a tag directory. */
#ifndef FORMAT_DEEPSPEED_FILES_H
#define FORMAT_DEEPSPEED_FILES_H

#include <zf/base/arena.h>
#include <zf/source/store.h>

struct ds_file {
    const char *path; /* in the tag's store */
    uint32_t dp;      /* data-parallel rank, of an expp_rank_* file the expert-parallel one; 0 for
                       * mp_rank_* files */
    uint32_t mp;      /* model-parallel rank */
    uint32_t writer;  /* "….pt-W.N" of the parallel writer; 0 without */
    uint32_t layer;   /* of a pipeline layer's file, whose mp is the tensor-parallel rank; of an
                       * expert's file, among the layers with experts */
    uint32_t expert;  /* in the whole model */
    bool bf16;        /* "bf16_" in front */
};

struct ds_dir {
    struct ds_file *model, *optim; /* sorted by (mp, dp), without doubles */
    uint32_t n_model, n_optim;
    uint32_t n_mp;          /* model-parallel ranks seen in any name */
    bool by_rank;           /* model states of every rank: stage 3 */
    struct ds_file *expert; /* of experts, sorted by (mp, layer, expert) */
    uint32_t n_experts;
    struct ds_file *expp; /* of the optimizers of expert-parallel ranks, sorted by (mp, dp) */
    uint32_t n_expp;
    struct ds_file *layer; /* of pipeline layers, sorted by (mp, layer) */
    uint32_t n_layers;
    bool layer_model;      /* their names have a tensor-parallel rank */
    const char *swap;      /* the folder of NVMe swap files, or NULL */
    const char *universal; /* the folder of a universal checkpoint, or NULL */
};

/* True for the name of one rank's file. */
bool ds_dir_owns(const char *name);
/* A source inside a torch archive carries the name under which the archive was written:
 * "run/renamed.pt!zero_pp_rank_1_mp_rank_00_optim_states/data/0".  The rank must be that of the
 * file's path now.  Errors: ZF_E_FORMAT naming the other. */
bool ds_dir_same_rank(const char *path, const char *source, struct zf_err *err) ZF_CHECKED;

/* Sorts the names of directory st.  Strings live in the arena.
 * Errors: ZF_E_FORMAT two files claim one rank; of the store; of the arena. */
bool ds_dir_read(struct zf_store *st, struct zf_arena *a, struct ds_dir *out,
                 struct zf_err *err) ZF_CHECKED;

#endif
