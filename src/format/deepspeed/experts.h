/* SPDX-License-Identifier: Apache-2.0 */
/* Mixtures of experts.  An expert is trained by some data-parallel ranks only: a group of experts is
 * cut into fewer partitions than there are ranks, and there are as many vectors of it as ranks go
 * into them.  Of `sets` vectors, number e is spread over the ranks e, e + sets, e + 2 * sets …, or
 * in blocks over those that follow each other. */
#ifndef FORMAT_DEEPSPEED_EXPERTS_H
#define FORMAT_DEEPSPEED_EXPERTS_H

#include "rank.h"

/* Reads the files of the rank's experts.  Errors: ZF_E_FORMAT a file holds another expert, two files
 * hold one. */
bool ds_experts_read(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;
/* Divides mp->group by the ranks that share a vector, and gives the experts in it the numbers that
 * they have in the whole model.  Errors: ZF_E_FORMAT the ranks do not go with the groups, an
 * expert's file is missing. */
bool ds_experts_split(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;
/* The data-parallel ranks of vector e of file group g, [*n]; NULL = err is set. */
const uint32_t *ds_experts_ranks(const struct ds_rank *mp, uint32_t g, uint32_t e, uint32_t *n,
                                 struct zf_err *err);

/* Number of the expert in a name: "….deepspeed_moe.experts.deepspeed_experts.3.fc.weight" */
struct ds_expert_name {
    struct ds_name prefix, rest; /* in front of the number, and behind it */
    uint32_t number;
};
bool ds_expert_name(struct ds_name name, struct ds_expert_name *out);

/* The 16-bit weight of parameter p, or of expert l of those that are fused in it; NULL: not there, or
 * the name of the fused is longer than a thousand bytes. */
const struct ds_entry *ds_experts_weight(const struct ds_rank *mp, const struct ds_param *p,
                                         uint64_t l);

#endif
