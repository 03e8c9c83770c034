/* SPDX-License-Identifier: Apache-2.0 */
/* Tells slow storage from fast.  Lookups and opens are timed: several answers in a row that take milliseconds mean a
 * server, from which many things are then requested at once. */
#ifndef SOURCE_PACE_H
#define SOURCE_PACE_H

#include <stdatomic.h>
#include <stdbool.h>

#include <zf/base/clock.h>

/* Nanoseconds: a local disk, or waiting for a busy processor, nearly always takes less. */
#define PACE_SLOW 2000000
/* Four slow answers in a row are enough; two quick ones cancel a slow one. */
#define PACE_UP 4
#define PACE_DOWN 2
#define PACE_ENOUGH 16

struct pace {
    atomic_int score; /* PACE_ENOUGH and more: slow, from then on */
};

static inline bool pace_is_slow(const struct pace *p)
{
    return atomic_load_explicit(&p->score, memory_order_relaxed) >= PACE_ENOUGH;
}

/* Counts an answer to a request made at `began` (zf_clock_ns).  Racing threads may lose a count. */
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
