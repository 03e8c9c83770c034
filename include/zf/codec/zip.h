/* SPDX-License-Identifier: Apache-2.0 */
/* A zip archive inside a source.  Only one thread at a time may use it. */
#ifndef ZF_CODEC_ZIP_H
#define ZF_CODEC_ZIP_H

#include <zf/base/limits.h>
#include <zf/source/recipe.h>
#include <zf/source/source.h>

struct zf_zip;
struct zf_zip_member {
    const char *name; /* borrowed from the archive */
    uint64_t size, comp_size;
    uint32_t crc;    /* only of a deflated member */
    uint16_t method; /* 0 stored, 8 deflated */
};

/* Opens the archive that src is; takes its own reference.  Checks every member of the directory: no duplicate name, not
 * encrypted, stored or deflated, compressed size = size if stored, inside src.
 * Errors: ZF_E_FORMAT, ZF_E_LIMIT, ZF_E_UNSUPPORTED (encrypted, other methods). */
struct zf_zip *zf_zip_open(struct zf_source *src, const struct zf_limits *lim,
                           struct zf_err *err) ZF_CHECKED;
/* Opens it with only the first member of the directory (none if it is empty); the other entries are not read.
 * Errors: as zf_zip_open. */
struct zf_zip *zf_zip_open_first(struct zf_source *src, const struct zf_limits *lim,
                                 struct zf_err *err) ZF_CHECKED;
void zf_zip_free(struct zf_zip *z);
static inline void zf_auto_zip(struct zf_zip **z)
{
    zf_zip_free(*z);
}

uint64_t zf_zip_count(const struct zf_zip *z);
struct zf_zip_member zf_zip_member(const struct zf_zip *z, uint64_t i);
/* Finds the index of the member with that exact name; false if there is none. */
bool zf_zip_find(const struct zf_zip *z, const char *name, uint64_t *i_out);

/* Offset in src of a stored member's first data byte (remembered). */
bool zf_zip_data_off(struct zf_zip *z, uint64_t i, uint64_t *off_out,
                     struct zf_err *err) ZF_CHECKED;

/* Makes a source of the member's bytes: a window on src, or an inflate source; its name is src's name + "!" + member.
 * For a remote archive (zf_source_is_far), the member's own header is only read and compared at the first read of its
 * bytes, which then fails with ZF_E_FORMAT instead of this call. */
struct zf_source *zf_zip_source(struct zf_zip *z, uint64_t i, struct zf_err *err) ZF_CHECKED;

/* Proves that no two members' data overlap (finds every data offset: about 4 µs per member).  For a remote archive,
 * opening has done this by the directory, and reading a member that still reaches into the next one fails. */
bool zf_zip_check_overlap(struct zf_zip *z, struct zf_err *err) ZF_CHECKED;

/* Of members that are found late. */
extern const struct zf_source_kind zf_zip_kind;

#endif
