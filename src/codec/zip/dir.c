/* SPDX-License-Identifier: Apache-2.0 */
/* Source: PKWARE APPNOTE 4.3.12, 4.4.4, 4.5.3. */
#include "dir.h"

#include <string.h>

#include <zf/base/bytes.h>
#include <zf/base/hash.h>
#include <zf/base/num.h>

#include "local.h"

#define ENTRY_BYTES 46u
#define SIG_ENTRY 0x02014b50u
#define EXTRA_ZIP64 1u
#define IN_ZIP64 0xffffffffu
#define FLAG_ENCRYPTED 1u
/* Deflate cannot make more than this of one byte. */
#define DEFLATE_RATIO 1032u

struct dir_reading {
    struct zip_reader *r;
    const struct zip_end *end;
    struct zip_dir *d;
    uint64_t at, stop; /* the next entry; where the directory ends */
    uint8_t *extra;    /* [UINT16_MAX] */
};

/* An entry as it is in the file. */
struct dir_raw {
    struct zf_zip_member m;
    uint64_t at, name_len;
    uint16_t flags, disk;
};

/* Every failure of this file's own names the archive. */
#define BAD(src, err, ...) (zf_fail(err, __VA_ARGS__), zf_err_in(err, "%s", (src)->name))

/* ---- one entry ---------------------------------------------------------------------------- */

/* A number of 32 bits, or of 64 in the extra field. */
static uint64_t dir_number(uint32_t small, struct zf_bytes *zip64)
{
    return small == IN_ZIP64 ? zf_bytes_le64(zip64) : small;
}

/* The zip64 record among extra fields; empty where there is none. */
static struct zf_bytes dir_find_zip64(struct zf_bytes extra)
{
    while (zf_bytes_left(&extra)) {
        const uint16_t id = zf_bytes_le16(&extra), len = zf_bytes_le16(&extra);
        const uint8_t *p = zf_bytes_take(&extra, len);

        if (p && id == EXTRA_ZIP64) {
            return zf_bytes_of(p, len);
        }
    }
    return zf_bytes_of(NULL, 0);
}

/* Adds n bytes at `off` to the names, and a NUL. */
static bool dir_load_name(struct dir_reading *l, uint64_t n, uint64_t off, struct zf_err *err)
{
    struct zip_dir *d = l->d;

    if (d->names.n > UINT32_MAX - n - 1) {
        return BAD(l->r->src, err, ZF_E_LIMIT, off,
                   "the names of its members take more than 4 GiB");
    }
    if (!zf_vec_room(&d->names, (size_t)n + 1, err) ||
        !zip_reader_pread(l->r, d->names.at + d->names.n, n, off, err)) {
        return false;
    }
    d->names.at[d->names.n + n] = '\0';
    return true;
}

/* Reads entry i and moves behind it; its name is behind the names then, and not yet one of them. */
static bool dir_load_raw(struct dir_reading *l, uint64_t i, struct dir_raw *out, struct zf_err *err)
{
    const uint64_t off = l->at, left = l->stop - off;
    uint8_t head[ENTRY_BYTES];

    if (left < ENTRY_BYTES) {
        return BAD(l->r->src, err, ZF_E_FORMAT, off,
                   "broken zip archive: the directory ends within entry %llu of %llu",
                   (unsigned long long)i, (unsigned long long)l->d->n);
    }
    if (!zip_reader_pread(l->r, head, sizeof head, off, err)) {
        return false;
    }
    struct zf_bytes b = zf_bytes_of(head, sizeof head);
    const bool begins = zf_bytes_le32(&b) == SIG_ENTRY;
    b.at = 8;
    out->flags = zf_bytes_le16(&b);
    out->m = (struct zf_zip_member){.method = zf_bytes_le16(&b)};
    b.at = 16;
    out->m.crc = zf_bytes_le32(&b);
    const uint32_t comp = zf_bytes_le32(&b), size = zf_bytes_le32(&b);
    out->name_len = zf_bytes_le16(&b);
    const uint64_t extra_len = zf_bytes_le16(&b), comment_len = zf_bytes_le16(&b);
    out->disk = zf_bytes_le16(&b);
    b.at = 42;
    const uint32_t at = zf_bytes_le32(&b);
    const uint64_t n = ENTRY_BYTES + out->name_len + extra_len + comment_len;

    if (!begins || n > left) {
        return BAD(l->r->src, err, ZF_E_FORMAT, off,
                   begins ? "broken zip archive: entry %llu reaches beyond the directory"
                          : "broken zip archive: entry %llu of the directory does not begin here",
                   (unsigned long long)i);
    }
    l->at += n;
    const bool wide = comp == IN_ZIP64 || size == IN_ZIP64 || at == IN_ZIP64;
    if (!dir_load_name(l, out->name_len, off + ENTRY_BYTES, err) ||
        (wide &&
         !zip_reader_pread(l->r, l->extra, extra_len, off + ENTRY_BYTES + out->name_len, err))) {
        return false;
    }
    struct zf_bytes zip64 = dir_find_zip64(zf_bytes_of(l->extra, wide ? extra_len : 0));
    out->m.size = dir_number(size, &zip64);
    out->m.comp_size = dir_number(comp, &zip64);
    out->at = dir_number(at, &zip64);
    return !zip64.bad || BAD(l->r->src, err, ZF_E_FORMAT, off,
                             "broken zip archive: entry %llu lacks the 64 bits of its numbers",
                             (unsigned long long)i);
}

/* Its sizes, against each other and against where the directory begins. */
static bool dir_check_sizes(const struct dir_reading *l, const struct zf_zip_member *m,
                            struct zf_err *err)
{
    const struct zf_source *src = l->r->src;

    if (m->method != ZIP_DEFLATED && m->size != m->comp_size) {
        return BAD(src, err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "member \"%s\" is stored, but its two sizes differ: %llu and %llu", m->name,
                   (unsigned long long)m->comp_size, (unsigned long long)m->size);
    }
    if (m->comp_size > l->end->dir_off) {
        return BAD(src, err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "member \"%s\" has %llu bytes, the archive before its directory only %llu",
                   m->name, (unsigned long long)m->comp_size, (unsigned long long)l->end->dir_off);
    }
    return m->size / DEFLATE_RATIO <= m->comp_size ||
           BAD(src, err, ZF_E_FORMAT, ZF_OFF_NONE,
               "member \"%s\": %llu bytes cannot come out of %llu deflated ones", m->name,
               (unsigned long long)m->size, (unsigned long long)m->comp_size);
}

static bool dir_check(const struct dir_reading *l, uint64_t i, const struct dir_raw *e,
                      struct zf_err *err)
{
    const struct zf_source *src = l->r->src;

    if (e->name_len == 0 || strlen(e->m.name) != e->name_len) {
        return BAD(src, err, ZF_E_FORMAT, ZF_OFF_NONE,
                   e->name_len ? "the name of member %llu has a NUL in it"
                               : "member %llu has no name",
                   (unsigned long long)i);
    }
    if (e->flags & FLAG_ENCRYPTED) {
        return BAD(src, err, ZF_E_UNSUPPORTED, ZF_OFF_NONE, "member \"%s\" is encrypted",
                   e->m.name);
    }
    if (e->m.method != 0 && e->m.method != ZIP_DEFLATED) {
        return BAD(src, err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                   "member \"%s\" is compressed by method %u; stored and deflated ones can be read",
                   e->m.name, e->m.method);
    }
    if (e->disk != 0) {
        return BAD(src, err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                   "member \"%s\" is on disk %u: the archive is split over several disks",
                   e->m.name, e->disk);
    }
    return dir_check_sizes(l, &e->m, err);
}

/* Keeps the member, whose name is the last of the names. */
static bool dir_keep(struct zip_dir *d, uint64_t i, const struct dir_raw *e, struct zf_err *err)
{
    const bool deflated = e->m.method == ZIP_DEFLATED;
    struct zip_deflated *more = deflated ? zf_vec_push(&d->deflated, err) : NULL;

    if (deflated && !more) {
        return false;
    }
    if (more) {
        *more = (struct zip_deflated){.size = e->m.size, .member = (uint32_t)i, .crc = e->m.crc};
    }
    d->entry[i] = (struct zip_entry){.at = e->at,
                                     .comp_size = e->m.comp_size,
                                     .name = (uint32_t)d->names.n,
                                     .deflated = deflated};
    d->names.n += e->name_len + 1;
    return true;
}

/* ---- all of them -------------------------------------------------------------------------- */

static bool dir_index_names(const struct zf_source *src, struct zip_dir *d, struct zf_err *err)
{
    if (!zf_index_reserve(&d->by_name, (size_t)d->n, err)) {
        return false;
    }
    for (uint64_t i = 0; i < d->n; i++) {
        const char *name = d->names.at + d->entry[i].name;

        if (zip_dir_find(d, name) != ZF_INDEX_NONE) {
            return BAD(src, err, ZF_E_FORMAT, ZF_OFF_NONE, "duplicate member \"%s\"", name);
        }
        if (!zf_index_add(&d->by_name, zf_hash_str(0, name), (uint32_t)i, err)) {
            return false;
        }
    }
    return true;
}

static bool dir_load_entries(struct dir_reading *l, struct zf_err *err)
{
    for (uint64_t i = 0; i < l->d->n; i++) {
        struct dir_raw e = {0};

        if (!dir_load_raw(l, i, &e, err)) {
            return false;
        }
        e.m.name = l->d->names.at + l->d->names.n;
        if (!dir_check(l, i, &e, err) || !dir_keep(l->d, i, &e, err)) {
            return false;
        }
    }
    return l->at == l->stop ||
           BAD(l->r->src, err, ZF_E_FORMAT, l->at,
               "broken zip archive: the directory goes on behind the last of its %llu members",
               (unsigned long long)l->d->n);
}

/* Gives back what the names did not need. */
static void dir_fit_names(struct zip_dir *d)
{
    char *p = d->names.n ? realloc(d->names.at, d->names.n) : NULL;

    if (p) {
        d->names.at = p;
        d->names.cap = d->names.n;
    }
}

bool zip_dir_load(struct zip_reader *r, const struct zip_end *end, struct zip_dir *out,
                  struct zf_err *err)
{
    *out = (struct zip_dir){.n = end->entries};
    if (end->entries > end->dir_bytes / ENTRY_BYTES || end->entries >= ZF_INDEX_NONE) {
        return BAD(r->src, err, ZF_E_FORMAT, end->dir_off,
                   "broken zip archive: the directory of %llu bytes is too short for %llu members",
                   (unsigned long long)end->dir_bytes, (unsigned long long)end->entries);
    }
    zf_auto(mem) uint8_t *extra = malloc(UINT16_MAX);
    out->entry = calloc(out->n ? (size_t)out->n : 1, sizeof *out->entry);
    if (!extra || !out->entry) {
        return zf_fail_sys(err, "allocate memory");
    }
    struct dir_reading l = {.r = r,
                            .end = end,
                            .d = out,
                            .at = end->dir_off,
                            .stop = end->dir_off + end->dir_bytes,
                            .extra = extra};
    if (!dir_load_entries(&l, err)) {
        return false;
    }
    dir_fit_names(out);
    return dir_index_names(r->src, out, err);
}

void zip_dir_fini(struct zip_dir *d)
{
    free(d->entry);
    zf_vec_fini(&d->names);
    zf_vec_fini(&d->deflated);
    zf_index_fini(&d->by_name);
}

static int dir_cmp_deflated(const void *a, const void *b)
{
    const struct zip_deflated *x = a, *y = b;

    return (x->member > y->member) - (x->member < y->member);
}

struct zf_zip_member zip_dir_member(const struct zip_dir *d, uint64_t i)
{
    const struct zip_entry *e = &d->entry[i];
    struct zf_zip_member m = {
        .name = d->names.at + e->name, .size = e->comp_size, .comp_size = e->comp_size};

    if (e->deflated) {
        const struct zip_deflated key = {.member = (uint32_t)i},
                                  *more = bsearch(&key, d->deflated.at, d->deflated.n, sizeof key,
                                                  dir_cmp_deflated);
        m.size = more->size;
        m.crc = more->crc;
        m.method = ZIP_DEFLATED;
    }
    return m;
}

uint32_t zip_dir_find(const struct zip_dir *d, const char *name)
{
    const uint64_t hash = zf_hash_str(0, name);
    uint64_t at = 0;
    uint32_t i;

    while ((i = zf_index_next(&d->by_name, hash, &at)) != ZF_INDEX_NONE) {
        if (strcmp(d->names.at + d->entry[i].name, name) == 0) {
            break;
        }
    }
    return i;
}

/* ---- where they are ----------------------------------------------------------------------- */

static int dir_cmp_place(const void *a, const void *b)
{
    const struct zip_place *x = a, *y = b;

    return (x->at > y->at) - (x->at < y->at);
}

bool zip_dir_order(const struct zip_dir *d, struct zip_place **out, uint64_t *n_out,
                   struct zf_err *err)
{
    struct zip_place *p = calloc(d->n ? (size_t)d->n : 1, sizeof *p);
    bool sorted = true;
    uint64_t k = 0;

    if (!p) {
        return zf_fail_sys(err, "allocate memory");
    }
    for (uint64_t i = 0; i < d->n; i++) {
        if (d->entry[i].comp_size) {
            p[k] = (struct zip_place){.at = d->entry[i].at, .member = (uint32_t)i};
            sorted = sorted && (k == 0 || p[k - 1].at <= p[k].at);
            k++;
        }
    }
    if (!sorted) {
        qsort(p, k, sizeof *p, dir_cmp_place);
    }
    *out = p;
    *n_out = k;
    return true;
}

bool zip_dir_bound(const struct zip_dir *d, const struct zf_source *src, uint64_t data_end,
                   uint64_t **out, struct zf_err *err)
{
    zf_auto(mem) struct zip_place *p = NULL;
    uint64_t k;

    *out = calloc(d->n ? (size_t)d->n : 1, sizeof **out);
    if (!*out) {
        return zf_fail_sys(err, "allocate memory");
    }
    if (!zip_dir_order(d, &p, &k, err)) {
        return false;
    }
    for (uint64_t i = 0; i < k; i++) {
        const struct zf_zip_member m = zip_dir_member(d, p[i].member);
        const struct zip_local l = {.name = m.name, .at = p[i].at};
        const uint64_t next = i + 1 < k ? p[i + 1].at : data_end;
        uint64_t least;

        if (!zf_add(l.at, zip_local_bytes(&l), &least) || !zf_add(least, m.comp_size, &least) ||
            least > data_end) {
            return BAD(src, err, ZF_E_FORMAT, l.at,
                       "member \"%s\" of %llu bytes should begin here, but the directory begins "
                       "at byte %llu",
                       m.name, (unsigned long long)m.comp_size, (unsigned long long)data_end);
        }
        if (least > next) {
            return BAD(src, err, ZF_E_FORMAT, next,
                       "two members overlap: one starts here, the one before ends at byte %llu",
                       (unsigned long long)least);
        }
        (*out)[p[i].member] = next;
    }
    return true;
}
