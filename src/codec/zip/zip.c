/* SPDX-License-Identifier: Apache-2.0 */
/* libzip parses the directory, behind checks that it does not make: the end record is read here as
 * well (end.c) and both must agree, names are unique, sizes fit the file, and a member's local
 * header names the same file as the directory, because readers that follow the one or the other
 * must not see two archives in one.  A member's data is served from the archive itself: libzip
 * opens it once and our reader notes where it seeks (reader.c). */
#include <zf/codec/zip.h>

#include <errno.h>
#include <string.h>
#include <zip.h>

#include <zf/base/num.h>
#include <zf/source/want.h>

#include "dir.h"
#include "end.h"
#include "late.h"
#include "local.h"
#include "reader.h"

/* Deflate cannot make more than this of one byte. */
#define DEFLATE_RATIO 1032u

/* A member's offsets in the source; all ZF_OFF_NONE until somebody asks: then its header was
 * read and compared. */
struct zip_place {
    uint64_t header_off, data_off;
};

struct zf_zip {
    struct zf_source *src;
    struct zf_limits lim;
    struct zip_reader reader;
    zip_t *za;
    uint64_t n;
    struct zip_end end;
    uint64_t data_end; /* no member's data may reach beyond: where the directory starts */
    bool slow;         /* headers are fetched ahead, … */
    uint64_t wanted, want_at; /* … of so many members so far; where the next one's may be */
    struct zf_zip_member *member;
    struct zip_place *place;              /* [n] */
    struct zip_span *span; /* [n] of an archive that is far away, whose headers are read late; else NULL */
    const struct zf_zip_member **by_name; /* [n] sorted */
};

/* Every failure of this file's own names the archive. */
#define BAD(z, err, ...) (zf_fail(err, __VA_ARGS__), zf_err_in(err, "%s", (z)->src->name))

/* libzip before 1.11 has one code for a file without an end record, later ones two. */
static bool zip_lacks_directory(int code)
{
#ifdef ZIP_ER_TRUNCATED_ZIP
    return code == ZIP_ER_NOZIP || code == ZIP_ER_TRUNCATED_ZIP;
#else
    return code == ZIP_ER_NOZIP;
#endif
}

static bool zip_take_zip_error(struct zf_zip *z, zip_error_t *e, struct zf_err *err)
{
    if (z->reader.err.code != ZF_OK) {
        *err = z->reader.err;
    } else if (zip_error_code_zip(e) == ZIP_ER_MEMORY || errno == ENOMEM) {
        /* libzip may take it for an archive without a directory. */
        (void)zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "cannot allocate memory");
    } else if (zip_lacks_directory(zip_error_code_zip(e))) {
        (void)BAD(
            z, err, ZF_E_FORMAT, ZF_OFF_NONE,
            "no zip directory at the end of its %llu bytes: the file is truncated, or is still "
            "being written",
            (unsigned long long)z->src->size);
    } else {
        (void)BAD(z, err, ZF_E_FORMAT, ZF_OFF_NONE, "broken zip archive: %s",
                  zip_error_strerror(e));
    }
    zip_error_fini(e);
    return false;
}

static bool zip_check_end(struct zf_zip *z, const struct zip_end *end, struct zf_err *err)
{
    if (end->entries > z->lim.zip_entries) {
        return BAD(z, err, ZF_E_LIMIT, ZF_OFF_NONE,
                   "%llu members, more than the limit zip_entries=%llu",
                   (unsigned long long)end->entries, (unsigned long long)z->lim.zip_entries);
    }
    if (end->dir_bytes > z->lim.zip_directory) {
        return BAD(z, err, ZF_E_LIMIT, ZF_OFF_NONE,
                   "a zip directory of %llu bytes, more than the limit zip_directory=%llu",
                   (unsigned long long)end->dir_bytes, (unsigned long long)z->lim.zip_directory);
    }
    return true;
}

/* Has libzip read the same directory that the end record names? */
static bool zip_check_agree(struct zf_zip *z, const struct zip_end *end, struct zf_err *err)
{
    int comment = 0;

    (void)zip_get_archive_comment(z->za, &comment, ZIP_FL_ENC_RAW);
    if (!end->exact) {
        return z->n <= z->lim.zip_entries ||
               BAD(z, err, ZF_E_LIMIT, ZF_OFF_NONE,
                   "%llu members, more than the limit zip_entries=%llu", (unsigned long long)z->n,
                   (unsigned long long)z->lim.zip_entries);
    }
    if (z->n != end->entries || (uint64_t)comment != end->comment) {
        return BAD(z, err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "a second end record: one directory has %llu members, the other %llu",
                   (unsigned long long)end->entries, (unsigned long long)z->n);
    }
    return true;
}

static bool zip_open_archive(struct zf_zip *z, struct zf_err *err)
{
    zip_error_t e;

    if (z->src->size == 0) { /* which libzip takes for an archive without members */
        return BAD(z, err, ZF_E_FORMAT, ZF_OFF_NONE, "the file is empty");
    }
    if (!zip_end_load(z->src, &z->end, err)) {
        if (err->path[0] == '\0') {
            (void)zf_err_in(err, "%s", z->src->name);
        }
        return false;
    }
    if (!zip_check_end(z, &z->end, err)) {
        return false;
    }
    z->data_end = z->end.exact ? z->end.dir_off : z->src->size;
    zip_error_init(&e);
    errno = 0;
    zip_source_t *source = zip_source_function_create(zip_reader_call, &z->reader, &e);

    if (!source) {
        return zip_take_zip_error(z, &e, err);
    }
    z->za = zip_open_from_source(source, ZIP_RDONLY, &e);
    if (!z->za) {
        zip_source_free(source);
        return zip_take_zip_error(z, &e, err);
    }
    zip_error_fini(&e);
    z->n = (uint64_t)zip_get_num_entries(z->za, ZIP_FL_UNCHANGED);
    return zip_check_agree(z, &z->end, err);
}

/* The checks of a member that need the directory alone. */
static bool zip_check_member(struct zf_zip *z, const zip_stat_t *st, struct zf_zip_member *m,
                             struct zf_err *err)
{
    const zip_uint64_t need = ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE |
                              ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;

    if ((st->valid & need) != need || st->name[0] == '\0') {
        return BAD(z, err, ZF_E_FORMAT, ZF_OFF_NONE, "member %llu has no name or no size",
                   (unsigned long long)st->index);
    }
    *m = (struct zf_zip_member){.name = st->name,
                                .size = st->size,
                                .comp_size = st->comp_size,
                                .crc = st->crc,
                                .method = st->comp_method};
    if (st->encryption_method != ZIP_EM_NONE) {
        return BAD(z, err, ZF_E_UNSUPPORTED, ZF_OFF_NONE, "member \"%s\" is encrypted", m->name);
    }
    if (m->method != ZIP_CM_STORE && m->method != ZIP_CM_DEFLATE) {
        return BAD(z, err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                   "member \"%s\" is compressed by method %u; stored and deflated ones can be read",
                   m->name, m->method);
    }
    if (m->method == ZIP_CM_STORE && m->size != m->comp_size) {
        return BAD(z, err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "member \"%s\" is stored, but its two sizes differ: %llu and %llu", m->name,
                   (unsigned long long)m->comp_size, (unsigned long long)m->size);
    }
    if (m->comp_size > z->data_end) {
        return BAD(z, err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "member \"%s\" has %llu bytes, the archive before its directory only %llu",
                   m->name, (unsigned long long)m->comp_size, (unsigned long long)z->data_end);
    }
    if (m->size / DEFLATE_RATIO > m->comp_size) {
        return BAD(z, err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "member \"%s\": %llu bytes cannot come out of %llu deflated ones", m->name,
                   (unsigned long long)m->size, (unsigned long long)m->comp_size);
    }
    return true;
}

static int zip_cmp_name(const void *a, const void *b)
{
    const struct zf_zip_member *const *x = a, *const *y = b;

    return strcmp((*x)->name, (*y)->name);
}

static bool zip_list_members(struct zf_zip *z, struct zf_err *err)
{
    size_t n = z->n ? (size_t)z->n : 1;

    z->member = calloc(n, sizeof *z->member);
    z->place = calloc(n, sizeof *z->place);
    z->by_name = calloc(n, sizeof *z->by_name);
    if (!z->member || !z->place || !z->by_name) {
        return zf_fail_sys(err, "allocate memory");
    }
    for (uint64_t i = 0; i < z->n; i++) {
        zip_stat_t st;

        zip_stat_init(&st);
        if (zip_stat_index(z->za, i, ZIP_FL_UNCHANGED | ZIP_FL_ENC_RAW, &st) < 0) {
            return BAD(z, err, ZF_E_FORMAT, ZF_OFF_NONE, "member %llu: %s", (unsigned long long)i,
                       zip_strerror(z->za));
        }
        if (!zip_check_member(z, &st, &z->member[i], err)) {
            return false;
        }
        z->place[i] = (struct zip_place){ZF_OFF_NONE, ZF_OFF_NONE};
        z->by_name[i] = &z->member[i];
    }
    qsort(z->by_name, z->n, sizeof *z->by_name, zip_cmp_name);
    for (uint64_t i = 1; i < z->n; i++) {
        if (strcmp(z->by_name[i - 1]->name, z->by_name[i]->name) == 0) {
            return BAD(z, err, ZF_E_FORMAT, ZF_OFF_NONE, "duplicate member \"%s\"",
                       z->by_name[i]->name);
        }
    }
    return true;
}

/* So many members' headers are fetched ahead at once: each may be a block of its own. */
#define WANT_MEMBERS 64u
/* What lies between two of them is fetched with them; asking twice costs more. */
#define WANT_GAP (128u << 10)
#define LOCAL_ALIGN 64u
#define DESCRIPTOR 24u

/* Of an archive that takes its time, the headers of the members up to `end` are fetched together before
 * they are asked for one by one.  libzip does not say where they are, but members follow one another
 * as they are listed, in torch's archives with their data at multiples of 64 (torch/csrc,
 * caffe2/serialize/inline_container.cc, 2.x); a wrong guess costs a block. */
static void zip_want_headers(struct zf_zip *z, uint64_t end)
{
    uint64_t from = 0, to = 0;

    for (; z->slow && z->wanted < end && z->wanted < z->n; z->wanted++) {
        const struct zf_zip_member *m = &z->member[z->wanted];
        const uint64_t at = z->want_at, head = at > LOCAL_ALIGN ? at - LOCAL_ALIGN : 0;
        uint64_t data = at + LOCAL_BYTES + strlen(m->name);

        if (head > to && head - to > WANT_GAP) {
            zf_source_want(z->src, from, to - from);
            from = head;
        }
        to = at + 3ull * LOCAL_ALIGN;
        data = (data + LOCAL_ALIGN - 1) / LOCAL_ALIGN * LOCAL_ALIGN;
        z->slow = zf_add(data + DESCRIPTOR, m->comp_size, &z->want_at) && z->want_at <= z->src->size;
    }
    zf_source_want(z->src, from, to - from);
}

struct zf_zip *zf_zip_open(struct zf_source *src, const struct zf_limits *lim, struct zf_err *err)
{
    zf_auto(zip) struct zf_zip *z = calloc(1, sizeof *z);

    if (!z) {
        (void)zf_fail_sys(err, "allocate memory");
        return NULL;
    }
    z->src = zf_source_ref(src);
    z->lim = *lim;
    zip_reader_init(&z->reader, src);
    const bool watched = zf_want_watch(true);
    bool ok = zip_open_archive(z, err) && zip_list_members(z, err), waited = zf_want_waited();
    (void)zf_want_watch(watched);
    if (!ok) {
        return NULL;
    }
    if (zf_source_is_far(src) &&
        !zip_dir_load(src, &z->end, z->member, z->n, &z->span, err)) {
        return NULL;
    }
    z->slow = !z->span && (waited || zf_source_is_far(src));
    zip_want_headers(z, WANT_MEMBERS);
    return zf_give(z);
}

void zf_zip_free(struct zf_zip *z)
{
    if (!z) {
        return;
    }
    if (z->za) {
        zip_discard(z->za);
    }
    zip_reader_fini(&z->reader);
    zf_source_unref(&z->src);
    free(z->member);
    free(z->place);
    free(z->span);
    free(z->by_name);
    free(z);
}

uint64_t zf_zip_count(const struct zf_zip *z)
{
    return z->n;
}

const struct zf_zip_member *zf_zip_member(const struct zf_zip *z, uint64_t i)
{
    return &z->member[i];
}

bool zf_zip_find(const struct zf_zip *z, const char *name, uint64_t *i_out)
{
    const struct zf_zip_member key = {.name = name}, *p = &key;
    const struct zf_zip_member **hit =
        bsearch(&p, z->by_name, z->n, sizeof *z->by_name, zip_cmp_name);

    if (!hit) {
        return false;
    }
    *i_out = (uint64_t)(*hit - z->member);
    return true;
}

/* Lets libzip open member i and read its first byte.  The first seek goes to the local header, the
 * last read ends at the data. */
static bool zip_locate(struct zf_zip *z, uint64_t i, struct zip_place *out, struct zf_err *err)
{
    char byte;

    zip_reader_watch(&z->reader);
    errno = 0;
    zip_file_t *f = zip_fopen_index(z->za, i, ZIP_FL_COMPRESSED | ZIP_FL_UNCHANGED);
    bool read = f && zip_fread(f, &byte, 1) == 1;
    bool full = !read && errno == ENOMEM;

    if (f) {
        (void)zip_fclose(f);
    }
    *out = (struct zip_place){z->reader.first_seek, z->reader.last_read};
    if (z->reader.err.code != ZF_OK) {
        *err = z->reader.err;
        zf_err_clear(&z->reader.err);
        return false;
    }
    if (full) {
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "cannot allocate memory");
    }
    if (!read || out->header_off == ZF_OFF_NONE || out->data_off == ZF_OFF_NONE) {
        return BAD(z, err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "member \"%s\" has no data where the directory says", z->member[i].name);
    }
    return true;
}

/* Compares the local header with the directory. */
static bool zip_check_local(struct zf_zip *z, uint64_t i, const struct zip_place *at,
                            struct zf_err *err)
{
    const struct zip_local l = {
        .name = z->member[i].name, .at = at->header_off, .method = z->member[i].method};
    const uint64_t n = zip_local_bytes(&l);
    uint64_t data;

    if (!zf_within(l.at, n, z->src->size)) {
        (void)zip_local_bad(&l, err);
        return zf_err_in(err, "%s", z->src->name);
    }
    zf_auto(mem) uint8_t *head = malloc((size_t)n);
    if (!head) {
        return zf_fail_sys(err, "allocate memory");
    }
    if (!zip_reader_pread(&z->reader, head, n, l.at, err)) {
        return false;
    }
    if (!zip_local_agrees(&l, head, &data) || data != at->data_off) {
        (void)zip_local_bad(&l, err);
        return zf_err_in(err, "%s", z->src->name);
    }
    return true;
}

bool zf_zip_data_off(struct zf_zip *z, uint64_t i, uint64_t *off_out, struct zf_err *err)
{
    const struct zf_zip_member *m = &z->member[i];
    struct zip_place at;

    if (m->comp_size == 0) {
        *off_out = 0; /* libzip cannot be asked where nothing starts: 1.7.3 crashes */
        return true;
    }
    if (z->place[i].data_off == ZF_OFF_NONE) {
        if (!zip_locate(z, i, &at, err) || !zip_check_local(z, i, &at, err)) {
            return false;
        }
        if (!zf_within(at.data_off, m->comp_size, z->data_end)) {
            return BAD(z, err, ZF_E_FORMAT, at.data_off,
                       "member \"%s\" of %llu bytes reaches into the directory at byte %llu",
                       m->name, (unsigned long long)m->comp_size, (unsigned long long)z->data_end);
        }
        z->place[i] = at;
    }
    *off_out = z->place[i].data_off;
    return true;
}

static struct zf_source *zip_late_member(struct zf_zip *z, uint64_t i, struct zf_err *err)
{
    const struct zf_zip_member *m = &z->member[i];
    const struct zip_local l = {.name = m->name, .at = z->span[i].at, .method = m->method};

    return zip_late_new(z->src, &l, m->comp_size, z->span[i].end, err);
}

struct zf_source *zf_zip_source(struct zf_zip *z, uint64_t i, struct zf_err *err)
{
    const struct zf_zip_member *m = &z->member[i];
    uint64_t off;

    if (m->method == ZIP_CM_DEFLATE && m->size > z->lim.inflate_bytes) {
        (void)BAD(z, err, ZF_E_LIMIT, ZF_OFF_NONE,
                  "member \"%s\" inflates to %llu bytes, more than the limit inflate_bytes=%llu",
                  m->name, (unsigned long long)m->size, (unsigned long long)z->lim.inflate_bytes);
        return NULL;
    }
    if (m->size == 0) {
        return zf_window_new(z->src, 0, 0, m->name, err);
    }
    if (!z->span && !zf_zip_data_off(z, i, &off, err)) {
        return NULL;
    }
    zf_auto(source) struct zf_source *raw =
        z->span ? zip_late_member(z, i, err) : zf_window_new(z->src, off, m->comp_size, m->name, err);

    if (!raw) {
        return NULL;
    }
    return m->method == ZIP_CM_STORE ? zf_source_ref(raw)
                                     : zf_inflate_new(raw, m->size, m->crc, &z->lim, err);
}

static int zip_cmp_place(const void *a, const void *b)
{
    const struct zip_place *x = a, *y = b;

    return (x->header_off > y->header_off) - (x->header_off < y->header_off);
}

bool zf_zip_check_overlap(struct zf_zip *z, struct zf_err *err)
{
    if (z->span) {
        return true; /* as far as the directory says; the rest when a member is read */
    }
    zf_auto(mem) struct zip_place *span = calloc(z->n ? (size_t)z->n : 1, sizeof *span);
    uint64_t n = 0;

    if (!span) {
        return zf_fail_sys(err, "allocate memory");
    }
    for (uint64_t i = 0; i < z->n; i++) {
        uint64_t off;

        if (z->member[i].comp_size == 0) {
            continue;
        }
        if (i + WANT_MEMBERS / 2 >= z->wanted) {
            zip_want_headers(z, i + WANT_MEMBERS);
        }
        if (!zf_zip_data_off(z, i, &off, err)) {
            return false;
        }
        span[n++] = (struct zip_place){z->place[i].header_off, off + z->member[i].comp_size};
    }
    qsort(span, n, sizeof *span, zip_cmp_place);
    for (uint64_t i = 1; i < n; i++) {
        if (span[i].header_off < span[i - 1].data_off) {
            return BAD(z, err, ZF_E_FORMAT, span[i].header_off,
                       "two members overlap: one starts here, the one before ends at byte %llu",
                       (unsigned long long)span[i - 1].data_off);
        }
    }
    return true;
}
