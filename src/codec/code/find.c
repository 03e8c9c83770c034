/* SPDX-License-Identifier: Apache-2.0 */
/* Source: PKWARE APPNOTE 4.3; Python's zipfile uses the last end record, and allows bytes before the archive. */
#include "find.h"

#include <zf/base/bytes.h>
#include <zf/base/num.h>

#define SIG_LOCAL 0x04034b50u
#define SIG_ENTRY 0x02014b50u
#define SIG_LOCATOR 0x07064b50u
#define SIG_END64 0x06064b50u
#define END_BYTES 22u
#define END64_BYTES 56u
#define LOCATOR_BYTES 20u
#define LOCAL_BYTES 30u
#define COMMENT_MOST 65535u
#define ZIP64 1u

struct find_end {
    uint64_t at;                      /* offset of the records after the directory */
    uint64_t dir, dir_bytes, entries; /* as these records say */
};

static bool find_bad(struct zf_err *err, uint64_t at, const char *why)
{
    return zf_fail(err, ZF_E_FORMAT, at, "%s", why);
}

/* Finds the offset of the end record in the last bytes before `end`. */
static bool find_end_record(struct zf_source *src, uint64_t end, uint64_t *out, struct zf_err *err)
{
    /* first without a comment, as archives usually are */
    for (uint64_t n = END_BYTES; n <= END_BYTES + COMMENT_MOST; n += COMMENT_MOST) {
        const uint64_t k = n < end ? n : end;
        zf_auto(mem) char *tail = zf_source_slurp(src, end - k, k, err);

        if (!tail)
            return false;
        for (uint64_t i = k < END_BYTES ? 0 : k - END_BYTES + 1; i-- > 0;) {
            if (memcmp(tail + i, "PK\5\6", 4) == 0) {
                *out = end - k + i;
                return true;
            }
        }
    }
    return find_bad(err, end, "no archive ends here");
}

/* Replaces these fields by those of the zip64 records, if there are any. */
static bool find_end64(struct zf_source *src, uint64_t end, struct find_end *e, struct zf_err *err)
{
    uint8_t p[END64_BYTES];

    if (end < LOCATOR_BYTES + END64_BYTES)
        return true;
    if (!zf_source_pread(src, p, LOCATOR_BYTES, end - LOCATOR_BYTES, err))
        return false;
    struct zf_bytes b = zf_bytes_of(p, LOCATOR_BYTES);
    if (zf_bytes_le32(&b) != SIG_LOCATOR)
        return true;
    const uint64_t at = end - LOCATOR_BYTES - END64_BYTES;
    if (!zf_source_pread(src, p, END64_BYTES, at, err))
        return false;
    b = zf_bytes_of(p, END64_BYTES);
    if (zf_bytes_le32(&b) != SIG_END64)
        return find_bad(err, at, "the zip64 end record is not where its locator points");
    b.at = 32;
    e->at = at;
    e->entries = zf_bytes_le64(&b);
    e->dir_bytes = zf_bytes_le64(&b);
    e->dir = zf_bytes_le64(&b);
    return true;
}

static bool find_end(struct zf_source *src, uint64_t end, struct find_end *e, struct zf_err *err)
{
    uint8_t p[END_BYTES];

    if (!find_end_record(src, end, &e->at, err) || !zf_source_pread(src, p, sizeof p, e->at, err))
        return false;
    struct zf_bytes b = zf_bytes_of(p, sizeof p);
    b.at = 10;
    e->entries = zf_bytes_le16(&b);
    e->dir_bytes = zf_bytes_le32(&b);
    e->dir = zf_bytes_le32(&b);
    return find_end64(src, e->at, e, err);
}

/* Replaces the markers for numbers in the zip64 field by these numbers. */
static void find_widen(struct zf_bytes extra, struct find_member *m)
{
    while (zf_bytes_left(&extra) > 0) {
        const uint16_t id = zf_bytes_le16(&extra), n = zf_bytes_le16(&extra);
        const uint8_t *p = zf_bytes_take(&extra, n);
        struct zf_bytes b = zf_bytes_of(p, p ? n : 0);

        if (id == ZIP64 && p) {
            m->size = m->size == UINT32_MAX ? zf_bytes_le64(&b) : m->size;
            m->comp_size = m->comp_size == UINT32_MAX ? zf_bytes_le64(&b) : m->comp_size;
            m->at = m->at == UINT32_MAX ? zf_bytes_le64(&b) : m->at;
        }
    }
}

/* Calls fn for one entry.  base: the start of the archive, to which offsets are relative. */
static bool find_entry(struct zf_bytes *b, uint64_t base, find_member_fn *fn, void *ctx,
                       struct zf_err *err)
{
    struct find_member m;
    const uint64_t at = zf_bytes_off(b);

    if (zf_bytes_le32(b) != SIG_ENTRY) {
        return find_bad(err, at,
                        "an entry of the directory does not begin with an entry's signature");
    }
    (void)zf_bytes_take(b, 6);
    m.method = zf_bytes_le16(b);
    (void)zf_bytes_take(b, 4);
    m.crc = zf_bytes_le32(b);
    m.comp_size = zf_bytes_le32(b);
    m.size = zf_bytes_le32(b);
    const uint16_t name = zf_bytes_le16(b), extra = zf_bytes_le16(b), comment = zf_bytes_le16(b);
    (void)zf_bytes_take(b, 8);
    m.at = zf_bytes_le32(b);
    const char *text = zf_bytes_take(b, name);
    const uint8_t *more = zf_bytes_take(b, extra);
    (void)zf_bytes_take(b, comment);
    if (b->bad)
        return find_bad(err, at, "the directory ends within this entry");
    find_widen(zf_bytes_of(more, extra), &m);
    zf_auto(mem) char *copy = strndup(text, name);
    if (!copy)
        return zf_fail_sys(err, "read the directory of an archive");
    m.name = copy;
    return !zf_add(m.at, base, &m.at) ? find_bad(err, at, "this member is beyond the archive")
                                      : fn(ctx, &m, err);
}

bool find_members(struct zf_source *src, uint64_t end, const struct zf_limits *lim,
                  find_member_fn *fn, void *ctx, uint64_t *first_out, struct zf_err *err)
{
    struct find_end e = {0};
    uint64_t stop;

    if (!find_end(src, end, &e, err))
        return false;
    if (!zf_add(e.dir, e.dir_bytes, &stop) || stop > e.at)
        return find_bad(err, e.at, "by the end record the directory ends after that record");
    if (e.dir_bytes > lim->zip_directory) {
        return zf_fail_limit(err, ZF_LIMIT_zip_directory, e.at,
                             "the directory has %llu bytes (limit zip_directory)",
                             (unsigned long long)e.dir_bytes);
    }
    const uint64_t base = e.at - stop;
    zf_auto(mem) char *dir = zf_source_slurp(src, base + e.dir, e.dir_bytes, err);
    if (!dir)
        return false;
    struct zf_bytes b = zf_bytes_of(dir, e.dir_bytes);
    b.base = base + e.dir;
    *first_out = base;
    /* the number of entries may be wrong, so all entries in the directory are read */
    while (zf_bytes_left(&b) > 0)
        if (!find_entry(&b, base, fn, ctx, err))
            return false;
    return true;
}

struct zf_source *find_open(struct zf_source *src, const struct find_member *m,
                            const struct zf_limits *lim, struct zf_err *err)
{
    uint8_t p[LOCAL_BYTES];

    if (!zf_within(m->at, sizeof p, src->size)) {
        return zf_null(
            find_bad(err, m->at, "by the directory a member begins after the end of the archive"));
    }
    if (!zf_source_pread(src, p, sizeof p, m->at, err))
        return NULL;
    struct zf_bytes b = zf_bytes_of(p, sizeof p);
    if (zf_bytes_le32(&b) != SIG_LOCAL)
        return zf_null(find_bad(err, m->at, "no member begins here"));
    b.at = 26;
    const uint64_t lead = LOCAL_BYTES + (uint64_t)zf_bytes_le16(&b) + zf_bytes_le16(&b);
    const bool stored = m->method == 0;

    if (!stored && m->method != 8) {
        return zf_null(zf_fail(err, ZF_E_UNSUPPORTED, m->at,
                               "the member is compressed in a way that is not read"));
    }
    if (!stored && m->size > lim->inflate_bytes) {
        return zf_null(zf_fail_limit(err, ZF_LIMIT_inflate_bytes, m->at,
                                     "the member is longer than the limit inflate_bytes allows"));
    }
    zf_auto(source) struct zf_source *window =
        zf_window_new(src, m->at + lead, m->comp_size, NULL, err);
    return !window  ? NULL
           : stored ? zf_give(window)
                    : zf_inflate_new(window, m->size, m->crc, lim, err);
}
