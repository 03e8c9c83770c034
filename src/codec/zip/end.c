/* SPDX-License-Identifier: Apache-2.0 */
/* The end record is the one whose comment reaches exactly to the end of the file; its directory
 * must end where the record (or its zip64 one) begins.  Of files for which this does not hold
 * (bytes in front, two archives in one, bytes behind) readers disagree about what they hold. */
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
/* An archive without a comment ends in its three records: one small read finds them. */
#define SHORT_TAIL 1024u

/* Finds in p[n] the record whose comment ends with the last byte; false: there is none. */
static bool end_find_exact(const uint8_t *p, uint64_t n, uint64_t *at_out)
{
    for (uint64_t at = n; at-- > 0;) {
        struct zf_bytes b = zf_bytes_of(p + at, n - at);

        if (p[at] != 'P' || n - at < END_BYTES || zf_bytes_le32(&b) != SIG_END) {
            continue;
        }
        b.at = 20;
        if (zf_bytes_le16(&b) == n - at - END_BYTES) {
            *at_out = at;
            return true;
        }
    }
    return false;
}

/* The zip64 record that `locator` names; end_off becomes its offset. */
static bool end_load_zip64(struct zf_source *src, const uint8_t *locator, uint64_t locator_off,
                           struct zip_end *out, uint64_t *end_off, struct zf_err *err)
{
    struct zf_bytes b = zf_bytes_of(locator + 8, 8);
    uint64_t off = zf_bytes_le64(&b), rest = 0, end;
    uint8_t rec[END64_BYTES];

    if (!zf_within(off, END64_BYTES, locator_off)) {
        return zf_fail(err, ZF_E_FORMAT, locator_off,
                       "the zip64 end record is said to be at byte %llu", (unsigned long long)off);
    }
    if (!zf_source_pread(src, rec, sizeof rec, off, err)) {
        return false;
    }
    b = zf_bytes_of(rec, sizeof rec);
    if (zf_bytes_le32(&b) != SIG_END64) {
        return zf_fail(err, ZF_E_FORMAT, off,
                       "no zip64 end record here, where byte %llu says it is: bytes put in front, "
                       "or several archives in one file?",
                       (unsigned long long)locator_off);
    }
    rest = zf_bytes_le64(&b);
    if (!zf_add(off, 12, &end) || !zf_add(end, rest, &end) || end != locator_off) {
        return zf_fail(
            err, ZF_E_FORMAT, off,
            "the zip64 end record has %llu bytes, which do not end at its locator: bytes "
            "put in front, or several archives in one file?",
            (unsigned long long)rest);
    }
    b.at = 32;
    out->entries = zf_bytes_le64(&b);
    out->dir_bytes = zf_bytes_le64(&b);
    out->dir_off = zf_bytes_le64(&b);
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
    if (zf_bytes_le16(&b) != zf_bytes_le16(&b)) {
        return zf_fail(err, ZF_E_UNSUPPORTED, end_off, "the archive is split over several disks");
    }
    b.at = 10;
    out->entries = zf_bytes_le16(&b);
    out->dir_bytes = zf_bytes_le32(&b);
    out->dir_off = zf_bytes_le32(&b);
    b = zf_bytes_of(tail + at, 0);
    if (at >= LOCATOR_BYTES) {
        b = zf_bytes_of(tail + at - LOCATOR_BYTES, LOCATOR_BYTES);
    }
    if (zf_bytes_le32(&b) == SIG_LOCATOR &&
        !end_load_zip64(src, b.p, end_off - LOCATOR_BYTES, out, &end_off, err)) {
        return false;
    }
    if (!zf_add(out->dir_off, out->dir_bytes, &dir_end) || dir_end != end_off) {
        return zf_fail(
            err, ZF_E_FORMAT, end_off,
            "the end record does not follow the directory it names (%llu bytes at byte %llu): "
            "bytes put in front, or two archives in one file?",
            (unsigned long long)out->dir_bytes, (unsigned long long)out->dir_off);
    }
    out->exact = true;
    out->comment = src->size - base - at - END_BYTES;
    return true;
}

bool zip_end_load(struct zf_source *src, struct zip_end *out, struct zf_err *err)
{
    static const uint64_t reach[] = {SHORT_TAIL, COMMENT_MAX + END_BYTES + LOCATOR_BYTES};

    *out = (struct zip_end){.exact = false};
    for (size_t i = 0; i < 2; i++) {
        uint64_t n = src->size < reach[i] ? src->size : reach[i], at;
        zf_auto(mem) uint8_t *tail = malloc(n ? n : 1);

        if (!tail) {
            return zf_fail_sys(err, "allocate memory");
        }
        if (!zf_source_pread(src, tail, n, src->size - n, err)) {
            return false;
        }
        if (end_find_exact(tail, n, &at) && (at >= LOCATOR_BYTES || n < SHORT_TAIL || i == 1)) {
            return end_load_end(src, tail, at, src->size - n, out, err);
        }
        if (n == src->size) {
            break;
        }
    }
    return true;
}
