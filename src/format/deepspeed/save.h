/* SPDX-License-Identifier: Apache-2.0 */
/* Common to all model-parallel ranks of a save. */
#ifndef FORMAT_DEEPSPEED_SAVE_H
#define FORMAT_DEEPSPEED_SAVE_H

#include <zf/assemble/agree.h>
#include <zf/assemble/open_opts.h>
#include <zf/assemble/tensor_ref.h>
#include <zf/assemble/torch_ahead.h>

#include "files.h"

struct ds_save {
    struct zf_store *run; /* the directory that was pointed at; may be the tag itself */
    struct zf_store *st;  /* the tag directory */
    const struct zf_open_opts *o;
    struct zf_build *b;
    struct zf_arena *a; /* work memory, gone once the tensors are drafted */
    struct ds_dir dir;
    struct zf_torch_ahead files; /* of st: model and optimizer states */
    struct zf_keeper keep;       /* of the tensors of every file, until they are drafted */
    bool want_slices;            /* read param_slice_mappings: nothing else names the parameters */
    uint64_t swap_unit[2];       /* bytes to a multiple of which swap files are rounded up */
    uint64_t n_ranks;   /* model-parallel ranks as recorded, which may have no files; 0: unknown */
    uint64_t swap_rank; /* whose swap folder that of the file being read is */
    uint32_t tp, pp;    /* ranks along the tensor and the pipeline axis: n_mp = tp * pp */
    /* Values that every file of one save repeats: of the file read last, of the model-parallel rank's first
     * model-states and first optimizer file, of the job; and steps, which optimizer files alone have. */
    struct zf_agree *said, *said_model, *said_optim, *said_job;
    struct zf_agree *said_steps, *said_job_steps;
    bool told_model, told_optim; /* state/ has the settings of such a file */
};

/* Of file[n], sorted, those of data-parallel ranks below n_dp will be read next, in their order:
 * they are opened ahead. */
bool save_expect(struct ds_save *ds, const struct ds_file *file, uint32_t n, uint32_t n_dp,
                 struct zf_err *err) ZF_CHECKED;

/* The same of all of them, of which nothing is wanted but what they repeat of the file `first`. */
bool save_expect_alike(struct ds_save *ds, const char *first, const struct ds_file *file,
                       uint32_t n, struct zf_err *err) ZF_CHECKED;

/* Does the failure name its file already?  ('!' begins a place inside one.) */
static inline bool ds_err_named(const struct zf_err *err)
{
    return err->path[0] != '\0' && err->path[0] != '!';
}

#endif
