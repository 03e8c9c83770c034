/* SPDX-License-Identifier: Apache-2.0 */
/* Prefetches for cat and export, which read a file in one thread, piece by piece: over a network each
 * piece would cost a round trip. */
#include <zf/base/clock.h>
#include <zf/tree.h>

/* How far to prefetch, and how much to request at a time. */
#define THROUGH_AHEAD (64ull << 20)
#define THROUGH_STEP (16ull << 20)
/* A read that took longer was not served from memory. */
#define THROUGH_SLOW_NS 3000000

static void through_ask(struct zf_through *w, uint64_t from)
{
    /* A reader that starts over prefetches again. */
    w->asked = w->asked > from + THROUGH_AHEAD ? from : w->asked;
    const uint64_t begin = w->asked > from ? w->asked : from, left = w->size - from;
    const uint64_t end = from + (left < THROUGH_AHEAD ? left : THROUGH_AHEAD);

    if (begin < end && (end - begin >= THROUGH_STEP || end == w->size)) {
        w->tree->ops->want(w->tree, w->ino, begin, end - begin, ZF_PREFETCH_ALL);
        w->asked = end;
    }
}

bool zf_through_read(struct zf_through *w, void *buf, size_t n, uint64_t off, size_t *n_out,
                     struct zf_err *err)
{
    if (w->slow && w->tree->ops->want && off < w->size)
        through_ask(w, off);
    const int64_t began = zf_clock_ns();
    bool ok = w->tree->ops->read(w->tree, w->ino, buf, n, off, n_out, err);

    w->slow = w->slow || zf_clock_ns() - began > THROUGH_SLOW_NS;
    return ok;
}
