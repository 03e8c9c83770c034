/* SPDX-License-Identifier: Apache-2.0 */
/* The local header before a member's data, which must agree with the directory. */
#ifndef CODEC_ZIP_LOCAL_H
#define CODEC_ZIP_LOCAL_H

#include <zf/base/err.h>

/* The header's size without name and extra field. */
#define LOCAL_BYTES 30u

/* A member as the directory describes it. */
struct zip_local {
    const char *name; /* borrowed */
    uint64_t at;      /* offset of the header in the archive */
    uint16_t method;
};

/* The bytes of the header up to the end of its name. */
uint64_t zip_local_bytes(const struct zip_local *l);

struct zip_local_end {
    uint64_t data; /* offset of the data */
    bool
        described; /* sizes and checksum are only in the descriptor after the data (zip_local_descriptor) */
};

/* Reads n bytes of the archive at `off`. */
typedef bool zip_read_fn(void *from, void *buf, uint64_t n, uint64_t off, struct zf_err *err);

/* Compares the header with the directory's entry, so that readers which use either see the same archive.  The
 * header may lack the sizes, but not the name.  The extra field must consist of valid records, because its length
 * alone determines where the data begin.  limit: the member must end here or earlier; the header up to its name
 * does.  The caller must refuse data that begin at `limit` or later.  Errors: ZF_E_FORMAT, those of reading. */
bool zip_local_load(const struct zip_local *l, uint64_t limit, zip_read_fn *read, void *from,
                    struct zip_local_end *out, struct zf_err *err) ZF_CHECKED;

#define ZIP_DESCRIPTOR 24u /* bytes at most */
/* Does p[n], the bytes after a member's data, begin with a descriptor of these sizes?  The signature, which
 * the format makes optional and all writers write, is required: without it, the rest of one could match. */
bool zip_local_descriptor(const uint8_t *p, uint64_t n, uint64_t comp_size, uint64_t size);

/* Fails with the message for a header that differs from the directory. */
bool zip_local_bad(const struct zip_local *l, struct zf_err *err);

#endif
