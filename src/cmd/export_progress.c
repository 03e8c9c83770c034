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

    (void)fprintf(stderr, "%s, %s in ", number_of(p->plan->n, "file").text,
                  number_bytes(p->plan->bytes).text);
    print_name(stderr, dest);
    if (copied == p->plan->bytes)
        (void)fputs("; copied in ", stderr);
    else
        (void)fprintf(stderr, "; %s of them copied in ", number_bytes(copied).text);
    (void)fprintf(stderr, "%u:%02u", (unsigned)took / 60, (unsigned)took % 60);
    if (copied && took > 1e-3)
        (void)fprintf(stderr, " (%s/s)", number_bytes((uint64_t)((double)copied / took)).text);
    (void)fputc('\n', stderr);
}
