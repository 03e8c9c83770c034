/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the start of an archive from its end record.  Source: PKWARE APPNOTE 4.3.14-4.3.16. */
#include <zf/codec/zip_parts.h>

#include <string.h>

#include <zf/base/bytes.h>

#define END_BYTES 22u
#define END64_BYTES 56u
#define LOCATOR_BYTES 20u
#define SIG_ENTRY 0x02014b50u
#define SIG_END 0x06054b50u
#define SIG_END64 0x06064b50u
#define SIG_LOCATOR 0x07064b50u
/* Bytes of the records after a directory; in torch's archives nothing else follows it. */
#define TAIL_BYTES (END64_BYTES + LOCATOR_BYTES + END_BYTES)
/* Bytes per read if the search goes on. */
#define BLOCK (64u << 10)

/* The range of the archive whose end record is at byte `at`; p[n]: the bytes up to the end of that record.  False:
 * it does not refer to a directory. */
static bool last_span(struct zf_source *src, const uint8_t *p, uint64_t n, uint64_t at,
                      struct zf_zip_span *out)
{
    struct zf_bytes b = zf_bytes_of(p + n - END_BYTES, END_BYTES);
    uint8_t sign[4];
    struct zf_err ignored;

    b.at = 10;
    const uint16_t entries = zf_bytes_le16(&b);
    uint64_t bytes = zf_bytes_le32(&b), off = zf_bytes_le32(&b), dir_end = at;
    out->end = at + END_BYTES + zf_bytes_le16(&b);
    if (n >= TAIL_BYTES) {
        struct zf_bytes locator = zf_bytes_of(p + n - END_BYTES - LOCATOR_BYTES, sizeof(uint32_t)),
                        wide = zf_bytes_of(p + n - TAIL_BYTES, END64_BYTES);

        if (zf_bytes_le32(&locator) == SIG_LOCATOR && zf_bytes_le32(&wide) == SIG_END64) {
            wide.at = 40;
            bytes = zf_bytes_le64(&wide);
            off = zf_bytes_le64(&wide);
            dir_end = at - LOCATOR_BYTES - END64_BYTES;
        }
    }
    if (entries == 0 || out->end > src->size || bytes > dir_end || off > dir_end - bytes ||
        !zf_source_pread(src, sign, sizeof sign, dir_end - bytes, &ignored))
        return false;
    b = zf_bytes_of(sign, sizeof sign);
    out->first = dir_end - bytes - off;
    return zf_bytes_le32(&b) == SIG_ENTRY;
}

/* Finds the last such record in p[n], the bytes of src before `end`. */
static bool last_find(struct zf_source *src, const uint8_t *p, uint64_t n, uint64_t end,
                      struct zf_zip_span *out)
{
    if (n < END_BYTES)
        return false;
    for (uint64_t at = n - END_BYTES + 1; at-- > 0;) {
        struct zf_bytes b = zf_bytes_of(p + at, END_BYTES);

        if (p[at] == 'P' && zf_bytes_le32(&b) == SIG_END &&
            last_span(src, p, at + END_BYTES, end - n + at, out) && out->end <= end)
            return true;
    }
    return false;
}

bool zf_zip_last(struct zf_source *src, uint64_t end, bool *found_out, struct zf_zip_span *out,
                 struct zf_err *err)
{
    zf_auto(mem) uint8_t *p = malloc(BLOCK + TAIL_BYTES);
    uint64_t stop = end, n = end < TAIL_BYTES ? end : TAIL_BYTES;

    *found_out = false;
    if (!p)
        return zf_fail_sys(err, "allocate memory");
    while (stop > 0 && !*found_out) {
        if (!zf_source_pread(src, p, (size_t)n, stop - n, err))
            return false;
        *found_out = last_find(src, p, n, stop, out);
        /* The bytes before these, overlapping so that no record is cut. */
        stop = n < stop ? stop - n + (n < TAIL_BYTES ? n : TAIL_BYTES - 1) : 0;
        n = stop < BLOCK + TAIL_BYTES - 1 ? stop : BLOCK + TAIL_BYTES - 1;
    }
    return true;
}
