/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FORMAT_MEGATRON_ZARR_ARRAY_H
#define FORMAT_MEGATRON_ZARR_ARRAY_H

#include "save.h"

/* Adds the tensor in the directory `key`, which has a .zarray that is not empty.
 * Errors: of zf_zarr_load; ZF_E_FORMAT a chunk is missing and has no fill_value, is no file, of a
 * length that is not right, outside of the grid. */
bool mg_zarr_array(struct mg_save *s, const char *key, struct zf_err *err) ZF_CHECKED;

/* The failure in *err is about a tensor that cannot even be described: refused, or noted, and the others
 * are shown. */
bool mg_zarr_lost(struct mg_save *s, const char *key, struct zf_err *err) ZF_CHECKED;

/* The chunks of an array. */
extern const struct zf_source_kind mg_zarr_kind;

#endif
