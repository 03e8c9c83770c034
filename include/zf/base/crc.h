/* SPDX-License-Identifier: Apache-2.0 */
/* CRC-32 as zip and gzip have it: libdeflate's, several times as fast as zlib's, where zerofs is built with it. */
#ifndef ZF_BASE_CRC_H
#define ZF_BASE_CRC_H

#include <stddef.h>
#include <stdint.h>

/* The CRC of the bytes whose CRC is `crc` (0: no bytes), followed by p[n]. */
uint32_t zf_crc32(uint32_t crc, const void *p, size_t n);

#endif
