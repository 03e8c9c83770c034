/* SPDX-License-Identifier: Apache-2.0 */
/* The folders of a legacy save, one per model-parallel rank. */
#ifndef FORMAT_MEGATRON_LEGACY_FILES_H
#define FORMAT_MEGATRON_LEGACY_FILES_H

#include <zf/assemble/coord.h>
#include <zf/base/arena.h>
#include <zf/source/store.h>

#include "../settings.h"

struct legacy_file {
    const char *dir;     /* "mp_rank_01_000" */
    const char *path;    /* the model's file; NULL = missing */
    const char *distrib; /* distrib_optim.pt, or NULL */
    uint32_t n_numbers;  /* in the folder's name, 1 … 3 */
    uint32_t number[3];
    /* The rank's coordinate in the mesh, set by legacy_files_arrange; the expert coordinate is that of the
     * expert-parallel group. */
    struct zf_coord at;
    uint32_t expert_tensor; /* rank in the expert's own tensor-parallel group */
};

struct legacy_files {
    struct legacy_file *file; /* in the natural order of their names */
    uint32_t n;
    struct zf_mesh mesh;    /* size of each axis; the virtual pipeline's is unknown here */
    uint32_t expert_tensor; /* size of the experts' own tensor axis */
    bool said;              /* the sizes are from args */
    /* Name of the model's file: "model_optim_rng.pt"; or "model_rng.pt", next to the optim.pt of the
     * first distributed optimizer (Megatron-LM 3.0). */
    const char *model;
    uint32_t n_optim;
};

/* Parses "mp_rank_01_000".  False: not such a name. */
bool legacy_files_parse(const char *name, struct legacy_file *out);

/* Is there a folder of a rank? */
bool legacy_files_any(struct zf_store *st);

/* The path of the states of f's distributed optimizer, in `a`.  NULL: out of memory. */
const char *legacy_files_distrib(const struct legacy_file *f, struct zf_arena *a,
                                 struct zf_err *err) ZF_CHECKED;

/* Lists the folders.  Errors: of the store, of the arena. */
bool legacy_files_list(struct zf_store *st, struct zf_arena *a, struct legacy_files *out,
                       struct zf_err *err) ZF_CHECKED;

/* Determines the rank of each folder by the sizes in args; without these, by the names.
 * *missing_out: NULL, or the name of a missing folder.
 * Errors: ZF_E_FORMAT a name that contradicts the sizes; of the arena. */
bool legacy_files_arrange(struct legacy_files *f, const struct megatron_settings *s,
                          struct zf_arena *a, const char **missing_out,
                          struct zf_err *err) ZF_CHECKED;

#endif
