/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the command "export". */
#ifndef ZF_CMD_EXPORT_H
#define ZF_CMD_EXPORT_H

#include <zf/base/vec.h>
#include <zf/export.h>
#include <zf/view.h>

#include "options.h"
#include "progress.h"

struct export_failure {
    uint32_t file; /* of the plan; a leader */
    char *why;
};

struct export_failed {
    zf_vec(struct export_failure) of;
    int code; /* exit code of the first */
};

/* Remembers why file `i` failed.  Without memory it is only counted. */
void export_failed_add(struct export_failed *f, uint32_t i, const struct zf_err *err);
/* Prints "3 of 18 files could not be exported:" and a line for each, links included. */
void export_failed_print(struct export_failed *f, const struct zf_export_plan *p);
/* Had the checkpoint lost the bytes of every one of them?  Then no later run can have them. */
bool export_failed_for_good(const struct export_failed *f, const struct zf_export_plan *p);

void export_failed_fini(struct export_failed *f);
static inline void zf_auto_export_failed(struct export_failed *f)
{
    export_failed_fini(f);
}

/* Progress of an export: the line on a terminal while it runs, and the one at its end. */

struct export_progress {
    const struct zf_export *x;
    const struct zf_export_plan *plan;
    struct progress line;
};

void export_progress_show(struct export_progress *p);

/* "19 files, 40.0 GiB in DEST; 2.1 GiB of them copied in 0:31 (1.2 GiB/s)" and a newline.  dest: as the user named it. */
void export_progress_close(const struct export_progress *p, const char *dest);

/* Sums that a trainer left beside a save, compared before an export writes anything. */

/* Compares each shard of which the plan has all tensors with its sum, if the checkpoint has sums.  tell: says on stderr
 * how many were compared and how many not.  Errors: ZF_E_FORMAT a sum is another (a warning with -o degraded); of
 * reading; ZF_E_NOMEM. */
bool export_verify(struct zf_tree *tree, const struct zf_export_plan *plan, const struct opts *o,
                   bool tell, struct zf_err *err) ZF_CHECKED;

#endif
