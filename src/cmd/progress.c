/* SPDX-License-Identifier: Apache-2.0 */
#include "progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include <zf/base/clock.h>
#include <zf/base/thread.h>

#include "page.h"
#include "print.h"

static double progress_now(void)
{
    return (double)zf_clock_ns() / 1e9;
}

void progress_start(struct progress *p, bool show)
{
    *p = (struct progress){.show = show && isatty(STDERR_FILENO) == 1, .start = progress_now()};
    p->mark[0].at = p->start;
    p->n = 1;
}

double progress_took(const struct progress *p)
{
    return progress_now() - p->start;
}

/* Bytes per second since the oldest mark; 0 if none were moved. */
static double progress_rate(struct progress *p, double now, uint64_t moved)
{
    const uint64_t oldest = p->n < PROGRESS_MARKS ? 0 : p->n % PROGRESS_MARKS;
    const uint64_t since = p->mark[oldest].bytes;
    const double rate =
        (double)(moved > since ? moved - since : 0) / (now - p->mark[oldest].at + 1e-3);

    if (now - p->mark[(p->n - 1) % PROGRESS_MARKS].at >= 0.9 * PROGRESS_SECONDS) {
        p->mark[p->n % PROGRESS_MARKS].at = now;
        p->mark[p->n % PROGRESS_MARKS].bytes = moved;
        p->n++;
    }
    return rate;
}

/* Appends text at out[*n], unless it does not fit the line. */
static void progress_add(char out[200], size_t *n, size_t width, const char *text)
{
    const int put = snprintf(NULL, 0, "%s%s", *n ? ", " : "", text);

    if (put > 0 && *n + (size_t)put < width && *n + (size_t)put < 200)
        *n += (size_t)snprintf(out + *n, 200 - *n, "%s%s", *n ? ", " : "", text);
}

/* Appends the part of the line about bytes. */
static void progress_add_bytes(char out[200], size_t *n, size_t width, struct progress *p,
                               const struct progress_at *at)
{
    char part[160];
    const double rate = progress_rate(p, p->last, at->moved);
    const double left = at->bytes < at->all ? (double)(at->all - at->bytes) : 0;

    (void)snprintf(part, sizeof part, "%u %%",
                   (unsigned)(100.0 * (double)at->bytes / (double)at->all));
    progress_add(out, n, width, part);
    (void)snprintf(part, sizeof part, "%s of %s", number_bytes(at->bytes).text,
                   number_bytes(at->all).text);
    progress_add(out, n, width, part);
    (void)snprintf(part, sizeof part, "%s/s", number_bytes((uint64_t)rate).text);
    progress_add(out, n, width, part);
    if (left < rate * 100 * 3600) {
        (void)snprintf(part, sizeof part, "%u:%02u left", (unsigned)(left / rate) / 60,
                       (unsigned)(left / rate) % 60);
        progress_add(out, n, width, part);
    }
}

static void progress_add_items(char out[200], size_t *n, size_t width, const struct progress_at *at)
{
    /* Shows the number of the current item or, with `doing`, of items done. */
    const uint64_t item = at->doing ? at->item : at->item < at->items ? at->item + 1 : at->items;
    char part[100], of[40] = "";

    if (at->items > 0)
        (void)snprintf(of, sizeof of, " of %" PRIu64, at->items);
    if (at->doing || at->items > 1) {
        (void)snprintf(part, sizeof part, "%s %" PRIu64 "%s", at->what, item, of);
        progress_add(out, n, width, part);
    }
}

void progress_show(struct progress *p, const struct progress_at *at)
{
    const double now = p->show ? progress_now() : 0;
    char line[200] = "";
    size_t n = 0;

    if (!p->show || (at->all == 0 && !at->doing) || now - p->last < 0.9 * PROGRESS_SECONDS ||
        now - p->start < p->after)
        return;
    p->last = now;
    const size_t width = page_of(stderr, COLOR_NEVER).width;

    if (at->doing)
        progress_add(line, &n, width, at->doing);
    else
        progress_add_bytes(line, &n, width, p, at);
    progress_add_items(line, &n, width, at);
    (void)fprintf(stderr, "\r\033[K%s", line);
    (void)fflush(stderr);
    p->shown = true;
}

void progress_clear(struct progress *p)
{
    if (p->shown) {
        (void)fputs("\r\033[K", stderr);
        (void)fflush(stderr);
        p->shown = false;
    }
}

/* ---- in a thread ------------------------------------------------------------------------------- */

static void *progress_watching(void *arg)
{
    struct progress_watch *w = arg;

    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&w->lock);
    while (!w->ended) {
        struct progress_at at = {0};

        (void)zf_thread_wait(&w->end, &w->lock, (unsigned)(PROGRESS_SECONDS * 1000));
        if (!w->ended) {
            w->ask(w->ctx, &at);
            progress_show(&w->progress, &at);
        }
    }
    return NULL;
}

void progress_watch(struct progress_watch *w, bool show, double after,
                    void (*ask)(void *ctx, struct progress_at *out), void *ctx)
{
    *w = (struct progress_watch){
        .ask = ask, .ctx = ctx, .lock = PTHREAD_MUTEX_INITIALIZER, .end = PTHREAD_COND_INITIALIZER};
    progress_start(&w->progress, show);
    w->progress.after = after;
    w->running = w->progress.show && zf_thread_start(&w->thread, progress_watching, w) == 0;
}

void progress_watch_clear(struct progress_watch *w)
{
    if (w->running) {
        (void)pthread_mutex_lock(&w->lock);
        progress_clear(&w->progress);
        (void)pthread_mutex_unlock(&w->lock);
    }
}

void progress_watch_end(struct progress_watch *w)
{
    if (!w->running)
        return;
    (void)pthread_mutex_lock(&w->lock);
    w->ended = true;
    (void)pthread_cond_signal(&w->end);
    (void)pthread_mutex_unlock(&w->lock);
    (void)pthread_join(w->thread, NULL);
    w->running = false;
    progress_clear(&w->progress);
}
