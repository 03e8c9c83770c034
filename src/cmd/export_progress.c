/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that an earlier run had copied count for how far the export is, but not for its speed, so that a resumed export does not
 * begin with the speed of a disk that does not exist. */
#include "export.h"

#include <stdio.h>

#include "print.h"

void export_progress_show(struct export_progress *p)
{
    const struct zf_export_count c = zf_export_count(p->x);
    const struct progress_at at = {.bytes = c.bytes,
                                   .all = p->plan->bytes,
                                   .moved = c.bytes - c.kept,
                                   .what = "file",
                                   .item = c.begun ? c.begun - 1 : 0,
                                   .items = p->plan->n};

    progress_show(&p->line, &at);
}

void export_progress_close(const struct export_progress *p, const char *dest)
{
    const struct zf_export_count c = zf_export_count(p->x);
    const double took = progress_took(&p->line);
    const uint64_t copied = c.bytes - c.kept;
    const uint32_t files = p->plan->n;

    (void)fprintf(stderr, "%u file%s, ", files, files == 1 ? "" : "s");
    print_bytes(stderr, p->plan->bytes);
    (void)fputs(" in ", stderr);
    print_name(stderr, dest);
    (void)fputs("; ", stderr);
    if (copied == p->plan->bytes) {
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
