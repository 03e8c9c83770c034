/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that an earlier run had copied count for how far the export is, but not for its speed:
 * the rate is that of the bytes this run copied, over the last ten seconds, so that a resumed
 * export does not begin with the speed of a disk that does not exist, and a slow patch shows
 * soon. */
#include "export_progress.h"

#include <stdio.h>

#include <zf/base/clock.h>

#include "print.h"

static double progress_now(void)
{
    return (double)zf_clock_ns() / 1e9;
}

static uint64_t progress_copied(const struct export_progress *p)
{
    /* `kept` first: what is added to both in between must not make the difference negative. */
    uint64_t kept = atomic_load(&p->run->kept), bytes = atomic_load(&p->run->bytes);

    return bytes > kept ? bytes - kept : 0;
}

void export_progress_start(struct export_progress *p, const struct zf_export_run *run)
{
    *p = (struct export_progress){.run = run, .start = progress_now()};
    p->mark[0].at = p->start;
    p->n = 1;
}

/* Bytes a second since the oldest mark that is kept; 0 when nothing was copied. */
static double progress_rate(struct export_progress *p)
{
    double now = progress_now();
    uint64_t copied = progress_copied(p);
    uint64_t oldest = p->n < PROGRESS_MARKS ? 0 : p->n % PROGRESS_MARKS;
    double rate = (double)(copied - p->mark[oldest].copied) / (now - p->mark[oldest].at + 1e-3);

    if (now - p->mark[(p->n - 1) % PROGRESS_MARKS].at >= 0.9 * PROGRESS_SECONDS) {
        p->mark[p->n % PROGRESS_MARKS].at = now;
        p->mark[p->n % PROGRESS_MARKS].copied = copied;
        p->n++;
    }
    return rate;
}

static void progress_print_time(double seconds)
{
    (void)fprintf(stderr, "%u:%02u", (unsigned)seconds / 60, (unsigned)seconds % 60);
}

void export_progress_show(struct export_progress *p)
{
    uint64_t all = p->run->plan->bytes, bytes = atomic_load(&p->run->bytes);
    double rate = progress_rate(p), left = bytes < all ? (double)(all - bytes) : 0;

    (void)fputs("\r\033[K", stderr);
    print_bytes(stderr, bytes);
    (void)fputs(" of ", stderr);
    print_bytes(stderr, all);
    (void)fputs(", ", stderr);
    print_bytes(stderr, (uint64_t)rate);
    (void)fputs("/s", stderr);
    if (left < rate * 100 * 3600) {
        (void)fputs(", ", stderr);
        progress_print_time(left / rate);
        (void)fputs(" left", stderr);
    }
    (void)fflush(stderr);
}

void export_progress_close(const struct export_progress *p)
{
    double took = progress_now() - p->start;
    uint64_t copied = progress_copied(p);
    uint32_t files = p->run->plan->n;

    (void)fprintf(stderr, "%u file%s, ", files, files == 1 ? "" : "s");
    print_bytes(stderr, p->run->plan->bytes);
    (void)fputs(" in ", stderr);
    print_name(stderr, p->run->given);
    (void)fputs("; ", stderr);
    if (copied == p->run->plan->bytes) {
        (void)fputs("copied in ", stderr);
    } else {
        print_bytes(stderr, copied);
        (void)fputs(" of them copied in ", stderr);
    }
    progress_print_time(took);
    if (copied && took > 1e-3) {
        (void)fputs(" (", stderr);
        print_bytes(stderr, (uint64_t)((double)copied / took));
        (void)fputs("/s)", stderr);
    }
    (void)fputc('\n', stderr);
}
