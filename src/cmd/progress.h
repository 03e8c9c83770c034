/* SPDX-License-Identifier: Apache-2.0 */
/* The progress line on a terminal, with the estimated time left. */
#ifndef ZF_CMD_PROGRESS_H
#define ZF_CMD_PROGRESS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* The shortest time between two marks (s); the rate is taken over the last PROGRESS_MARKS marks: 10 s. */
#define PROGRESS_SECONDS 0.2
#define PROGRESS_MARKS 50u

struct progress {
    bool show;
    bool shown;         /* a line is on the screen */
    double start, last; /* s */
    double after;       /* seconds from the start in which nothing is shown */
    uint64_t n;         /* marks taken so far; mark i is in mark[i % PROGRESS_MARKS] */
    struct {
        double at;
        uint64_t bytes;
    } mark[PROGRESS_MARKS];
};

/* The progress made.  bytes, all: bytes done and in total (0: not known yet); moved: those of `bytes` that count
 * for the rate.  item: number of the current one of `items` (0: no items); what: what they are ("file", "tensor").
 * doing: NULL, or "opening": no bytes are counted; item is the number of items done, of `items` (0: not known yet). */
struct progress_at {
    uint64_t bytes, all, moved, item, items;
    const char *what, *doing;
};

/* show: false to show nothing; without a terminal nothing is shown either. */
void progress_start(struct progress *p, bool show);

/* Replaces the line by "34 %, 12.3 GiB of 40.0 GiB, 1.2 GiB/s, 0:23 left, file 3 of 12"; at most every 0.2 s. */
void progress_show(struct progress *p, const struct progress_at *at);

/* Clears the line, at the end or before other output. */
void progress_clear(struct progress *p);

/* Seconds since the start. */
double progress_took(const struct progress *p);

/* The same from a separate thread, for work that cannot call progress_show itself. */
struct progress_watch {
    struct progress progress;
    void (*ask)(void *ctx, struct progress_at *out); /* called in that thread */
    void *ctx;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t end;
    bool running, ended;
};

/* Starts the thread if `show`; after: seconds in which nothing is shown. */
void progress_watch(struct progress_watch *w, bool show, double after,
                    void (*ask)(void *ctx, struct progress_at *out), void *ctx);
/* Clears the line until its next update, before other output. */
void progress_watch_clear(struct progress_watch *w);
/* Ends the thread and clears the line.  May be called again. */
void progress_watch_end(struct progress_watch *w);

#endif
