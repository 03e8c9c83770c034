/* SPDX-License-Identifier: Apache-2.0 */
/* Order-independent hash of an affine map, which is too large to keep for comparing ranks. */
#ifndef FORMAT_DEEPSPEED_TP_DIGEST_H
#define FORMAT_DEEPSPEED_TP_DIGEST_H

#include <zf/codec/torch.h>

/* The same for the same values in mappings of any order, and else hardly ever; 0 for what is no mapping, or
 * has more than some million values.  Errors: ZF_E_NOMEM. */
bool ds_tp_digest(const struct zf_pv *v, uint64_t *out, struct zf_err *err) ZF_CHECKED;

#endif
