/* SPDX-License-Identifier: Apache-2.0 */
/* One file of the tree becomes one file of the destination. */
#ifndef ZF_EXPORT_COPY_H
#define ZF_EXPORT_COPY_H

#include <stdatomic.h>

#include <zf/export/journal.h>
#include <zf/export/plan.h>

/* Shared by the copies of one export.  Only the atomics change while they run. */
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

/* Copies file `i` of the plan, which is a leader, and makes the links that follow it.
 * buf: ZF_EXPORT_BUF bytes, the caller's own. */
#define ZF_EXPORT_BUF (1u << 20)
enum zf_export_end zf_export_copy(struct zf_export_run *run, uint32_t i, unsigned char *buf,
                                  struct zf_err *err) ZF_CHECKED;

#endif
