/* SPDX-License-Identifier: Apache-2.0 */
/* Content of the ranks' files, kept after their pickles are freed. */
#ifndef FORMAT_MEGATRON_LEGACY_SAVE_H
#define FORMAT_MEGATRON_LEGACY_SAVE_H

#include <zf/assemble/agree.h>
#include <zf/assemble/open_opts.h>
#include <zf/assemble/tensor_ref.h>
#include <zf/assemble/torch_ahead.h>

#include "parts.h"

/* A value of an optimizer's state: a tensor, or a number. */
struct legacy_value {
    const char *key; /* "exp_avg" */
    bool number;
    enum zf_dtype dtype; /* of a number: I64 or F64, in bits */
    uint64_t bits;
    struct zf_tensor_ref ref;
};

/* More of a part of the model: part i of struct legacy_save is tensor i. */
struct legacy_tensor {
    struct zf_tensor_ref ref;
    bool trained; /* it has a master, and this is proved */
    struct zf_tensor_ref master;
    zf_vec(struct legacy_value) state;
};

/* A value that is proved to be of no parameter: under its number. */
struct legacy_stray {
    const char *name;
    struct legacy_value value;
};

#define LEGACY_NO_WRITER UINT64_MAX
struct legacy_rank {
    const struct legacy_file *file;
    uint64_t writer; /* args.rank, the process that wrote the file; or LEGACY_NO_WRITER */
    bool lost;       /* degraded: it could not be read */
    uint32_t first_part, n_parts; /* of the save */
    uint32_t first_stray, n_strays;
    uint32_t first_flat, n_flats;
    uint32_t n_chunks;    /* of the virtual pipeline */
    bool numbered;        /* "model0", not "model" */
    const char *unproven; /* why its masters have no names; NULL = they have, or there are none */
    const char *unmapped; /* a flat buffer without names, and why; NULL: there is none */
    const char *odd;      /* a tensor of the model that could not be read, or NULL */
};

/* A flat vector of distrib_optim.pt. */
struct legacy_flat {
    const char *name; /* its path in the file: "0.(torch.bfloat16, torch.float32).exp_avg" */
    struct zf_tensor_ref ref;
};

struct legacy_save {
    struct zf_store *st;
    const struct zf_open_opts *o;
    struct zf_build *b;
    struct zf_arena *a; /* work memory, gone once the tensors are drafted */
    struct zf_keeper keep;
    struct zf_torch_ahead ahead;
    struct zf_agree *said; /* what the first rank's file says and all must */
    struct megatron_settings settings;
    double version;    /* checkpoint_version; 0 = not said */
    uint32_t compares; /* that may still be made to map flat buffers, for all of them together */
    struct legacy_files files;
    struct legacy_rank *rank; /* [files.n] */
    zf_vec(struct legacy_part) part;
    zf_vec(struct legacy_tensor) tensor;
    zf_vec(struct legacy_stray) stray;
    zf_vec(struct legacy_flat) flat;
};
#endif
