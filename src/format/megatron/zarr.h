/* SPDX-License-Identifier: Apache-2.0 */
/* The zarr backend (core 0.4 … 0.15): a directory a tensor, a file a chunk, a file an object. */
#ifndef FORMAT_MEGATRON_ZARR_H
#define FORMAT_MEGATRON_ZARR_H

#include "save.h"

/* Reads all that metadata.json does not say.  Lists each directory once and opens no chunk, but for
 * the first of a compressed tensor, whose head is compared with what .zarray says. */
bool mg_zarr(struct mg_save *s, struct zf_err *err) ZF_CHECKED;

#endif
