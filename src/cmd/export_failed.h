/* SPDX-License-Identifier: Apache-2.0 */
/* The files that an export could not read, reported together at its end. */
#ifndef ZF_CMD_EXPORT_FAILED_H
#define ZF_CMD_EXPORT_FAILED_H

#include <zf/base/vec.h>
#include <zf/export/plan.h>

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

#endif
