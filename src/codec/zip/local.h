/* SPDX-License-Identifier: Apache-2.0 */
/* The header in front of a member's data, which must say what the directory says. */
#ifndef CODEC_ZIP_LOCAL_H
#define CODEC_ZIP_LOCAL_H

#include <zf/base/err.h>

/* Without name and extra field. */
#define LOCAL_BYTES 30u

/* A member as the directory describes it. */
struct zip_local {
    const char *name; /* borrowed */
    uint64_t at;      /* of the header in the archive */
    uint16_t method;
};

/* Bytes of the header up to the end of its name. */
uint64_t zip_local_bytes(const struct zip_local *l);

struct zip_local_end {
    uint64_t data;  /* where the data begin */
    bool described; /* sizes and checksum are only behind the data (zip_local_descriptor) */
};

/* Reads n bytes of the archive at `off`. */
typedef bool zip_read_fn(void *from, void *buf, uint64_t n, uint64_t off, struct zf_err *err);

/* Compares the header with what the directory says: readers that follow the one or the other must not
 * see two archives in one.  Sizes may be left out here, the name may not.  The extra field must be
 * records from end to end: its length alone says where the data begin.  limit: where the member
 * ends at the latest; the header does not reach beyond.  Data that begin there or later are for the caller to refuse.
 * Errors: ZF_E_FORMAT, those of reading. */
bool zip_local_load(const struct zip_local *l, uint64_t limit, zip_read_fn *read, void *from,
                    struct zip_local_end *out, struct zf_err *err) ZF_CHECKED;

#define ZIP_DESCRIPTOR 24u /* bytes at most */
/* Is what p[n] begins with, the bytes behind a member's data, the descriptor with these sizes?  One
 * without its signature, which the format allows and nobody writes, could be the rest of one with it. */
bool zip_local_descriptor(const uint8_t *p, uint64_t n, uint64_t comp_size, uint64_t size);

/* The sentence for a header that does not agree. */
bool zip_local_bad(const struct zip_local *l, struct zf_err *err);

#endif
