/* SPDX-License-Identifier: Apache-2.0 */
/* libzip reads the directory of every archive (libzip.c).  Readers that use end record, directory or local headers
 * must not see different archives in one file, so zerofs checks the rest itself: the end record, because libzip
 * takes the best of several and trusts its numbers when it allocates (end.c); that names are unique and sizes fit
 * the file, because a name or a byte of two members would be ambiguous (dir.c); local headers, because libzip
 * could check them only by reading all of them (local.c); and that no two members overlap, which libzip never
 * checks. */
#include <zf/codec/zip.h>

#include <string.h>

#include <zf/base/num.h>
#include <zf/source/want.h>

#include "dir.h"
#include "end.h"
#include "local.h"
#include "reader.h"

struct zf_zip {
    struct zf_source *src;
    struct zf_limits lim;
    struct zip_reader reader;
    struct zip_dir dir;
    uint64_t data_end; /* offset of the directory; no member's data may reach beyond it */
    uint64_t
        *until; /* [n] upper bound of each member's end, only for a remote archive, whose headers
                        are checked by the first read; else NULL */
    bool slow;  /* headers are prefetched */
    uint64_t wanted; /* number of members whose headers were prefetched */
};

/* Fails with a message that names the archive. */
#define BAD(z, err, ...) (zf_fail(err, __VA_ARGS__), zf_err_in(err, "%s", (z)->src->name))
#define BAD_LIMIT(z, err, ...)                                                                     \
    (zf_fail_limit(err, __VA_ARGS__), zf_err_in(err, "%s", (z)->src->name))

static bool zip_check_end(struct zf_zip *z, const struct zip_end *end, struct zf_err *err)
{
    if (end->entries > z->lim.zip_entries) {
        return BAD_LIMIT(z, err, ZF_LIMIT_zip_entries, ZF_OFF_NONE,
                         "%llu members, more than the limit zip_entries=%llu",
                         (unsigned long long)end->entries, (unsigned long long)z->lim.zip_entries);
    }
    if (end->dir_bytes > z->lim.zip_directory) {
        return BAD_LIMIT(z, err, ZF_LIMIT_zip_directory, ZF_OFF_NONE,
                         "a zip directory of %llu bytes, more than the limit zip_directory=%llu",
                         (unsigned long long)end->dir_bytes,
                         (unsigned long long)z->lim.zip_directory);
    }
    return true;
}

/* Reads the first n entries of the directory, or all if there are fewer. */
static bool zip_open_archive(struct zf_zip *z, uint64_t n, struct zf_err *err)
{
    struct zip_end end;

    if (z->src->size == 0)
        return BAD(z, err, ZF_E_FORMAT, ZF_OFF_NONE, "the file is empty");
    if (!zip_end_load(z->src, &end, err))
        return err->path[0] ? false : zf_err_in(err, "%s", z->src->name);
    if (!zip_check_end(z, &end, err))
        return false;
    z->data_end = end.dir_off;
    if (zf_source_is_far(z->src) && n >= end.entries)
        zf_source_want(z->src, end.dir_off, end.dir_bytes, ZF_PREFETCH_ALL);
    return zip_dir_load(&z->reader, &end, n, &z->dir, err);
}

/* The headers of this many members are prefetched at once; each may need a request of its own. */
#define WANT_MEMBERS 64u
/* A gap of at most this many bytes between two of them is fetched, too: a second request costs more. */
#define WANT_GAP (128u << 10)
/* Bytes to fetch per header with its name and extra fields; torch pads these so that the data are aligned to 64. */
#define WANT_HEADER 192u

/* Prefetches the headers of the members before `end`, which are then read one by one, if reading the
 * archive is slow. */
static void zip_want_headers(struct zf_zip *z, uint64_t end)
{
    uint64_t from = 0, to = 0;

    for (; z->slow && z->wanted < end && z->wanted < z->dir.n; z->wanted++) {
        const uint64_t at = z->dir.entry[z->wanted].at;

        if (z->dir.entry[z->wanted].comp_size == 0)
            continue;
        if (at < from || at - from > to - from + WANT_GAP) {
            zf_source_want(z->src, from, to - from, ZF_PREFETCH_ALL);
            from = at;
        }
        to = at + WANT_HEADER;
    }
    zf_source_want(z->src, from, to - from, ZF_PREFETCH_ALL);
}

static struct zf_zip *zip_open_some(struct zf_source *src, const struct zf_limits *lim, uint64_t n,
                                    struct zf_err *err)
{
    zf_auto(zip) struct zf_zip *z = calloc(1, sizeof *z);

    if (!z)
        return zf_null(zf_fail_sys(err, "allocate memory"));
    z->src = zf_source_ref(src);
    z->lim = *lim;
    zip_reader_init(&z->reader, src);
    const bool watched = zf_want_watch(true);
    bool ok = zip_open_archive(z, n, err), waited = zf_want_waited();
    (void)zf_want_watch(watched);
    if (!ok)
        return NULL;
    if (zf_source_is_far(src) && !zip_dir_bound(&z->dir, src, z->data_end, &z->until, err))
        return NULL;
    z->slow = !z->until && waited;
    return zf_give(z);
}

struct zf_zip *zf_zip_open(struct zf_source *src, const struct zf_limits *lim, struct zf_err *err)
{
    struct zf_zip *z = zip_open_some(src, lim, UINT64_MAX, err);

    if (z)
        zip_want_headers(z, WANT_MEMBERS);
    return z;
}

struct zf_zip *zf_zip_open_first(struct zf_source *src, const struct zf_limits *lim,
                                 struct zf_err *err)
{
    return zip_open_some(src, lim, 1, err);
}

void zf_zip_free(struct zf_zip *z)
{
    if (!z)
        return;
    zip_reader_fini(&z->reader);
    zip_dir_fini(&z->dir);
    zf_source_unref(&z->src);
    free(z->until);
    free(z);
}

uint64_t zf_zip_count(const struct zf_zip *z)
{
    return z->dir.n;
}

struct zf_zip_member zf_zip_member(const struct zf_zip *z, uint64_t i)
{
    return zip_dir_member(&z->dir, i);
}

bool zf_zip_find(const struct zf_zip *z, const char *name, uint64_t *i_out)
{
    const uint32_t i = zip_dir_find(&z->dir, name);

    *i_out = i;
    return i != ZIP_DIR_NONE;
}

static struct zip_local zip_local_of(const struct zf_zip *z, uint64_t i)
{
    const struct zf_zip_member m = zip_dir_member(&z->dir, i);

    return (struct zip_local){.name = m.name, .at = z->dir.entry[i].at, .method = m.method};
}

static bool zip_read(void *from, void *buf, uint64_t n, uint64_t off, struct zf_err *err)
{
    return zip_reader_pread(from, buf, n, off, err);
}

/* Header, name and extra field together are far smaller. */
#define LEAD_MAX ((1u << 30) - 1)

/* Reads the local header of member i, which must agree with the directory. */
static bool zip_locate(struct zf_zip *z, uint64_t i, struct zf_err *err)
{
    const struct zip_local l = zip_local_of(z, i);
    struct zip_entry *e = &z->dir.entry[i];
    struct zip_local_end end;

    if (!zf_within(l.at, zip_local_bytes(&l), z->data_end)) {
        return BAD(z, err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "member \"%s\" has no data where the directory says", l.name);
    }
    if (!zip_local_load(&l, z->data_end, zip_read, &z->reader, &end, err))
        return err->path[0] ? false : zf_err_in(err, "%s", z->src->name);
    if (!zf_within(end.data, e->comp_size, z->data_end)) {
        return BAD(z, err, ZF_E_FORMAT, end.data,
                   "member \"%s\" of %llu bytes reaches into the directory at byte %llu", l.name,
                   (unsigned long long)e->comp_size, (unsigned long long)z->data_end);
    }
    e->described = end.described;
    e->lead = (uint32_t)(end.data - l.at) & LEAD_MAX;
    return true;
}

bool zf_zip_data_off(struct zf_zip *z, uint64_t i, uint64_t *off_out, struct zf_err *err)
{
    const struct zip_entry *e = &z->dir.entry[i];

    *off_out = 0;
    if (e->comp_size == 0)
        return true; /* no data */
    if (e->lead == 0 && !zip_locate(z, i, err))
        return false;
    *off_out = e->at + e->lead;
    return true;
}

static struct zf_source *zip_lazy_member(struct zf_zip *z, uint64_t i, struct zf_err *err)
{
    const struct zip_local l = zip_local_of(z, i);

    return zip_lazy_new(z->src, &l, z->dir.entry[i].comp_size, z->until[i], err);
}

struct zf_source *zf_zip_source(struct zf_zip *z, uint64_t i, struct zf_err *err)
{
    const struct zf_zip_member m = zip_dir_member(&z->dir, i);
    uint64_t off;

    if (m.method == ZIP_DEFLATED && m.size > z->lim.inflate_bytes) {
        (void)BAD_LIMIT(
            z, err, ZF_LIMIT_inflate_bytes, ZF_OFF_NONE,
            "member \"%s\" inflates to %llu bytes, more than the limit inflate_bytes=%llu", m.name,
            (unsigned long long)m.size, (unsigned long long)z->lim.inflate_bytes);
        return NULL;
    }
    if (m.size == 0)
        return zf_window_new(z->src, 0, 0, m.name, err);
    if (!z->until && !zf_zip_data_off(z, i, &off, err))
        return NULL;
    zf_auto(source) struct zf_source *raw =
        z->until ? zip_lazy_member(z, i, err)
                 : zf_window_new(z->src, off, m.comp_size, m.name, err);

    if (!raw)
        return NULL;
    return m.method != ZIP_DEFLATED ? zf_source_ref(raw)
                                    : zf_inflate_new(raw, m.size, m.crc, &z->lim, err);
}

/* Checks the descriptor of a member whose header has no sizes: it does not follow the data if the lengths in the header
 * are wrong. */
static bool zip_check_descriptor(struct zf_zip *z, uint64_t i, struct zf_err *err)
{
    const struct zip_entry *e = &z->dir.entry[i];
    const struct zf_zip_member m = zip_dir_member(&z->dir, i);
    const uint64_t at = e->at + e->lead + e->comp_size, left = z->data_end - at;
    const uint64_t n = left < ZIP_DESCRIPTOR ? left : ZIP_DESCRIPTOR;
    uint8_t p[ZIP_DESCRIPTOR];

    if (!e->described)
        return true;
    if (!zip_reader_pread(&z->reader, p, n, at, err))
        return false;
    return zip_local_descriptor(p, n, e->comp_size, m.size) ||
           BAD(z, err, ZF_E_FORMAT, at,
               "member \"%s\" should end here by its header at byte %llu, but its sizes do not "
               "follow",
               m.name, (unsigned long long)e->at);
}

bool zf_zip_check_overlap(struct zf_zip *z, struct zf_err *err)
{
    zf_auto(mem) struct zip_place *p = NULL;
    uint64_t n, end = 0;

    if (z->until)
        return true; /* zip_dir_bound has checked it; the headers are checked by the first read */
    if (!zip_dir_order(&z->dir, &p, &n, err))
        return false;
    for (uint64_t k = 0; k < n; k++) {
        uint64_t off;

        if (k + WANT_MEMBERS / 2 >= z->wanted)
            zip_want_headers(z, k + WANT_MEMBERS);
        /* In torch's archives the descriptor is just before this header, and in the same window. */
        if (k && !zip_check_descriptor(z, p[k - 1].member, err))
            return false;
        if (!zf_zip_data_off(z, p[k].member, &off, err))
            return false;
        if (p[k].at < end) {
            return BAD(z, err, ZF_E_FORMAT, p[k].at,
                       "two members overlap: one starts here, the one before ends at byte %llu",
                       (unsigned long long)end);
        }
        end = off + z->dir.entry[p[k].member].comp_size;
    }
    return n == 0 || zip_check_descriptor(z, p[n - 1].member, err);
}
