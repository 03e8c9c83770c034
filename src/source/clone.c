/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/source/clone.h>

#include "file.h"

/* The first byte is read in the ordinary way, so that the checks a source makes at its first read
 * are made. */
bool zf_source_clone(struct zf_source *s, struct zf_clone *c, struct zf_err *err)
{
    uint8_t first;

    c->done = 0;
    struct zf_trace t = zf_source_trace(s, c->off, c->n);
    uint64_t n = t.len - t.len % ZF_CLONE_BLOCK;
    bool done = false;
    if (t.codec || t.swap || !file_is(t.src) || n == 0 || (t.off | c->to_off) % ZF_CLONE_BLOCK != 0)
        return true;
    if (!zf_source_pread(s, &first, 1, c->off, err))
        return false;
    if (!file_clone(t.src, t.off, n, c->to, c->to_off, &done, err))
        return err->path[0] ? false : zf_err_in(err, "%s", t.src->name);
    c->done = done ? n : 0;
    c->refused = !done;
    return true;
}
