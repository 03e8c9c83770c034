/* SPDX-License-Identifier: Apache-2.0 */
/* A zip archive inside a source.  Not for several threads at once (build time, or under one's own
 * lock). */
#ifndef ZF_CODEC_ZIP_H
#define ZF_CODEC_ZIP_H

#include <zf/base/limits.h>
#include <zf/source/recipe.h>
#include <zf/source/source.h>

struct zf_zip;
struct zf_zip_member {
    const char *name; /* borrowed from the archive */
    uint64_t size, comp_size;
    uint32_t crc;    /* of a deflated one */
    uint16_t method; /* 0 stored, 8 deflated */
};

/* Takes its own reference on src, all of which is the archive.  Checks every member of the
 * directory: no duplicate name, not encrypted, stored or deflated, compressed size = size when
 * stored, inside src.
 * Errors: ZF_E_FORMAT, ZF_E_LIMIT, ZF_E_UNSUPPORTED (encrypted, other methods). */
struct zf_zip *zf_zip_open(struct zf_source *src, const struct zf_limits *lim,
                           struct zf_err *err) ZF_CHECKED;
/* Opens it with the first member of the directory alone (or none, where it is empty): the other entries are not
 * read, so that nothing is known of them.  Errors: as zf_zip_open. */
struct zf_zip *zf_zip_open_first(struct zf_source *src, const struct zf_limits *lim,
                                 struct zf_err *err) ZF_CHECKED;
void zf_zip_free(struct zf_zip *z);
static inline void zf_auto_zip(struct zf_zip **z)
{
    zf_zip_free(*z);
}

uint64_t zf_zip_count(const struct zf_zip *z);
struct zf_zip_member zf_zip_member(const struct zf_zip *z, uint64_t i);
/* Index of the member with that exact name; false when there is none. */
bool zf_zip_find(const struct zf_zip *z, const char *name, uint64_t *i_out);

/* Offset in src of a stored member's first data byte (remembered). */
bool zf_zip_data_off(struct zf_zip *z, uint64_t i, uint64_t *off_out,
                     struct zf_err *err) ZF_CHECKED;

/* The member's bytes: a window on src, or an inflate source.  Named src's name + "!" + member.
 * Of an archive that is far away (zf_source_is_far) the member's own header is read and compared
 * by the first read of its bytes, which fails with ZF_E_FORMAT where otherwise this does. */
struct zf_source *zf_zip_source(struct zf_zip *z, uint64_t i, struct zf_err *err) ZF_CHECKED;

/* Proves that no two members' data overlap (finds every data offset: about 4 µs a member).  Of
 * an archive that is far away opening it has, and a member that reaches into the next
 * nevertheless cannot be read. */
bool zf_zip_check_overlap(struct zf_zip *z, struct zf_err *err) ZF_CHECKED;

/* Of members that are found late. */
extern const struct zf_source_kind zf_zip_kind;

#endif
