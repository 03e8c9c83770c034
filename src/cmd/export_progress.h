/* SPDX-License-Identifier: Apache-2.0 */
/* Progress of an export: the line on a terminal while it runs, and the one at its end. */
#ifndef ZF_CMD_EXPORT_PROGRESS_H
#define ZF_CMD_EXPORT_PROGRESS_H

#include <zf/export/copy.h>

#include "progress.h"

struct export_progress {
    const struct zf_export_run *run;
    struct progress line;
};

void export_progress_start(struct export_progress *p, const struct zf_export_run *run, bool show);

/* file: those that were begun. */
void export_progress_show(struct export_progress *p, uint32_t file);

/* "19 files, 40.0 GiB in DEST; 2.1 GiB of them copied in 0:31 (1.2 GiB/s)" and a newline. */
void export_progress_close(const struct export_progress *p);

#endif
