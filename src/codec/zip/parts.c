/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the two descriptions of each member, local header and directory entry, field by field.  Source: PKWARE
 * APPNOTE 4.3.7, 4.3.9, 4.3.12, 4.5.3. */
#include <zf/codec/zip_parts.h>

#include <zf/base/bytes.h>
#include <zf/base/num.h>
#include <zf/base/vec.h>

#include "dir.h"
#include "end.h"
#include "local.h"
#include "reader.h"

#define ENTRY_BYTES 46u
#define END_BYTES 22u
#define LOCATOR_BYTES 20u
#define SIG_LOCAL 0x04034b50u
#define SIG_END 0x06054b50u
#define SIG_END64 0x06064b50u
#define SIG_LOCATOR 0x07064b50u
#define SIG_DESCRIPTOR 0x08074b50u
#define FLAG_DESCRIBED 8u
#define ZIP64 1u

/* One description of a member. */
struct parts_said {
    uint16_t needs, flags, method, time, date;
    uint32_t crc;
    uint64_t comp_size, size;
};

struct parts_entry {
    struct parts_said said;
    uint64_t at;   /* offset of its local header */
    uint32_t name; /* offset in the names, each of which ends with a NUL */
    uint16_t name_len;
};

struct parts {
    struct zip_reader *r;
    struct zip_end end;
    zf_vec(struct parts_entry) entry;
    zf_vec(uint8_t) names;
    zf_vec(uint8_t) extra;
};

/* ---- the directory --------------------------------------------------------------------------- */

/* Reads the fields that both kinds of header have in the same order; the lengths of the variable fields follow. */
static struct parts_said parts_read_fields(struct zf_bytes *b)
{
    struct parts_said s;

    s.needs = zf_bytes_le16(b);
    s.flags = zf_bytes_le16(b);
    s.method = zf_bytes_le16(b);
    s.time = zf_bytes_le16(b);
    s.date = zf_bytes_le16(b);
    s.crc = zf_bytes_le32(b);
    s.comp_size = zf_bytes_le32(b);
    s.size = zf_bytes_le32(b);
    return s;
}

/* Replaces the marker for a number in the zip64 field by the next number there. */
static bool parts_wide(uint64_t *v, struct zf_bytes *b)
{
    if (*v == UINT32_MAX)
        *v = zf_bytes_le64(b);
    return !b->bad;
}

/* Replaces all such markers.  at: NULL in a local header. */
static bool parts_widen(struct zf_bytes extra, struct parts_said *s, uint64_t *at)
{
    if (s->size != UINT32_MAX && s->comp_size != UINT32_MAX && (!at || *at != UINT32_MAX))
        return true;
    while (zf_bytes_left(&extra) && !extra.bad) {
        const uint16_t id = zf_bytes_le16(&extra), len = zf_bytes_le16(&extra);
        const uint8_t *p = zf_bytes_take(&extra, len);
        struct zf_bytes b = zf_bytes_of(p, p ? len : 0);

        if (id == ZIP64 && p) {
            return parts_wide(&s->size, &b) && parts_wide(&s->comp_size, &b) &&
                   (!at || parts_wide(at, &b));
        }
    }
    return false;
}

/* Reads the n bytes at `off` into a->extra. */
static bool parts_read_extra(struct parts *a, uint64_t n, uint64_t off, struct zf_err *err)
{
    a->extra.n = 0;
    return zf_vec_room(&a->extra, n + 1, err) && zip_reader_pread(a->r, a->extra.at, n, off, err);
}

static bool parts_read_entry(struct parts *a, uint64_t *off, struct zf_err *err)
{
    uint8_t head[ENTRY_BYTES];
    struct parts_entry *e = zf_vec_push(&a->entry, err);

    if (!e || !zip_reader_pread(a->r, head, sizeof head, *off, err))
        return false;
    struct zf_bytes b = zf_bytes_of(head, sizeof head);
    b.at = 6;
    e->said = parts_read_fields(&b);
    e->name_len = zf_bytes_le16(&b);
    const uint16_t extra = zf_bytes_le16(&b), comment = zf_bytes_le16(&b);
    b.at = 42;
    e->at = zf_bytes_le32(&b);
    e->name = (uint32_t)a->names.n;
    if (!zf_vec_room(&a->names, e->name_len + 1u, err) ||
        !zip_reader_pread(a->r, a->names.at + a->names.n, e->name_len, *off + ENTRY_BYTES, err) ||
        !parts_read_extra(a, extra, *off + ENTRY_BYTES + e->name_len, err))
        return false;
    a->names.n += e->name_len;
    a->names.at[a->names.n++] = '\0';
    if (!parts_widen(zf_bytes_of(a->extra.at, extra), &e->said, &e->at))
        return zf_fail(err, ZF_E_FORMAT, *off, "this entry of the directory has no zip64 sizes");
    *off += ENTRY_BYTES + e->name_len + extra + comment;
    return true;
}

static int parts_by_place(const void *a, const void *b)
{
    const struct parts_entry *x = a, *y = b;

    return (x->at > y->at) - (x->at < y->at);
}

static bool parts_load(struct parts *a, struct zf_err *err)
{
    uint64_t off = a->end.dir_off;

    for (uint64_t i = 0; i < a->end.entries; i++)
        if (!parts_read_entry(a, &off, err))
            return false;
    if (a->entry.n > 0)
        qsort(a->entry.at, a->entry.n, sizeof *a->entry.at, parts_by_place);
    return true;
}

/* ---- a member -------------------------------------------------------------------------------- */

/* The name of a field that differs; NULL = none.  sums: compares CRC and sizes, too, which may be only after the
 * data. */
static const char *parts_differ(const struct parts_said *a, const struct parts_said *b, bool sums)
{
    return a->method != b->method                               ? "method"
           : a->flags != b->flags                               ? "flags"
           : a->time != b->time || a->date != b->date           ? "time"
           : a->needs != b->needs                               ? "version"
           : !sums                                              ? NULL
           : a->crc != b->crc                                   ? "CRC-32"
           : a->comp_size != b->comp_size || a->size != b->size ? "size"
                                                                : NULL;
}

/* Reads the descriptor after the data, with or without signature, with sizes of 4 or 8 bytes: the variant that has the
 * sizes of the directory, or else the likely one.  Moves *end past it. */
static bool parts_read_descriptor(struct parts *a, const struct parts_entry *e, uint64_t *end,
                                  const char **differs, struct zf_err *err)
{
    uint8_t p[ZIP_DESCRIPTOR];
    const uint64_t left = a->end.dir_off - *end, n = left < sizeof p ? left : sizeof p;

    if (!zip_reader_pread(a->r, p, n, *end, err))
        return false;
    for (unsigned k = 0; k < 4; k++) {
        struct zf_bytes b = zf_bytes_of(p, n);
        const bool sign = k < 2, wide = k % 2;
        const bool signed_well = !sign || zf_bytes_le32(&b) == SIG_DESCRIPTOR;
        const uint32_t crc = zf_bytes_le32(&b);
        const uint64_t comp = wide ? zf_bytes_le64(&b) : zf_bytes_le32(&b);
        const uint64_t size = wide ? zf_bytes_le64(&b) : zf_bytes_le32(&b);

        if (signed_well && !b.bad && comp == e->said.comp_size && size == e->said.size) {
            *end += b.at;
            *differs = *differs ? *differs : crc != e->said.crc ? "CRC-32" : NULL;
            return true;
        }
    }
    *differs = *differs ? *differs : "descriptor";
    return true;
}

/* Reads a member's local header, which exists, because opening the archive has checked it. */
static bool parts_read_member(struct parts *a, const struct parts_entry *e, struct zf_zip_part *out,
                              struct zf_err *err)
{
    uint8_t head[LOCAL_BYTES];
    const char *name = (const char *)a->names.at + e->name;

    if (!zf_within(e->at, LOCAL_BYTES, a->end.dir_off))
        return zf_fail(err, ZF_E_FORMAT, e->at, "member \"%s\" begins in the directory", name);
    if (!zip_reader_pread(a->r, head, sizeof head, e->at, err))
        return false;
    struct zf_bytes b = zf_bytes_of(head, sizeof head);
    const bool begins = zf_bytes_le32(&b) == SIG_LOCAL;
    struct parts_said local = parts_read_fields(&b);
    const uint16_t name_len = zf_bytes_le16(&b), extra = zf_bytes_le16(&b);
    const uint64_t lead = LOCAL_BYTES + name_len + extra, behind = e->at + LOCAL_BYTES;
    uint64_t all;

    if (!begins || !zf_add(lead, e->said.comp_size, &all) ||
        !zf_within(e->at, all, a->end.dir_off)) {
        return zf_fail(err, ZF_E_FORMAT, e->at, "the header here does not belong to member \"%s\"",
                       name);
    }
    if (!parts_read_extra(a, name_len + extra, behind, err))
        return false;
    const bool described = local.flags & FLAG_DESCRIBED,
               left_out = described && local.crc == 0 && local.comp_size == 0 && local.size == 0;
    const bool widened = parts_widen(zf_bytes_of(a->extra.at + name_len, extra), &local, NULL);

    *out = (struct zf_zip_part){.first = e->at,
                                .end = e->at + all,
                                .name = name,
                                .data = e->at + lead,
                                .comp_size = e->said.comp_size,
                                .size = e->said.size,
                                .crc = e->said.crc,
                                .method = e->said.method,
                                .differs = parts_differ(&local, &e->said, !left_out)};
    if (name_len != e->name_len || memcmp(a->extra.at, name, name_len) != 0)
        out->differs = "name";
    else if (!widened)
        out->differs = "size";
    return !described || parts_read_descriptor(a, e, &out->end, &out->differs, err);
}

/* ---- the archive ----------------------------------------------------------------------------- */

/* Finds where the records after the directory end; they were checked when the archive was opened. */
static bool parts_find_end(struct parts *a, uint64_t *out, struct zf_err *err)
{
    uint8_t p[END_BYTES];
    uint64_t at = a->end.dir_off + a->end.dir_bytes;

    for (;;) {
        if (!zip_reader_pread(a->r, p, sizeof p, at, err))
            return false;
        struct zf_bytes b = zf_bytes_of(p, sizeof p);
        const uint32_t sign = zf_bytes_le32(&b);

        if (sign == SIG_END) {
            b.at = END_BYTES - 2;
            *out = at + END_BYTES + zf_bytes_le16(&b);
            return true;
        }
        if (sign == SIG_LOCATOR)
            at += LOCATOR_BYTES;
        else if (sign != SIG_END64 || !zf_add(at, zf_bytes_le64(&b) + 12, &at))
            return zf_fail(err, ZF_E_FORMAT, at, "found no end record here, after the directory");
    }
}

static bool parts_each(struct parts *a, zf_zip_part_fn *fn, void *ctx, struct zf_err *err)
{
    struct zf_zip_part p = {.end = 0};

    for (size_t i = 0; i <= a->entry.n; i++) {
        const uint64_t end = p.end, next = i < a->entry.n ? a->entry.at[i].at : a->end.dir_off;

        p = (struct zf_zip_part){.first = end, .end = next};
        if ((next > end && !fn(ctx, &p, err)) ||
            (i < a->entry.n &&
             (!parts_read_member(a, &a->entry.at[i], &p, err) || !fn(ctx, &p, err))))
            return false;
    }
    p = (struct zf_zip_part){.end = a->r->src->size};
    return parts_find_end(a, &p.first, err) && (p.first >= p.end || fn(ctx, &p, err));
}

bool zf_zip_each_part(struct zf_source *src, zf_zip_part_fn *fn, void *ctx, struct zf_err *err)
{
    struct zip_reader r;
    struct parts a = {.r = &r};

    zip_reader_init(&r, src);
    err->path[0] = '\0';
    const bool ok =
        zip_end_load(src, &a.end, err) && parts_load(&a, err) && parts_each(&a, fn, ctx, err);
    zip_reader_fini(&r);
    zf_vec_fini(&a.entry);
    zf_vec_fini(&a.names);
    zf_vec_fini(&a.extra);
    return ok || (!err->path[0] && zf_err_in(err, "%s", src->name));
}
