/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CODEC_ZARR_FILL_H
#define CODEC_ZARR_FILL_H

#include <zf/codec/json.h>
#include <zf/codec/zarr.h>

/* Reads fill_value, which is not null, into z->fill; z->dtype is known.
 * Errors: ZF_E_FORMAT it is no value of that type. */
bool zarr_fill(const json_t *value, struct zf_zarr *z, struct zf_err *err) ZF_CHECKED;

#endif
