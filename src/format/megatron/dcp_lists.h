/* SPDX-License-Identifier: Apache-2.0 */
/* The lists of a save whose tensors are described by .metadata, whatever its keys are like: what the
 * backends torch_dist and fsdp_dtensor share. */
#ifndef FORMAT_MEGATRON_DCP_LISTS_H
#define FORMAT_MEGATRON_DCP_LISTS_H

#include "save.h"

/* Parses a key of this backend. */
typedef void mg_parse_fn(const char *key, size_t n, struct mg_key *out);

/* Reads .metadata and fills the lists of tensors and objects; the driver of <zf/dcp.h> becomes the save's
 * backend.  Errors: of the driver; of mg_save_draft and mg_save_object. */
bool mg_dcp_lists(struct mg_save *s, mg_parse_fn *parse, struct zf_err *err) ZF_CHECKED;

#endif
