/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/codec/npy.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PREFIX 10 /* magic, version, length */
#define ALIGN 64

size_t zf_npy_header(char out[ZF_NPY_MAX], const char *descr, uint32_t ndim, const uint64_t *shape)
{
    if (ndim > ZF_NPY_DIMS)
        return 0;
    size_t at = PREFIX;
    at += (size_t)snprintf(out + at, ZF_NPY_MAX - at,
                           "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (uint32_t d = 0; d < ndim; d++) {
        /* A tuple of one needs its comma; more of them do no harm. */
        at += (size_t)snprintf(out + at, ZF_NPY_MAX - at, "%" PRIu64 ",%s", shape[d],
                               d + 1 < ndim ? " " : "");
    }
    at += (size_t)snprintf(out + at, ZF_NPY_MAX - at, "), }");
    size_t total = (at + 1 + ALIGN - 1) / ALIGN * ALIGN;
    memset(out + at, ' ', total - at);
    out[total - 1] = '\n';
    memcpy(out, "\x93NUMPY\x01\x00", 8);
    out[8] = (char)((total - PREFIX) & 0xff);
    out[9] = (char)((total - PREFIX) >> 8);
    return total;
}
