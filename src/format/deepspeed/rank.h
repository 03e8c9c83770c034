/* SPDX-License-Identifier: Apache-2.0 */
/* One model-parallel rank: its model states, and the optimizer's over its data-parallel ranks. */
#ifndef FORMAT_DEEPSPEED_RANK_H
#define FORMAT_DEEPSPEED_RANK_H

#include "optim_states.h"

/* A parameter group: what its flat vectors hold, and who has a part of them. */
struct ds_group {
    uint32_t index; /* in the optimizer files of its ranks */
    uint32_t n;
    struct ds_param *param;       /* [n] in the order of the vectors */
    uint64_t *len;                /* [n] their elements */
    const struct ds_optim **rank; /* [n_ranks] in the order of the partitions; not all are lost */
    uint32_t n_ranks;             /* 0: there are no optimizer files */
};

struct ds_rank {
    struct ds_save *save;
    uint32_t mp, stage, tensor; /* its number, and its place in the mesh */
    char tree[24];              /* where its tensors are drafted; "" = the root */
    const struct ds_file *model_file, *optim_file; /* of this rank */
    uint32_t n_model_files, n_optim_files;
    struct ds_model model; /* data-parallel rank 0's; degraded: of the first that can be read */
    const struct ds_file *model_from; /* its file */
    bool lost;                        /* degraded: no model-states file of the rank can be read */
    bool optim_only; /* no model-states file is readable; names come from the optimizer files */
    struct ds_optim *optim; /* [n_dp] in the order of the ranks; NULL: there are no files */
    uint32_t n_dp;          /* data-parallel ranks */
    struct ds_group *group;
    uint32_t n_groups;
    /* The parameters of all groups, where one mapping names them (before 0.5.4), frozen ones perhaps among
     * them (before 0.4.3); or NULL. */
    const struct ds_shapes *merged;
    bool placed;            /* … and the groups are what the weights prove, in their real order */
    bool blocks;            /* ranks of an expert are contiguous (experts.h) */
    bool renumbered;        /* experts have other numbers in their files than here */
    struct ds_model expert; /* entries: the 16-bit weights of the experts' files */
    const struct ds_file **expert_file; /* [n_entries] file that each was read from */
    uint64_t n_expert_room;             /* entries that there is memory for */
    bool *trained;                      /* [n_entries] the optimizer has it, by some name */
    bool by_slices;                     /* param_slice_mappings name the parameters */
    bool weights_only;   /* masters are unavailable or unproven: the root shows those of `module` */
    bool numbered;       /* what its optimizer holds has no names (numbered.c) */
    const uint32_t *tie; /* of the entries of model */
    /* without param_shapes: the tied modules' parameters, by their layers' files */
    struct ds_shapes tied;
    struct ds_name *own; /* [n_own] trained parameters that are in no group (stage 0) */
    uint32_t n_own;
    struct zf_agree *said_model, *said_optim; /* while another rank's files are read */
    bool compared;                            /* the model-states files were compared early … */
    struct zf_err verdict; /* … with this result, reported after the parameters (zero3.c) */
};

/* Reads the rank's files.
 * Errors: ZF_E_FORMAT files are missing, left over or of other saves; those of reading them. */
bool rank_read(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;
/* Compares the model-states files behind the one that was read with it, or tells what came of that. */
bool rank_agree_models(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;
/* The first optimizer file that could be read, or NULL. */
const struct ds_optim *rank_optim(const struct ds_rank *mp);
/* Degraded: handles the failure to read m, which is as good as missing then.  Files of two saves are
 * refused all the same. */
bool rank_skip_model(struct ds_save *ds, const struct ds_model *m, struct zf_err *err) ZF_CHECKED;
/* The rank's tensor of that name that is no state, as far as it is drafted, or NULL: in a universal save
 * what was trained is at the root. */
struct zf_draft *rank_find(const struct ds_rank *mp, struct ds_name name);
/* Degraded: handles a failure to prove which masters are whose.  The weights are then those of
 * `module`, and a note says why.  Else it gives the failure back. */
bool rank_leave_out(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;

#endif
