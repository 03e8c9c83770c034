/* SPDX-License-Identifier: Apache-2.0 */
/* Is a bytes item one whole file of its own?  Its offset and length are all that .metadata says of it. */
#ifndef DCP_WHOLE_H
#define DCP_WHOLE_H

#include "items.h"

/* Is the item exactly one zip archive, torch.save stream or pickle, none of its bytes missing and no
 * others behind it?  Decompresses what is compressed; unknown transformations pass, and so do
 * pickles larger than lim->pickle_bytes.
 * Errors: ZF_E_FORMAT it is not; ZF_E_IO, ZF_E_STALE, ZF_E_NOMEM, ZF_E_LIMIT. */
bool dcp_whole(struct zf_source *file, struct dcp_item item, const struct zf_limits *lim,
               struct zf_err *err) ZF_CHECKED;

/* The bytes of the item as a source whose reads fail until one of them has found it whole.
 * Takes its own reference on file. */
struct zf_source *dcp_whole_new(struct zf_source *file, struct dcp_item item,
                                const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;

extern const struct zf_source_kind dcp_whole_kind;

#endif
