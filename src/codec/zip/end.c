/* SPDX-License-Identifier: Apache-2.0 */
/* The end record is the one whose comment reaches exactly to the end of the file or, if bytes follow the
 * archive, the last one; its directory must end where the record (or the zip64 record) begins.  Readers
 * disagree about the contents of other files (bytes before the archive, two archives in one), so they
 * are refused. */
#include "end.h"

#include <zf/base/bytes.h>
#include <zf/base/num.h>

#define END_BYTES 22
#define END64_BYTES 56
#define LOCATOR_BYTES 20
#define COMMENT_MAX 65535
#define SIG_END 0x06054b50u
#define SIG_END64 0x06064b50u
#define SIG_LOCATOR 0x07064b50u
/* An archive without a comment ends with its three records: one small read finds them. */
#define SHORT_TAIL 1024u

/* Finds in p[n] the last record whose comment ends with the last byte or, unless `exact`, earlier. */
static bool end_find(const uint8_t *p, uint64_t n, bool exact, uint64_t *at_out)
{
    for (uint64_t at = n; at-- > 0;) {
        struct zf_bytes b = zf_bytes_of(p + at, n - at);

        if (p[at] != 'P' || n - at < END_BYTES || zf_bytes_le32(&b) != SIG_END)
            continue;
        b.at = 20;
        const uint64_t comment = zf_bytes_le16(&b), rest = n - at - END_BYTES;
        if (exact ? comment == rest : comment <= rest) {
            *at_out = at;
            return true;
        }
    }
    return false;
}

static bool end_split(uint64_t off, struct zf_err *err)
{
    return zf_fail(err, ZF_E_UNSUPPORTED, off, "the archive is split over several disks");
}

/* True if a number of the end record equals that of the zip64 record, or is the marker that refers to it. */
static bool end_agrees(uint64_t small, uint64_t none, uint64_t full)
{
    return small == none || small == full;
}

/* Reads the zip64 record that `locator` refers to; *end_off: its offset. */
static bool end_load_zip64(struct zf_source *src, const uint8_t *locator, uint64_t locator_off,
                           struct zip_end *out, uint64_t *end_off, struct zf_err *err)
{
    struct zf_bytes b = zf_bytes_of(locator + 4, LOCATOR_BYTES - 4);
    const uint32_t at_disk = zf_bytes_le32(&b);
    uint64_t off = zf_bytes_le64(&b), rest = 0, end;
    uint8_t rec[END64_BYTES];

    /* as in Python's zipfile; some writers store 0 as the number of disks */
    if (at_disk != 0 || zf_bytes_le32(&b) > 1)
        return end_split(locator_off, err);
    if (!zf_within(off, END64_BYTES, locator_off)) {
        return zf_fail(err, ZF_E_FORMAT, locator_off,
                       "the zip64 end record should be at byte %llu, which is outside the file",
                       (unsigned long long)off);
    }
    if (!zf_source_pread(src, rec, sizeof rec, off, err))
        return false;
    b = zf_bytes_of(rec, sizeof rec);
    if (zf_bytes_le32(&b) != SIG_END64) {
        return zf_fail(err, ZF_E_FORMAT, off,
                       "found no zip64 end record here, where the locator at byte %llu points: "
                       "were bytes put in front, or are there several archives in one file?",
                       (unsigned long long)locator_off);
    }
    rest = zf_bytes_le64(&b);
    if (!zf_add(off, 12, &end) || !zf_add(end, rest, &end) || end != locator_off) {
        return zf_fail(err, ZF_E_FORMAT, off,
                       "the zip64 end record has %llu bytes, which do not end at its locator: were "
                       "bytes put in front, or are there several archives in one file?",
                       (unsigned long long)rest);
    }
    b.at = 16;
    const struct zip_end small = *out;
    const uint32_t disk = zf_bytes_le32(&b), dir_disk = zf_bytes_le32(&b);
    const uint64_t here = zf_bytes_le64(&b);
    out->entries = zf_bytes_le64(&b);
    out->dir_bytes = zf_bytes_le64(&b);
    out->dir_off = zf_bytes_le64(&b);
    if (disk != dir_disk || here != out->entries)
        return end_split(off, err);
    if (!end_agrees(small.entries, UINT16_MAX, out->entries) ||
        !end_agrees(small.dir_bytes, UINT32_MAX, out->dir_bytes) ||
        !end_agrees(small.dir_off, UINT32_MAX, out->dir_off)) {
        return zf_fail(err, ZF_E_FORMAT, off,
                       "the zip64 end record here has %llu members and a directory at byte %llu, "
                       "but the other end record %llu and %llu",
                       (unsigned long long)out->entries, (unsigned long long)out->dir_off,
                       (unsigned long long)small.entries, (unsigned long long)small.dir_off);
    }
    *end_off = off;
    return true;
}

/* Reads the record at tail[at]; `base` is the offset of tail[0] in the file. */
static bool end_load_end(struct zf_source *src, const uint8_t *tail, uint64_t at, uint64_t base,
                         struct zip_end *out, struct zf_err *err)
{
    struct zf_bytes b = zf_bytes_of(tail + at, END_BYTES);
    uint64_t end_off = base + at, dir_end;

    b.at = 4;
    const uint16_t disk = zf_bytes_le16(&b), dir_disk = zf_bytes_le16(&b), here = zf_bytes_le16(&b);
    out->entries = zf_bytes_le16(&b);
    out->dir_bytes = zf_bytes_le32(&b);
    out->dir_off = zf_bytes_le32(&b);
    if (disk != dir_disk || here != out->entries)
        return end_split(end_off, err);
    b = zf_bytes_of(tail + at, 0);
    if (at >= LOCATOR_BYTES)
        b = zf_bytes_of(tail + at - LOCATOR_BYTES, LOCATOR_BYTES);
    if (zf_bytes_le32(&b) == SIG_LOCATOR &&
        !end_load_zip64(src, b.p, end_off - LOCATOR_BYTES, out, &end_off, err))
        return false;
    if (!zf_add(out->dir_off, out->dir_bytes, &dir_end) || dir_end != end_off) {
        return zf_fail(err, ZF_E_FORMAT, end_off,
                       "the end record does not follow the directory it names (%llu bytes at byte "
                       "%llu): were bytes put in front, or are there several archives in one file?",
                       (unsigned long long)out->dir_bytes, (unsigned long long)out->dir_off);
    }
    return true;
}

bool zip_end_load(struct zf_source *src, struct zip_end *out, struct zf_err *err)
{
    static const uint64_t reach[] = {SHORT_TAIL, COMMENT_MAX + END_BYTES + LOCATOR_BYTES};
    zf_auto(mem) uint8_t *tail = malloc(reach[1]);
    uint64_t n = 0, at;

    if (!tail)
        return zf_fail_sys(err, "allocate memory");
    for (size_t i = 0; i < 2 && n < src->size; i++) {
        n = src->size < reach[i] ? src->size : reach[i];
        if (!zf_source_pread(src, tail, n, src->size - n, err))
            return false;
        if (end_find(tail, n, true, &at) && (at >= LOCATOR_BYTES || n < SHORT_TAIL || i == 1))
            return end_load_end(src, tail, at, src->size - n, out, err);
    }
    if (!end_find(tail, n, false, &at)) {
        return zf_fail(
            err, ZF_E_FORMAT, ZF_OFF_NONE,
            "no zip directory at the end of its %llu bytes: the file is truncated, or is "
            "still being written",
            (unsigned long long)src->size);
    }
    return end_load_end(src, tail, at, src->size - n, out, err);
}
