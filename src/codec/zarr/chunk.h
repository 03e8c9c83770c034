/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CODEC_ZARR_CHUNK_H
#define CODEC_ZARR_CHUNK_H

#include <zf/codec/zarr.h>
#include <zf/source/decoded.h>

/* NULL where zerofs was built without it. */
extern const struct zf_decoder *const zarr_blosc;

#endif
