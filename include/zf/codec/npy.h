/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the header of a .npy file.  Source: numpy/lib/format.py (versions 1.0 and 2.0). */
#ifndef ZF_CODEC_NPY_H
#define ZF_CODEC_NPY_H

#include <stddef.h>
#include <stdint.h>

/* Room for any header: ZF_NPY_DIMS extents of 20 digits. */
#define ZF_NPY_DIMS 64
#define ZF_NPY_MAX 2048

/* Writes the header of a C-order array of numpy's type `descr` ("<f4") and shape [ndim], padded so that the data after
 * it is 64-byte aligned.  Returns its length, or 0 if ndim > ZF_NPY_DIMS. */
size_t zf_npy_header(char out[ZF_NPY_MAX], const char *descr, uint32_t ndim, const uint64_t *shape);

#endif
