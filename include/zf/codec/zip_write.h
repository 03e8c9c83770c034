/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a zip archive without its members' data: only the bytes around them.  Members are stored, without data
 * descriptors, aligned as torch does, with zip64 where needed.  Source:
 * APPNOTE 6.3; torch's writer (caffe2/serialize/inline_container.cc) for the "FB" padding. */
#ifndef ZF_CODEC_ZIP_WRITE_H
#define ZF_CODEC_ZIP_WRITE_H

#include <zf/base/out.h>

struct zf_zip_write {
    uint64_t at;    /* bytes of the archive so far */
    uint32_t align; /* of the next payload: a power of two from 64 to 32768; 0 = 64 */
    uint64_t n;
    struct zf_out central;
};

/* Appends to *head the bytes before the member's `size` payload bytes, which the caller adds after it.  crc may be 0 if
 * the payload was not read: neither torch nor our own reads of stored members compare it.  Payloads are aligned to
 * w->align bytes in the archive. */
void zf_zip_write_member(struct zf_zip_write *w, const char *name, uint64_t size, uint32_t crc,
                         struct zf_out *head);

/* The offset of the CRC in a member's header, and in its entry in w->central. */
#define ZF_ZIP_CRC_LOCAL 14u
#define ZF_ZIP_CRC_CENTRAL 16u

/* Appends to *tail the central directory and the end records of the archive. */
void zf_zip_write_end(struct zf_zip_write *w, struct zf_out *tail);

static inline void zf_auto_zip_write(struct zf_zip_write *w)
{
    zf_auto_out(&w->central);
}

#endif
