/* SPDX-License-Identifier: Apache-2.0 */
/* Lets libzip read entries of the directory. */
#include "dir.h"

#include <errno.h>
#include <string.h>
#include <zip.h>

#include <zf/base/num.h>
#include <zf/base/out.h>

#include "end.h"

/* libzip searches this many bytes for end records, and tries each one; so this many zeros precede the real one. */
#define LIBZIP_SEARCH ((64u << 10) + 1024u)

struct libzip_shown {
    const struct libzip_run *run;
    struct zf_out end; /* the end records */
    uint64_t end_at;   /* their offset */
    uint64_t pos;
    zip_error_t err;
};

static uint64_t libzip_size(const struct libzip_shown *s)
{
    return s->end_at + s->end.n;
}

/* Copies to data[len], the bytes from s->pos on, those that lie in p[n], the bytes from `at` on. */
static void libzip_copy(const struct libzip_shown *s, uint8_t *data, uint64_t len, const void *p,
                        uint64_t n, uint64_t at)
{
    const uint64_t from = s->pos > at ? s->pos : at;
    const uint64_t to = s->pos + len < at + n ? s->pos + len : at + n;

    if (from < to)
        memcpy(data + (from - s->pos), (const uint8_t *)p + (from - at), (size_t)(to - from));
}

static zip_int64_t libzip_read(struct libzip_shown *s, void *data, zip_uint64_t len)
{
    const uint64_t left = libzip_size(s) - s->pos, n = len < left ? len : left;

    memset(data, 0, (size_t)n);
    libzip_copy(s, data, n, s->run->p, s->run->bytes, s->run->off);
    libzip_copy(s, data, n, s->end.p, s->end.n, s->end_at);
    s->pos += n;
    return (zip_int64_t)n;
}

static zip_int64_t libzip_seek(struct libzip_shown *s, void *data, zip_uint64_t len)
{
    const zip_int64_t at =
        zip_source_seek_compute_offset(s->pos, libzip_size(s), data, len, &s->err);

    if (at < 0)
        return -1;
    s->pos = (uint64_t)at;
    return 0;
}

static zip_int64_t libzip_stat(struct libzip_shown *s, void *data, zip_uint64_t len)
{
    zip_stat_t *st = ZIP_SOURCE_GET_ARGS(zip_stat_t, data, len, &s->err);

    if (!st)
        return -1;
    zip_stat_init(st);
    st->size = libzip_size(s);
    st->valid = ZIP_STAT_SIZE;
    return sizeof *st;
}

static zip_int64_t libzip_call(void *shown, void *data, zip_uint64_t len, zip_source_cmd_t cmd)
{
    struct libzip_shown *s = shown;

    switch ((int)cmd) {
    case ZIP_SOURCE_OPEN:
        s->pos = 0;
        return 0;
    case ZIP_SOURCE_READ:
        return libzip_read(s, data, len);
    case ZIP_SOURCE_SEEK:
        return libzip_seek(s, data, len);
    case ZIP_SOURCE_TELL:
        return (zip_int64_t)s->pos;
    case ZIP_SOURCE_STAT:
        return libzip_stat(s, data, len);
    case ZIP_SOURCE_ERROR:
        return zip_error_to_data(&s->err, data, len);
    case ZIP_SOURCE_SUPPORTS:
        return zip_source_make_command_bitmap(
            ZIP_SOURCE_OPEN, ZIP_SOURCE_READ, ZIP_SOURCE_CLOSE, ZIP_SOURCE_STAT, ZIP_SOURCE_ERROR,
            ZIP_SOURCE_FREE, ZIP_SOURCE_SEEK, ZIP_SOURCE_TELL, ZIP_SOURCE_SUPPORTS, -1);
    case ZIP_SOURCE_CLOSE:
    case ZIP_SOURCE_FREE:
        return 0;
    default:
        zip_error_set(&s->err, ZIP_ER_OPNOTSUPP, 0);
        return -1;
    }
}

/* Fails because libzip refused the run or its entry i.  libzip may report a failed allocation as a broken archive, but
 * then errno is ENOMEM. */
static bool libzip_bad(const struct libzip_run *run, uint64_t i, zip_error_t *e, struct zf_err *err)
{
    if (zip_error_code_zip(e) == ZIP_ER_MEMORY || errno == ENOMEM)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for a zip directory");
    return zf_fail(err, ZF_E_FORMAT, run->off,
                   "broken zip archive: libzip cannot read entries %llu to %llu of the directory "
                   "(its error: %s)",
                   (unsigned long long)(run->first + i),
                   (unsigned long long)(run->first + run->n - 1), zip_error_strerror(e));
}

static bool libzip_load_entry(zip_t *za, const struct libzip_run *run, uint64_t i,
                              struct libzip_entry *out, struct zf_err *err)
{
    const zip_uint64_t need = ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_CRC |
                              ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
    zip_stat_t st;

    errno = 0;
    zip_stat_init(&st);
    if (zip_stat_index(za, i, ZIP_FL_UNCHANGED | ZIP_FL_ENC_RAW, &st) < 0 ||
        (st.valid & need) != need)
        return libzip_bad(run, i, zip_get_error(za), err);
    *out = (struct libzip_entry){.size = st.size,
                                 .comp_size = st.comp_size,
                                 .crc = st.crc,
                                 .method = st.comp_method,
                                 .encrypted = st.encryption_method != ZIP_EM_NONE};
    return true;
}

static bool libzip_load_all(zip_t *za, struct libzip_shown *s, struct libzip_entry *out,
                            struct zf_err *err)
{
    const zip_int64_t n = zip_get_num_entries(za, ZIP_FL_UNCHANGED);

    if (n != s->run->n) {
        return zf_fail(err, ZF_E_FORMAT, s->run->off,
                       "broken zip archive: of %llu entries of the directory from here on libzip "
                       "reads %lld",
                       (unsigned long long)s->run->n, (long long)n);
    }
    for (uint64_t i = 0; i < s->run->n; i++)
        if (!libzip_load_entry(za, s->run, i, &out[i], err))
            return false;
    return true;
}

static bool libzip_load_shown(struct libzip_shown *s, struct libzip_entry *out, struct zf_err *err)
{
    zip_error_t e;
    zip_t *za = NULL;

    errno = 0;
    zip_error_init(&e);
    zip_source_t *source = zip_source_function_create(libzip_call, s, &e);

    za = source ? zip_open_from_source(source, ZIP_RDONLY, &e) : NULL;
    if (!za) {
        (void)libzip_bad(s->run, 0, &e, err);
        zip_source_free(source);
        zip_error_fini(&e);
        return false;
    }
    zip_error_fini(&e);
    const bool ok = libzip_load_all(za, s, out, err);
    zip_discard(za);
    return ok;
}

bool libzip_load(const struct libzip_run *run, struct libzip_entry *out, struct zf_err *err)
{
    const struct zip_end end = {.entries = run->n, .dir_off = run->off, .dir_bytes = run->bytes};
    struct libzip_shown s = {.run = run};

    if (!zf_add(run->off, run->bytes + LIBZIP_SEARCH, &s.end_at))
        return zf_fail(err, ZF_E_FORMAT, run->off, "broken zip archive: no directory fits here");
    zip_error_init(&s.err);
    zip_end_emit(&s.end, &end, s.end_at);
    const bool ok = zf_out_ok(&s.end, err) && libzip_load_shown(&s, out, err);
    zf_auto_out(&s.end);
    zip_error_fini(&s.err);
    return ok;
}
