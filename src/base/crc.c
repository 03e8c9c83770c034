/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <zf/base/crc.h>

#ifdef HAVE_DEFLATE
#include <libdeflate.h>
#else
#include <zlib.h>
#endif

uint32_t zf_crc32(uint32_t crc, const void *p, size_t n)
{
#ifdef HAVE_DEFLATE
    return libdeflate_crc32(crc, p, n);
#else
    return (uint32_t)crc32_z(crc, p, n);
#endif
}
