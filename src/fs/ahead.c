/* SPDX-License-Identifier: Apache-2.0 */
#include "ahead.h"

#include <string.h>

/* How far from where a stream is its next request may begin: the kernel has a few under way at
 * once. */
#define BACK (4ull << 20)
#define FORTH (2ull << 20)
/* The first window, by how much it is widened, and the least that is asked for at once later.  On a long
 * line each widening costs a round trip or two, in which the line is not yet full. */
#define WINDOW_FIRST (1ull << 20)
#define WIDER 4
#define WINDOW_MOST (64ull << 20)
#define STEP_LEAST (256ull << 10)
/* Number of reads of a stream that must have waited before anything is read ahead for it: one may be an
 * accident, and a reader of the beginning alone makes only one. */
#define WAITS 2
/* Storage is slow when reads have waited so much longer for it than a nanosecond for each byte; once it was,
 * it counts as slow until so much as KEPT was read faster than that.  One hiccup of a disk is no
 * reason, and what WILLNEED fetches is worse than what a read of a fast disk brings along. */
#define SLOW 16000000
#define KEPT 64000000
/* A stream of one read is believed for this many reads of all. */
#define NEW 16
/* A stream without a read among this many is not counted among those that share `most`. */
#define RECENT 512
/* A wider window that brings less than this is taken back. */
#define FASTER 1.1
/* How far ahead of a reader the kernel is led through what a fast disk holds, and how often that is thought about:
 * four of the kernel's stretches, where they are 8 MiB. */
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

/* Of readers that jump, some jump a little: so nothing fits in front of where a stream set out, a gap
 * may be as long as what was read at most, and a stream of one read must be a recent one. */
static bool ahead_fits(const struct ahead *a, const struct ahead_stream *s, uint64_t off)
{
    const uint64_t forth = s->bytes < FORTH ? s->bytes : FORTH;

    if (s->reads < 2 && a->clock - s->used > NEW)
        return false;
    return off >= s->next ? off - s->next <= forth : off >= s->begin && s->next - off <= BACK;
}

/* The stream that goes on here, or else has passed here already, is the likelier one. */
static uint64_t ahead_distance(const struct ahead_stream *s, uint64_t off)
{
    return off >= s->next ? 2 * (off - s->next) : 1;
}

/* The file's nearest stream, else the place of the longest unused one, with *found_out false. */
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
    *s = (struct ahead_stream){.ino = ino, .begin = off, .next = off, .asked = off, .led = off};
}

/* A reader that leaves out half of what it passes, jumps. */
static bool ahead_jumps(const struct ahead_stream *s)
{
    return s->bytes < (s->next - s->begin) / 2;
}

/* Reads that waited at the same time waited for the same bytes a second: their time counts once.  What is
 * read without ever waiting says nothing about storage. */
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

/* Storage turned out to be fast. */
static void ahead_shut(struct ahead_stream *s)
{
    s->window = 0;
    s->waits = 0;
    s->held = false;
}

/* Since the window last changed, the bytes then under way and as many again have been read. */
static bool ahead_is_settled(const struct ahead_stream *s)
{
    return s->next - s->since >= s->window + s->window / WIDER;
}

/* A window that was widened in vain is tried again after this many of its lengths. */
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

/* A quarter of the window and more.  Not the same for all: streams that ask at the same moment
 * for as much share the line until all have it at the same moment, and then it carries nothing
 * for a round trip. */
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

/* Several readers keep a disk busy between them. */
static bool ahead_is_alone(const struct ahead *a, const struct ahead_stream *me)
{
    for (size_t i = 0; i < AHEAD_STREAMS; i++) {
        const struct ahead_stream *s = &a->at[i];

        if (s != me && s->reads > 1 && a->clock - s->used < NEW)
            return false;
    }
    return true;
}

/* No farther than it has come, so that nothing is led far which soon ends or jumps. */
static struct ahead_ask ahead_lead(const struct ahead *a, struct ahead_stream *s)
{
    const uint64_t from = s->led > s->next ? s->led : s->next;
    const uint64_t to = s->next + (s->bytes < LEAD ? s->bytes : LEAD);

    if (to < s->next || from >= to || to - from < LEAD_STEP || !ahead_is_alone(a, s))
        return (struct ahead_ask){0};
    s->led = to;
    return (struct ahead_ask){.off = from, .n = to - from, .how = ZF_SOON_LED};
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
    return s->window           ? ahead_ask(a, s)
           : s->waits == WAITS ? ahead_lead(a, s)
                               : (struct ahead_ask){0};
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
