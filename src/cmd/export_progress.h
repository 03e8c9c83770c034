/* SPDX-License-Identifier: Apache-2.0 */
/* Progress of an export: the line on a terminal while it runs, and the one at its end. */
#ifndef ZF_CMD_EXPORT_PROGRESS_H
#define ZF_CMD_EXPORT_PROGRESS_H

#include <zf/export/copy.h>

/* Marks are taken at most this often, and the rate is that of the last PROGRESS_MARKS of them: 10 s. */
#define PROGRESS_SECONDS 0.2
#define PROGRESS_MARKS 50u

struct export_progress {
    const struct zf_export_run *run;
    double start;
    uint64_t n; /* marks taken so far; mark i is in place i % PROGRESS_MARKS */
    struct {
        double at;
        uint64_t copied;
    } mark[PROGRESS_MARKS];
};

void export_progress_start(struct export_progress *p, const struct zf_export_run *run);

/* "12.3 GiB of 40.0 GiB, 1.2 GiB/s, 0:23 left", over the line before it. */
void export_progress_show(struct export_progress *p);

/* "19 files, 40.0 GiB in DEST; 2.1 GiB of them copied in 0:31 (1.2 GiB/s)" and a newline. */
void export_progress_close(const struct export_progress *p);

#endif
