/* SPDX-License-Identifier: Apache-2.0 */
#include "reader.h"

#include <string.h>

#include <zf/base/num.h>

void zip_reader_init(struct zip_reader *r, struct zf_source *src)
{
    *r = (struct zip_reader){.src = src, .next_len = ZF_ZIP_WINDOW_MIN};
}

void zip_reader_fini(struct zip_reader *r)
{
    free(r->window);
    r->window = NULL;
}

/* Moves the window to `off`, large enough for at least `n` bytes. */
static bool reader_fill(struct zip_reader *r, uint64_t n, uint64_t off, struct zf_err *err)
{
    bool follows = r->win_len && off >= r->win_off && off <= r->win_off + r->win_len;
    uint64_t len = ZF_ZIP_WINDOW_MIN;

    if (follows)
        len = r->next_len < ZF_ZIP_WINDOW_MAX ? r->next_len * 2 : ZF_ZIP_WINDOW_MAX;
    r->next_len = len;
    if (++r->fills >= ZF_ZIP_FEW && r->src->size <= ZF_ZIP_WHOLE) {
        off = 0;
        len = r->src->size;
    }
    len = len < n ? n : len;
    len = len < r->src->size - off ? len : r->src->size - off;
    if (len > r->win_cap) {
        uint8_t *p = realloc(r->window, len);

        if (!p)
            return zf_fail_sys(err, "allocate memory");
        r->window = p;
        r->win_cap = len;
    }
    r->win_len = 0;
    if (!zf_source_pread(r->src, r->window, len, off, err))
        return false;
    r->win_off = off;
    r->win_len = len;
    return true;
}

bool zip_reader_pread(struct zip_reader *r, void *buf, uint64_t n, uint64_t off, struct zf_err *err)
{
    if (n == 0)
        return true;
    if ((n >= ZF_ZIP_WINDOW_MAX && r->src->size > ZF_ZIP_WHOLE) || !zf_within(off, n, r->src->size))
        return zf_source_pread(r->src, buf, n, off, err);
    if ((off < r->win_off || !zf_within(off - r->win_off, n, r->win_len)) &&
        !reader_fill(r, n, off, err))
        return false;
    memcpy(buf, r->window + (off - r->win_off), n);
    return true;
}
