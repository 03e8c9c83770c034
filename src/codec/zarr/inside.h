/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of this directory. */
#ifndef CODEC_ZARR_INSIDE_H
#define CODEC_ZARR_INSIDE_H

#include <zf/codec/json.h>
#include <zf/codec/zarr.h>
#include <zf/source/decoded.h>

/* The blosc decoder; NULL if zerofs was built without it. */
extern const struct zf_decoder *const zarr_blosc;
/* Loads c-blosc at the first call, for good.  Thread: any.  Errors: ZF_E_UNSUPPORTED it cannot be loaded, or zerofs was
 * built without it. */
bool zarr_blosc_load(struct zf_err *err) ZF_CHECKED;

#endif
