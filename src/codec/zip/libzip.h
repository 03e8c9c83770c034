/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of a directory, read by libzip. */
#ifndef CODEC_ZIP_LIBZIP_H
#define CODEC_ZIP_LIBZIP_H

#include <zf/base/err.h>

/* Consecutive entries as they are in the file. */
struct libzip_run {
    const uint8_t *p; /* borrowed */
    uint64_t bytes;
    uint64_t off;   /* of the first one in the archive */
    uint64_t first; /* its number, for messages */
    uint32_t n;
};

struct libzip_entry {
    uint64_t size, comp_size;
    uint32_t crc;
    uint16_t method;
    bool encrypted;
};

/* Has libzip read the n entries of the run into out[n].  It is shown an archive that has these, zeros in front and an
 * end record of ours, so that it can read nothing else and find no other directory; and few entries at a time, because
 * its table of names has no key: 10^6 names made for it would take hours.  It is asked once, its facts are copied, and it is
 * closed.  Errors: ZF_E_FORMAT, ZF_E_NOMEM. */
bool libzip_load(const struct libzip_run *run, struct libzip_entry *out,
                 struct zf_err *err) ZF_CHECKED;

#endif
