/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the central directory.  The entries' lengths, names and offsets are parsed here, because libzip is given a
 * run of entries at a time and does not report offsets.  All other fields come from libzip.  Source: PKWARE APPNOTE
 * 4.3.12, 4.5.3. */
#include "dir.h"

#include <string.h>

#include <zf/base/bytes.h>
#include <zf/base/num.h>
#include <zf/base/search.h>

#include "local.h"

#define ENTRY_BYTES 46u
#define SIG_ENTRY 0x02014b50u
#define EXTRA_ZIP64 1u
/* One deflated byte inflates to at most this many. */
#define DEFLATE_RATIO 1032u
/* A run, which libzip reads at once, ends after this many entries, or after the entry that reaches this many bytes. */
#define RUN_ENTRIES 512u
#define RUN_BYTES (1u << 20)

struct dir_reading {
    struct zip_reader *r;
    const struct zip_end *end;
    struct zip_dir *d;
    uint64_t at, stop;         /* the next entry; where the directory ends */
    zf_vec(uint8_t) run;       /* the current entries, as in the file */
    struct libzip_entry *fact; /* [RUN_ENTRIES] */
};

/* Fails with a message that names the archive. */
#define BAD(src, err, ...) (zf_fail(err, __VA_ARGS__), zf_err_in(err, "%s", (src)->name))

/* ---- one entry ---------------------------------------------------------------------------- */

/* Appends the next n bytes of the directory to the run. */
static bool dir_read(struct dir_reading *l, uint64_t n, struct zf_err *err)
{
    if (!zf_vec_room(&l->run, (size_t)n, err) ||
        !zip_reader_pread(l->r, l->run.at + l->run.n, n, l->at, err))
        return false;
    l->run.n += (size_t)n;
    l->at += n;
    return true;
}

/* Adds the name of entry i to the names: n bytes of the run, followed by the last `behind` bytes. */
static bool dir_add_name(struct dir_reading *l, uint64_t i, uint64_t n, uint64_t behind,
                         struct zf_err *err)
{
    struct zip_dir *d = l->d;
    const uint8_t *name = l->run.at + l->run.n - behind - n;

    if (n == 0 || memchr(name, 0, (size_t)n)) {
        return BAD(l->r->src, err, ZF_E_FORMAT, ZF_OFF_NONE,
                   n ? "the name of member %llu has a NUL in it" : "member %llu has no name",
                   (unsigned long long)i);
    }
    if (d->names.n > UINT32_MAX - n - 1) {
        return BAD(l->r->src, err, ZF_E_LIMIT, l->at,
                   "the names of its members take more than 4 GiB");
    }
    if (!zf_vec_room(&d->names, (size_t)n + 1, err))
        return false;
    d->entry[i].name = (uint32_t)d->names.n;
    memcpy(d->names.at + d->names.n, name, (size_t)n);
    d->names.n += (size_t)n;
    d->names.at[d->names.n++] = '\0';
    return true;
}

/* Reads the offset of an entry's member.  Those of the two sizes and the offset that do not fit in 32 bits are, in this
 * order, in the first zip64 field in extra[n]. */
static bool dir_offset(const uint8_t *entry, const uint8_t *extra, uint64_t n, uint64_t *out)
{
    struct zf_bytes b = zf_bytes_of(entry + 20, ENTRY_BYTES - 20), x = zf_bytes_of(extra, n);
    uint64_t sizes = zf_bytes_le32(&b) == UINT32_MAX ? sizeof(uint64_t) : 0;

    sizes += zf_bytes_le32(&b) == UINT32_MAX ? sizeof(uint64_t) : 0;
    b.at = 42 - 20;
    *out = zf_bytes_le32(&b);
    if (*out != UINT32_MAX)
        return true;
    while (zf_bytes_left(&x) > 0) {
        const uint16_t id = zf_bytes_le16(&x), len = zf_bytes_le16(&x);
        const void *field = zf_bytes_take(&x, len);

        if (field && id == EXTRA_ZIP64) {
            x = zf_bytes_of(field, len);
            (void)zf_bytes_take(&x, sizes);
            *out = zf_bytes_le64(&x);
            return !x.bad;
        }
    }
    return false;
}

/* Reads entry i into the run, adds its name to the names, and moves past it. */
static bool dir_load_entry(struct dir_reading *l, uint64_t i, struct zf_err *err)
{
    const uint64_t off = l->at, left = l->stop - off;

    if (left < ENTRY_BYTES) {
        return BAD(l->r->src, err, ZF_E_FORMAT, off,
                   "broken zip archive: the directory ends within entry %llu of %llu",
                   (unsigned long long)i, (unsigned long long)l->end->entries);
    }
    if (!dir_read(l, ENTRY_BYTES, err))
        return false;
    struct zf_bytes b = zf_bytes_of(l->run.at + l->run.n - ENTRY_BYTES, ENTRY_BYTES);
    const bool begins = zf_bytes_le32(&b) == SIG_ENTRY;
    b.at = 28;
    const uint64_t name = zf_bytes_le16(&b), extra = zf_bytes_le16(&b), comment = zf_bytes_le16(&b);
    const uint16_t disk = zf_bytes_le16(&b);
    const uint64_t n = name + extra + comment;

    if (!begins || n > left - ENTRY_BYTES) {
        return BAD(l->r->src, err, ZF_E_FORMAT, off,
                   begins ? "broken zip archive: entry %llu reaches beyond the directory"
                          : "broken zip archive: entry %llu of the directory does not begin here",
                   (unsigned long long)i);
    }
    if (!dir_read(l, n, err) || !dir_add_name(l, i, name, extra + comment, err))
        return false;
    struct zip_entry *e = &l->d->entry[i];
    const uint8_t *p = l->run.at + l->run.n - n - ENTRY_BYTES;

    if (disk != 0) {
        return BAD(l->r->src, err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                   "member \"%s\" is on disk %u: the archive is split over several disks",
                   l->d->names.at + e->name, disk);
    }
    return dir_offset(p, p + ENTRY_BYTES + name, extra, &e->at) ||
           BAD(l->r->src, err, ZF_E_FORMAT, off,
               "broken zip archive: entry %llu of the directory has no offset, in 32 bits or in a "
               "zip64 field",
               (unsigned long long)i);
}

/* Compares the sizes of a member with each other and with the offset of the directory. */
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
        return BAD(
            src, err, ZF_E_FORMAT, ZF_OFF_NONE,
            "member \"%s\" has %llu bytes, but the archive has only %llu before its directory",
            m->name, (unsigned long long)m->comp_size, (unsigned long long)l->end->dir_off);
    }
    return m->size / DEFLATE_RATIO <= m->comp_size ||
           BAD(src, err, ZF_E_FORMAT, ZF_OFF_NONE,
               "member \"%s\": %llu bytes cannot come out of %llu deflated ones", m->name,
               (unsigned long long)m->size, (unsigned long long)m->comp_size);
}

static bool dir_check(const struct dir_reading *l, const struct zf_zip_member *m, uint64_t at,
                      bool encrypted, struct zf_err *err)
{
    const struct zf_source *src = l->r->src;

    if (m->comp_size && at >= l->end->dir_off) {
        return BAD(src, err, ZF_E_FORMAT, at,
                   "member \"%s\" should begin here, but the directory begins at byte %llu",
                   m->name, (unsigned long long)l->end->dir_off);
    }
    if (encrypted)
        return BAD(src, err, ZF_E_UNSUPPORTED, ZF_OFF_NONE, "member \"%s\" is encrypted", m->name);
    if (m->method != 0 && m->method != ZIP_DEFLATED) {
        return BAD(src, err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                   "member \"%s\" is compressed by method %u; stored and deflated ones can be read",
                   m->name, m->method);
    }
    return dir_check_sizes(l, m, err);
}

/* Checks and stores what libzip reported for entry i. */
static bool dir_keep(struct dir_reading *l, uint64_t i, const struct libzip_entry *f,
                     struct zf_err *err)
{
    struct zip_dir *d = l->d;
    struct zip_entry *e = &d->entry[i];
    const struct zf_zip_member m = {.name = d->names.at + e->name,
                                    .size = f->size,
                                    .comp_size = f->comp_size,
                                    .crc = f->crc,
                                    .method = f->method};

    if (!dir_check(l, &m, e->at, f->encrypted, err))
        return false;
    e->at = f->comp_size ? e->at : 0;
    e->comp_size = f->comp_size;
    e->deflated = f->method == ZIP_DEFLATED;
    struct zip_deflated *more = e->deflated ? zf_vec_push(&d->deflated, err) : NULL;

    if (more)
        *more = (struct zip_deflated){.size = f->size, .member = (uint32_t)i, .crc = f->crc};
    return more || !e->deflated;
}

/* ---- all entries -------------------------------------------------------------------------- */

static int dir_cmp_name(const void *a, const void *b, void *dir)
{
    const struct zip_dir *d = dir;
    const uint32_t *x = a, *y = b;

    return strcmp(d->names.at + d->entry[*x].name, d->names.at + d->entry[*y].name);
}

static bool dir_sort_names(const struct zf_source *src, struct zip_dir *d, struct zf_err *err)
{
    d->by_name = malloc((d->n ? (size_t)d->n : 1) * sizeof *d->by_name);
    if (!d->by_name)
        return zf_fail_sys(err, "allocate memory");
    for (uint32_t i = 0; i < d->n; i++)
        d->by_name[i] = i;
    qsort_r(d->by_name, (size_t)d->n, sizeof *d->by_name, dir_cmp_name, d);
    for (uint64_t i = 1; i < d->n; i++) {
        if (dir_cmp_name(&d->by_name[i - 1], &d->by_name[i], d) == 0) {
            return BAD(src, err, ZF_E_FORMAT, ZF_OFF_NONE, "duplicate member \"%s\"",
                       d->names.at + d->entry[d->by_name[i]].name);
        }
    }
    return true;
}

/* Reads a run of entries from i on; *n_out: how many. */
static bool dir_load_run(struct dir_reading *l, uint64_t i, uint32_t *n_out, struct zf_err *err)
{
    struct libzip_run run = {.off = l->at, .first = i};

    l->run.n = 0;
    while (run.n < RUN_ENTRIES && l->run.n < RUN_BYTES && i + run.n < l->d->n) {
        if (!dir_load_entry(l, i + run.n, err))
            return false;
        run.n++;
    }
    run.p = l->run.at;
    run.bytes = l->run.n;
    if (!libzip_load(&run, l->fact, err))
        return zf_err_in(err, "%s", l->r->src->name);
    for (uint32_t k = 0; k < run.n; k++)
        if (!dir_keep(l, i + k, &l->fact[k], err))
            return false;
    *n_out = run.n;
    return true;
}

static bool dir_load_entries(struct dir_reading *l, struct zf_err *err)
{
    uint32_t n = 0;

    for (uint64_t i = 0; i < l->d->n; i += n)
        if (!dir_load_run(l, i, &n, err))
            return false;
    return l->at == l->stop || l->d->n < l->end->entries ||
           BAD(l->r->src, err, ZF_E_FORMAT, l->at,
               "broken zip archive: the directory goes on after the last of its %llu members",
               (unsigned long long)l->d->n);
}

/* Frees the unused memory of the names. */
static void dir_fit_names(struct zip_dir *d)
{
    char *p = d->names.n ? realloc(d->names.at, d->names.n) : NULL;

    if (p) {
        d->names.at = p;
        d->names.cap = d->names.n;
    }
}

bool zip_dir_load(struct zip_reader *r, const struct zip_end *end, uint64_t n, struct zip_dir *out,
                  struct zf_err *err)
{
    *out = (struct zip_dir){.n = n < end->entries ? n : end->entries};
    if (end->entries > end->dir_bytes / ENTRY_BYTES || end->entries >= ZIP_DIR_NONE) {
        return BAD(r->src, err, ZF_E_FORMAT, end->dir_off,
                   "broken zip archive: the directory of %llu bytes is too short for %llu members",
                   (unsigned long long)end->dir_bytes, (unsigned long long)end->entries);
    }
    zf_auto(mem) struct libzip_entry *fact = calloc(RUN_ENTRIES, sizeof *fact);
    out->entry = calloc(out->n ? (size_t)out->n : 1, sizeof *out->entry);
    if (!fact || !out->entry)
        return zf_fail_sys(err, "allocate memory");
    struct dir_reading l = {.r = r,
                            .end = end,
                            .d = out,
                            .at = end->dir_off,
                            .stop = end->dir_off + end->dir_bytes,
                            .fact = fact};
    const bool ok = dir_load_entries(&l, err);
    zf_vec_fini(&l.run);
    if (!ok)
        return false;
    dir_fit_names(out);
    return dir_sort_names(r->src, out, err);
}

void zip_dir_fini(struct zip_dir *d)
{
    free(d->entry);
    zf_vec_fini(&d->names);
    zf_vec_fini(&d->deflated);
    free(d->by_name);
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
    size_t i;

    ZF_SEARCH(i, d->n, strcmp(d->names.at + d->entry[d->by_name[i]].name, name) >= 0);
    if (i < d->n && strcmp(d->names.at + d->entry[d->by_name[i]].name, name) == 0)
        return d->by_name[i];
    return ZIP_DIR_NONE;
}

/* ---- offsets ------------------------------------------------------------------------------ */

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

    if (!p)
        return zf_fail_sys(err, "allocate memory");
    for (uint64_t i = 0; i < d->n; i++) {
        if (d->entry[i].comp_size) {
            p[k] = (struct zip_place){.at = d->entry[i].at, .member = (uint32_t)i};
            sorted = sorted && (k == 0 || p[k - 1].at <= p[k].at);
            k++;
        }
    }
    if (!sorted)
        qsort(p, k, sizeof *p, dir_cmp_place);
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
    if (!*out)
        return zf_fail_sys(err, "allocate memory");
    if (!zip_dir_order(d, &p, &k, err))
        return false;
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
