/* SPDX-License-Identifier: Apache-2.0 */
/* The line that tells on a terminal how far a command is, and for how long it will go on. */
#ifndef ZF_CMD_PROGRESS_H
#define ZF_CMD_PROGRESS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Marks are taken at most this often, and the rate is that of the last PROGRESS_MARKS of them: 10 s. */
#define PROGRESS_SECONDS 0.2
#define PROGRESS_MARKS 50u

struct progress {
    bool show;
    bool shown;         /* a line is there */
    double start, last; /* s */
    double after;       /* nothing is shown in as many seconds from the start */
    uint64_t n;         /* marks taken so far; mark i is in place i % PROGRESS_MARKS */
    struct {
        double at;
        uint64_t bytes;
    } mark[PROGRESS_MARKS];
};

/* How far it is.  bytes, all: done and in all; moved: those of `bytes` that count for the rate.  all 0: not known yet.
 * item of items ("file", "tensor"), or items 0.
 * doing: "opening", where no bytes are counted but items that are done, of as many as items or, 0, nobody knows yet; else NULL. */
struct progress_at {
    uint64_t bytes, all, moved, item, items;
    const char *what, *doing;
};

/* show: false where nothing is to be shown; it is shown on a terminal only. */
void progress_start(struct progress *p, bool show);

/* "34 %, 12.3 GiB of 40.0 GiB, 1.2 GiB/s, 0:23 left, file 3 of 12", over the line before it; at most every 0.2 s. */
void progress_show(struct progress *p, const struct progress_at *at);

/* Takes the line away, so that something else can be printed, or at the end. */
void progress_clear(struct progress *p);

/* Seconds since the start. */
double progress_took(const struct progress *p);

/* The same from a thread of its own, for work that nobody can interrupt to look. */
struct progress_watch {
    struct progress progress;
    void (*ask)(void *ctx, struct progress_at *out); /* from that thread */
    void *ctx;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t end;
    bool running, ended;
};

/* Starts it, if it is to be shown; after: seconds in which nothing is. */
void progress_watch(struct progress_watch *w, bool show, double after,
                    void (*ask)(void *ctx, struct progress_at *out), void *ctx);
/* Takes the line away until the next look, so that something can be printed. */
void progress_watch_clear(struct progress_watch *w);
/* Ends it and takes the line away.  May be called again. */
void progress_watch_end(struct progress_watch *w);

#endif
