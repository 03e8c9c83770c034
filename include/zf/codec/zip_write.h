/* SPDX-License-Identifier: Apache-2.0 */
/* A zip archive written in pieces: the bytes around members that are not at hand.  Stored members
 * without data descriptors, payloads aligned as torch aligns them, zip64 where needed.  Source:
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

/* Appends to *head the bytes before the member's `size` payload bytes: the caller puts the
 * payload behind it. crc may be 0 for payloads nobody has read: torch does not compare it, nor do our own
 * reads of stored members.  Payloads are aligned to w->align bytes of the archive. */
void zf_zip_write_member(struct zf_zip_write *w, const char *name, uint64_t size, uint32_t crc,
                         struct zf_out *head);

/* Where the CRC is in the header of a member, and in its entry of w->central. */
#define ZF_ZIP_CRC_LOCAL 14u
#define ZF_ZIP_CRC_CENTRAL 16u

/* Appends to *tail the central directory and what ends the archive. */
void zf_zip_write_end(struct zf_zip_write *w, struct zf_out *tail);

static inline void zf_auto_zip_write(struct zf_zip_write *w)
{
    zf_auto_out(&w->central);
}

#endif
