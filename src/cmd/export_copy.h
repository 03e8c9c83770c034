/* SPDX-License-Identifier: Apache-2.0 */
/* One file of the tree becomes one file of the destination. */
#ifndef ZF_CMD_EXPORT_COPY_H
#define ZF_CMD_EXPORT_COPY_H

#include <stdatomic.h>

#include "export_journal.h"
#include "export_plan.h"

/* What the copies of one export share.  All but the atomics is left alone while they run. */
struct export_run {
    struct zf_tree *tree;
    struct export_plan *plan;
    struct export_journal *journal;
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

enum export_end {
    EXPORT_OK,
    EXPORT_STOPPED,    /* run->stop was set; the part is kept and *err unfilled */
    EXPORT_UNREADABLE, /* this file cannot be had; others may */
    EXPORT_UNWRITABLE, /* the destination does not take it */
};

/* Copies file `i` of the plan, which is a leader, and makes the links that follow it.
 * buf: EXPORT_BUF bytes, the caller's own. */
#define EXPORT_BUF (1u << 20)
enum export_end export_copy(struct export_run *run, uint32_t i, unsigned char *buf,
                            struct zf_err *err) ZF_CHECKED;

#endif
