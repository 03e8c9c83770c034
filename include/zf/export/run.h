/* SPDX-License-Identifier: Apache-2.0 */
/* State shared by the copies of one export. */
#ifndef ZF_EXPORT_RUN_H
#define ZF_EXPORT_RUN_H

#include <stdatomic.h>

#include <zf/export/journal.h>
#include <zf/export/plan.h>

/* Only the atomics change while they run. */
struct zf_export_run {
    struct zf_tree *tree;
    struct zf_export_plan *plan;
    struct zf_export_journal *journal;
    const char *dest;  /* the directory, for messages */
    const char *given; /* as the user named it: of a single file perhaps its new name */
    int root;          /* the destination, open */
    bool force, sums;
    uint8_t seed[32]; /* digest of the files that were opened and of the options that change what is
                         shown */
    atomic_bool stop; /* somebody asks all copies to end */
    atomic_uint_least64_t bytes; /* that need no more copying */
    atomic_uint_least64_t kept;  /* of these: were there already */
};

enum zf_export_end {
    ZF_EXPORT_OK,
    ZF_EXPORT_STOPPED,    /* run->stop was set; the part is kept and *err unfilled */
    ZF_EXPORT_UNREADABLE, /* this file cannot be had; others may */
    ZF_EXPORT_UNWRITABLE, /* the destination does not take it */
};

#endif
