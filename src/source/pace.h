/* SPDX-License-Identifier: Apache-2.0 */
/* How long a place takes to answer.  Names that are looked up and files that are opened are timed: where answers take
 * milliseconds one after the other, a server is asked, and many things are asked for at once. */
#ifndef SOURCE_PACE_H
#define SOURCE_PACE_H

#include <stdatomic.h>
#include <stdbool.h>

#include <zf/base/clock.h>

/* Nanoseconds: a disk in the same machine, or the processor that somebody else has, takes less nearly always. */
#define PACE_SLOW 2000000
/* Four slow answers with nothing else between them, or as many more as quick ones are among them. */
#define PACE_UP 4
#define PACE_DOWN 2
#define PACE_ENOUGH 16

struct pace {
    atomic_int score; /* PACE_ENOUGH: slow, and stays so */
};

static inline bool pace_is_slow(const struct pace *p)
{
    return atomic_load_explicit(&p->score, memory_order_relaxed) >= PACE_ENOUGH;
}

/* An answer came, to what was asked at `began` (zf_clock_ns).  Threads may count one too many or too few. */
static inline void pace_note(struct pace *p, int64_t began)
{
    const bool slow = zf_clock_ns() - began > PACE_SLOW;
    const int score = atomic_load_explicit(&p->score, memory_order_relaxed);

    if (score < PACE_ENOUGH && (slow || score > 0)) {
        atomic_store_explicit(&p->score, score + (slow ? PACE_UP : -PACE_DOWN),
                              memory_order_relaxed);
    }
}

#endif
