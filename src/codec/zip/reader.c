/* SPDX-License-Identifier: Apache-2.0 */
/* libzip's view of a source, through one window that doubles while it is read in order.  It also
 * notes the first seek and the last read of an operation: that is how zip.c learns where a
 * member's header and data are, which libzip does not say. */
#include "reader.h"

#include <string.h>

#include <zf/base/num.h>

#define LOCAL_LENGTHS 26u /* where the lengths of name and extra field are in a local header */

void zip_reader_init(struct zip_reader *r, struct zf_source *src)
{
    *r = (struct zip_reader){.src = src, .next_len = ZF_ZIP_WINDOW_MIN};
    zip_error_init(&r->zip_err);
    zf_err_clear(&r->err);
    zip_reader_watch(r);
}

void zip_reader_fini(struct zip_reader *r)
{
    zip_error_fini(&r->zip_err);
    free(r->window);
    r->window = NULL;
}

void zip_reader_watch(struct zip_reader *r)
{
    r->first_seek = r->last_read = ZF_OFF_NONE;
}

/* Moves the window to `off`, large enough for at least `n` bytes. */
static bool reader_fill(struct zip_reader *r, uint64_t n, uint64_t off, struct zf_err *err)
{
    bool follows = r->win_len && off >= r->win_off && off <= r->win_off + r->win_len;
    uint64_t len = ZF_ZIP_WINDOW_MIN;

    if (follows) {
        len = r->next_len < ZF_ZIP_WINDOW_MAX ? r->next_len * 2 : ZF_ZIP_WINDOW_MAX;
    } else { /* libzip begins at the lengths in a local header, of which zip.c wants the whole */
        uint64_t back = off < LOCAL_LENGTHS ? off : LOCAL_LENGTHS;

        off -= back;
        n += back;
    }
    r->next_len = len;
    if (++r->fills >= ZF_ZIP_FEW && r->src->size <= ZF_ZIP_WHOLE) {
        off = 0;
        len = r->src->size;
    }
    len = len < n ? n : len;
    len = len < r->src->size - off ? len : r->src->size - off;
    if (len > r->win_cap) {
        uint8_t *p = realloc(r->window, len);

        if (!p) {
            return zf_fail_sys(err, "allocate memory");
        }
        r->window = p;
        r->win_cap = len;
    }
    r->win_len = 0;
    if (!zf_source_pread(r->src, r->window, len, off, err)) {
        return false;
    }
    r->win_off = off;
    r->win_len = len;
    return true;
}

bool zip_reader_pread(struct zip_reader *r, void *buf, uint64_t n, uint64_t off, struct zf_err *err)
{
    if ((n >= ZF_ZIP_WINDOW_MAX && r->src->size > ZF_ZIP_WHOLE) ||
        !zf_within(off, n, r->src->size)) {
        return zf_source_pread(r->src, buf, n, off, err);
    }
    if ((off < r->win_off || !zf_within(off - r->win_off, n, r->win_len)) &&
        !reader_fill(r, n, off, err)) {
        return false;
    }
    memcpy(buf, r->window + (off - r->win_off), n);
    return true;
}

static zip_int64_t reader_refuse(struct zip_reader *r, int code)
{
    zip_error_set(&r->zip_err, code, 0);
    return -1;
}

static zip_int64_t reader_do_read(struct zip_reader *r, void *data, zip_uint64_t len)
{
    uint64_t left = r->src->size - r->pos, n = len < left ? len : left;
    struct zf_err err;

    r->last_read = r->pos;
    if (!zip_reader_pread(r, data, n, r->pos, &err)) {
        if (r->err.code == ZF_OK) {
            r->err = err;
        }
        return reader_refuse(r, ZIP_ER_READ);
    }
    r->pos += n;
    return (zip_int64_t)n;
}

static zip_int64_t reader_do_seek(struct zip_reader *r, void *data, zip_uint64_t len)
{
    zip_int64_t off = zip_source_seek_compute_offset(r->pos, r->src->size, data, len, &r->zip_err);

    if (off < 0) {
        return -1;
    }
    r->pos = (uint64_t)off;
    if (r->first_seek == ZF_OFF_NONE) {
        r->first_seek = r->pos;
    }
    return 0;
}

zip_int64_t zip_reader_call(void *reader, void *data, zip_uint64_t len, zip_source_cmd_t cmd)
{
    struct zip_reader *r = reader;

    switch ((int)cmd) {
    case ZIP_SOURCE_OPEN:
        r->pos = 0;
        return 0;
    case ZIP_SOURCE_READ:
        return reader_do_read(r, data, len);
    case ZIP_SOURCE_SEEK:
        return reader_do_seek(r, data, len);
    case ZIP_SOURCE_TELL:
        return (zip_int64_t)r->pos;
    case ZIP_SOURCE_STAT: {
        zip_stat_t *st = ZIP_SOURCE_GET_ARGS(zip_stat_t, data, len, &r->zip_err);

        if (!st) {
            return -1;
        }
        zip_stat_init(st);
        st->size = r->src->size;
        st->valid = ZIP_STAT_SIZE;
        return sizeof *st;
    }
    case ZIP_SOURCE_ERROR:
        return zip_error_to_data(&r->zip_err, data, len);
    case ZIP_SOURCE_SUPPORTS:
        return zip_source_make_command_bitmap(
            ZIP_SOURCE_OPEN, ZIP_SOURCE_READ, ZIP_SOURCE_CLOSE, ZIP_SOURCE_STAT, ZIP_SOURCE_ERROR,
            ZIP_SOURCE_FREE, ZIP_SOURCE_SEEK, ZIP_SOURCE_TELL, ZIP_SOURCE_SUPPORTS, -1);
    case ZIP_SOURCE_CLOSE:
    case ZIP_SOURCE_FREE:
        return 0;
    default:
        return reader_refuse(r, ZIP_ER_OPNOTSUPP);
    }
}
