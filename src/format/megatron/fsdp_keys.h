/* SPDX-License-Identifier: Apache-2.0 */
/* The meaning of keys in a state dict that torch.distributed.checkpoint flattened by itself.  Pure: texts in,
 * texts out.
 *
 *   model.[module.…]<parameter>                                a weight
 *   optimizer.[N.][optimizer.]state.[module.…]<parameter>.<state>
 *                                                              a value of an optimizer's state; the
 *                                                              parameter may be an integer id
 *   optimizer.[N.][optimizer.]fp32_from_fp16_params.<group>.<i>
 *                                                              a master copy, without a name
 *
 * Source: megatron/training/checkpointing.py (generate_state_dict; preprocess_fsdp_dtensor_state_dict,
 * core 0.15 … 0.19), megatron/core/optimizer/optimizer.py (Float16OptimizerWithFloat16Params.state_dict). */
#ifndef FORMAT_MEGATRON_FSDP_KEYS_H
#define FORMAT_MEGATRON_FSDP_KEYS_H

#include "keys.h"

#define MG_FSDP_MASTERS "fp32_from_fp16_params"

/* Always succeeds: what is not understood is MG_OTHER.  A master without a name is MG_STATE of the state
 * "fp32_from_fp16_params", its name "<group>.<i>". */
void mg_fsdp_key(const char *key, size_t n, struct mg_key *out);

/* The number that is all of the text; false: it is none. */
bool mg_fsdp_id(struct mg_text t, uint64_t *out);

#endif
