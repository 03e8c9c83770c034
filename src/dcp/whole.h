/* SPDX-License-Identifier: Apache-2.0 */
/* Is a bytes item one whole file of its own?  .metadata contains only its offset and length. */
#ifndef DCP_WHOLE_H
#define DCP_WHOLE_H

#include "items.h"

/* Is the item exactly one zip archive, torch.save stream or pickle, without missing or trailing bytes?
 * Decompresses compressed items; unknown transformations pass, and so do pickles larger than
 * lim->pickle_bytes.
 * Errors: ZF_E_FORMAT it is not; ZF_E_IO, ZF_E_STALE, ZF_E_NOMEM, ZF_E_LIMIT. */
bool dcp_whole(struct zf_source *file, struct dcp_item item, const struct zf_limits *lim,
               struct zf_err *err) ZF_CHECKED;

/* The bytes of the item as a source that checks before its first read that the item is whole; reads fail
 * if it is not.  Takes its own reference on file. */
struct zf_source *dcp_whole_new(struct zf_source *file, struct dcp_item item,
                                const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;

extern const struct zf_source_kind dcp_whole_kind;

#endif
