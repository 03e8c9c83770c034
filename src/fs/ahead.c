/* SPDX-License-Identifier: Apache-2.0 */
#include "ahead.h"

#include <string.h>

/* How far before and after the end of a stream its next request may begin: the kernel has several in flight. */
#define STREAM_BEFORE (4ull << 20)
#define STREAM_AFTER (2ull << 20)
/* The first window, its growth factor and limit, and the smallest prefetch request.  On a connection with high latency
 * each growth costs a round trip or two in which the connection is not saturated. */
#define WINDOW_FIRST (1ull << 20)
#define WIDER 4
#define WINDOW_MOST (64ull << 20)
#define STEP_LEAST (256ull << 10)
/* Reads of a stream that must have waited before it is prefetched: one may be a coincidence, and a program that reads
 * only a file's beginning makes only one. */
#define WAITS 2
/* Storage counts as slow once reads have waited SLOW nanoseconds longer than one nanosecond per byte, and as fast again
 * after KEPT bytes were read faster than that.  A single hiccup of a disk must not start a prefetch: on a fast disk
 * POSIX_FADV_WILLNEED is worse than the kernel's own read-ahead. */
#define SLOW 16000000
#define KEPT 64000000
/* A stream with a single read is forgotten after this many reads of all streams. */
#define NEW 16
/* A stream with no read among this many last ones does not count when `most` is shared. */
#define RECENT 512
/* A larger window must make a stream faster by this factor; otherwise its growth is undone. */
#define FASTER 1.1
/* On a fast disk, or of cached bytes: how far ahead of a reader hints reach, and the smallest hint.  LEAD is four of the
 * kernel's read-ahead windows of 8 MiB. */
#define LEAD (32ull << 20)
#define LEAD_STEP (4ull << 20)

void ahead_init(struct ahead *a, uint64_t most)
{
    memset(a, 0, sizeof *a);
    a->most = most;
    (void)pthread_mutex_init(&a->lock, NULL);
}

void ahead_fini(struct ahead *a)
{
    (void)pthread_mutex_destroy(&a->lock);
}

/* May a read at `off` belong to this stream?  Short jumps of random readers must not look sequential: no read in front of
 * the stream's first one belongs to it, a gap is at most as long as the bytes read so far, and a stream with a single read
 * must be recent. */
static bool ahead_fits(const struct ahead *a, const struct ahead_stream *s, uint64_t off)
{
    const uint64_t after = s->bytes < STREAM_AFTER ? s->bytes : STREAM_AFTER;

    if (s->reads < 2 && a->clock - s->used > NEW)
        return false;
    return off >= s->next ? off - s->next <= after
                          : off >= s->begin && s->next - off <= STREAM_BEFORE;
}

/* Rank of a stream for a read at `off`, the lowest is the likeliest: one that ends there, then one that has passed it. */
static uint64_t ahead_distance(const struct ahead_stream *s, uint64_t off)
{
    return off >= s->next ? 2 * (off - s->next) : 1;
}

/* The file's likeliest stream, or with *found_out false the slot of the least recently used one. */
static struct ahead_stream *ahead_find(struct ahead *a, uint64_t ino, uint64_t off, bool *found_out)
{
    struct ahead_stream *best = NULL, *oldest = a->at;

    for (size_t i = 0; i < AHEAD_STREAMS; i++) {
        struct ahead_stream *s = &a->at[i];

        if (s->ino == ino && ahead_fits(a, s, off) &&
            (!best || ahead_distance(s, off) < ahead_distance(best, off)))
            best = s;
        if (s->used < oldest->used)
            oldest = s;
    }
    *found_out = best != NULL;
    return best ? best : oldest;
}

/* One stream's share of the limit for all streams, `most`. */
static uint64_t ahead_share(const struct ahead *a, const struct ahead_stream *me)
{
    uint64_t n = 1;

    for (size_t i = 0; i < AHEAD_STREAMS; i++) {
        const struct ahead_stream *s = &a->at[i];

        n += s != me && s->window > 0 && a->clock - s->used < RECENT;
    }
    return a->most / n < WINDOW_MOST ? a->most / n : WINDOW_MOST;
}

static void ahead_set_out(struct ahead_stream *s, uint64_t ino, uint64_t off)
{
    *s = (struct ahead_stream){
        .ino = ino, .begin = off, .next = off, .asked = off, .led = off, .made = off};
}

/* A reader that skips half of the bytes it passes is not sequential. */
static bool ahead_jumps(const struct ahead_stream *s)
{
    return s->bytes < (s->next - s->begin) / 2;
}

/* Updates a->behind.  Reads that wait at the same time share one bandwidth, so their time counts once.  A stream that has
 * never waited is no evidence about storage. */
static void ahead_weigh(struct ahead *a, const struct ahead_stream *s, const struct ahead_saw *r)
{
    if (r->waited && r->ended > a->until) {
        a->behind += r->ended - (r->began > a->until ? r->began : a->until);
        a->until = r->ended;
    }
    if (s->waits > 0)
        a->behind -= r->n < KEPT ? (int64_t)r->n : KEPT;
    a->behind = a->behind < 0 ? 0 : a->behind > KEPT ? KEPT : a->behind;
}

static void ahead_open(struct ahead *a, struct ahead_stream *s, const struct ahead_saw *r)
{
    a->behind = KEPT;
    s->window = 4 * r->n > WINDOW_FIRST ? 4 * r->n : WINDOW_FIRST;
    s->asked = s->asked > s->next ? s->asked : s->next;
    s->since = s->next;
    s->at = r->ended;
    s->pace = 0;
}

/* Stops the prefetch of a stream: storage turned out to be fast. */
static void ahead_shut(struct ahead_stream *s)
{
    s->window = 0;
    s->waits = 0;
    s->held = false;
}

/* Has the stream read enough since the window last changed (the window and a quarter more) to measure its effect? */
static bool ahead_is_settled(const struct ahead_stream *s)
{
    return s->next - s->since >= s->window + s->window / WIDER;
}

/* After a growth that gained nothing, the next attempt comes this many windows later. */
#define TRY_AGAIN 8

static void ahead_widen(struct ahead_stream *s, int64_t now)
{
    const double pace = (double)(s->next - s->since) / (double)(now > s->at ? now - s->at : 1);

    if (s->held && s->next - s->since < TRY_AGAIN * s->window)
        return;
    s->held = !s->held && s->pace > 0 && pace < s->pace * FASTER;
    if (s->held) {
        s->window /= WIDER;
    } else {
        s->window *= WIDER;
        s->pace = pace;
    }
    s->since = s->next;
    s->at = now;
}

/* Smallest prefetch request of a stream: a quarter of its window or a little more.  It differs between streams, because
 * streams that request equal amounts at the same moment also finish together and leave the connection idle for a round
 * trip. */
static uint64_t ahead_step(const struct ahead *a, const struct ahead_stream *s)
{
    const uint64_t quarter = s->window / 4,
                   step = quarter + quarter / 4 * ((uint64_t)(s - a->at) % 4);

    return step > STEP_LEAST ? step : STEP_LEAST;
}

static struct ahead_ask ahead_ask(struct ahead *a, struct ahead_stream *s)
{
    const uint64_t share = ahead_share(a, s);

    s->window = s->window < share ? s->window : share;
    const uint64_t step = ahead_step(a, s);
    const uint64_t from = s->asked > s->next ? s->asked : s->next, to = s->next + s->window;

    if (to < s->next || from >= to || to - from < step)
        return (struct ahead_ask){0};
    s->asked = to;
    return (struct ahead_ask){.off = from, .n = to - from};
}

/* Is this the only active stream?  Several readers keep a disk busy without hints. */
static bool ahead_is_alone(const struct ahead *a, const struct ahead_stream *me)
{
    for (size_t i = 0; i < AHEAD_STREAMS; i++) {
        const struct ahead_stream *s = &a->at[i];

        if (s != me && s->reads > 1 && a->clock - s->used < NEW)
            return false;
    }
    return true;
}

/* The next hint: for the kernel if reads waited, else for sources that compute large blocks.  It reaches no farther than
 * the stream is long, so that a short or jumping reader causes little unnecessary work. */
static struct ahead_ask ahead_hint(const struct ahead *a, struct ahead_stream *s)
{
    const enum zf_prefetch how = s->waits == WAITS ? ZF_PREFETCH_KERNEL : ZF_PREFETCH_COMPUTED;
    uint64_t *end = how == ZF_PREFETCH_KERNEL ? &s->led : &s->made;
    const uint64_t from = *end > s->next ? *end : s->next;
    const uint64_t to = s->next + (s->bytes < LEAD ? s->bytes : LEAD);

    if (to < s->next || from >= to || to - from < LEAD_STEP || !ahead_is_alone(a, s))
        return (struct ahead_ask){0};
    *end = to;
    return (struct ahead_ask){.off = from, .n = to - from, .how = how};
}

static struct ahead_ask ahead_locked(struct ahead *a, const struct ahead_saw *r)
{
    bool found;
    struct ahead_stream *s = ahead_find(a, r->ino, r->off, &found);

    if (!found)
        ahead_set_out(s, r->ino, r->off);
    s->used = ++a->clock;
    s->next = r->off + r->n > s->next ? r->off + r->n : s->next;
    s->bytes += r->n;
    s->reads++;
    if (ahead_jumps(s)) {
        ahead_set_out(s, r->ino, r->off);
        s->next += r->n;
        s->bytes = r->n;
        s->reads = 1;
        s->used = a->clock;
        return (struct ahead_ask){0};
    }
    s->waits += r->waited && s->waits < WAITS;
    ahead_weigh(a, s, r);
    if (s->window > 0 && a->behind == 0) {
        ahead_shut(s);
    } else if (r->waited && s->waits == WAITS) {
        if (s->window == 0 && a->behind > SLOW)
            ahead_open(a, s, r);
        else if (s->window > 0 && s->window < ahead_share(a, s) && ahead_is_settled(s))
            ahead_widen(s, r->ended);
    }
    return s->window ? ahead_ask(a, s) : ahead_hint(a, s);
}

struct ahead_ask ahead_read(struct ahead *a, const struct ahead_saw *r)
{
    struct ahead_ask ask = {0};

    if (r->n > 0 && r->off + r->n >= r->off && pthread_mutex_trylock(&a->lock) == 0) {
        ask = ahead_locked(a, r);
        (void)pthread_mutex_unlock(&a->lock);
    }
    return ask;
}
