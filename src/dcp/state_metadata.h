/* SPDX-License-Identifier: Apache-2.0 */
/* state_dict_metadata: which tensors and bytes items there are, and their chunks. */
#ifndef DCP_STATE_METADATA_H
#define DCP_STATE_METADATA_H

#include "metadata.h"

/* Reads one entry of the dict into r->d; it may be gone afterwards.  A name that an earlier
 * metadata file described (rank-local metadata) gets further chunks; a chunk that was there already
 * is passed over.
 * Errors: ZF_E_FORMAT names the key; ZF_E_UNSUPPORTED dtype, torch 1.12; ZF_E_LIMIT. */
bool dcp_take_state(struct dcp_reading *r, const struct zf_pv *key, const struct zf_pv *v,
                    struct zf_err *err) ZF_CHECKED;

#endif
