/* SPDX-License-Identifier: Apache-2.0 */
/* Saves that name the parameters of all groups in one mapping (before 0.5.4), and which of them are in
 * which vector, in what order. */
#ifndef FORMAT_DEEPSPEED_MERGED_H
#define FORMAT_DEEPSPEED_MERGED_H

#include "rank.h"

/* Types of weights that masters are compared with. */
#define DS_MERGED_TYPES                                                                            \
    {                                                                                              \
        ZF_DT_F16, ZF_DT_BF16, ZF_DT_F32                                                           \
    }

/* Proves the groups and their order, and puts mp->group in it.
 * Errors: ZF_E_FORMAT not proven; a master does not round to its weight; of reading. */
bool ds_merged_settle(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;

/* Can e be the weight of p in `module`?  e may be NULL. */
bool ds_merged_is_weight(const struct ds_entry *e, const struct ds_param *p);

/* The groups as the storages of `module` show them, where each vector goes with the weights of one
 * storage alone; these are compared.  *out NULL: they do not show it.  Errors: of reading. */
bool ds_merged_by_storage(struct ds_rank *mp, struct ds_group **out, struct zf_err *err) ZF_CHECKED;

/* The groups as the values of `module` show them, weight by weight.  *out NULL: nothing fits anywhere.
 * Errors: ZF_E_FORMAT the weights leave it open (naming both parameters), fit for a part only, or in
 * neither order; of reading. */
bool ds_merged_by_value(struct ds_rank *mp, struct ds_group **out, struct zf_err *err) ZF_CHECKED;

#endif
