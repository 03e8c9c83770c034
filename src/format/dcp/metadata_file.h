/* SPDX-License-Identifier: Apache-2.0 */
/* Opens one metadata file and reads every part of it. */
#ifndef FORMAT_DCP_METADATA_FILE_H
#define FORMAT_DCP_METADATA_FILE_H

#include "metadata.h"

/* Reads dir/name ("" = the root) and joins it with what was read before: the same tensor may be
 * described again, with more chunks (rank-local metadata), and a chunk that was already known is
 * passed over. With a degraded build, contradictions become notes and chunks without an item.
 * Errors: ZF_E_FORMAT names the key and what is wrong;
 * ZF_E_UNSUPPORTED dtype, torch 1.12; ZF_E_LIMIT. */
bool dcp_read(struct dcp *d, struct zf_store *st, const char *dir, const char *name,
              const struct zf_limits *lim, struct zf_build *b, struct zf_err *err) ZF_CHECKED;

#endif
