/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that an earlier run had copied count for how far the export is, but not for its speed, so that a resumed export does not
 * begin with the speed of a disk that does not exist. */
#include "export.h"

#include <stdio.h>

#include "print.h"

static uint64_t progress_copied(const struct export_progress *p)
{
    /* `kept` first: what is added to both in between must not make the difference negative. */
    uint64_t kept = atomic_load(&p->run->kept), bytes = atomic_load(&p->run->bytes);

    return bytes > kept ? bytes - kept : 0;
}

void export_progress_start(struct export_progress *p, const struct zf_export_run *run, bool show)
{
    p->run = run;
    progress_start(&p->line, show);
}

void export_progress_show(struct export_progress *p, uint32_t file)
{
    const struct progress_at at = {.bytes = atomic_load(&p->run->bytes),
                                   .all = p->run->plan->bytes,
                                   .moved = progress_copied(p),
                                   .what = "file",
                                   .item = file,
                                   .items = p->run->plan->n};

    progress_show(&p->line, &at);
}

void export_progress_close(const struct export_progress *p)
{
    double took = progress_took(&p->line);
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
    (void)fprintf(stderr, "%u:%02u", (unsigned)took / 60, (unsigned)took % 60);
    if (copied && took > 1e-3) {
        (void)fputs(" (", stderr);
        print_bytes(stderr, (uint64_t)((double)copied / took));
        (void)fputs("/s)", stderr);
    }
    (void)fputc('\n', stderr);
}
