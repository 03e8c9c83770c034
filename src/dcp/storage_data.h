/* SPDX-License-Identifier: Apache-2.0 */
/* storage_data: which range of which file holds each chunk's item. */
#ifndef DCP_STORAGE_DATA_H
#define DCP_STORAGE_DATA_H

#include "metadata.h"

/* Reads one pair of the dict into the chunks of r->d, after state_dict_metadata; it may be gone afterwards.
 * Errors: ZF_E_FORMAT names the key; ZF_E_NOMEM. */
bool dcp_take_storage(struct dcp_reading *r, const struct zf_pv *index, const struct zf_pv *info,
                      struct zf_err *err) ZF_CHECKED;
/* Notes what was strange, at the end.  Errors: ZF_E_NOMEM. */
bool dcp_end_storage(const struct dcp_reading *r, struct zf_err *err) ZF_CHECKED;

#endif
