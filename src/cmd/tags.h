/* SPDX-License-Identifier: Apache-2.0 */
/* -o all_tags: a directory per save of a run, each opened when somebody first looks into it, and a
 * link called latest.  Saves that come later appear by themselves. */
#ifndef ZF_CMD_TAGS_H
#define ZF_CMD_TAGS_H

#include "log.h"
#include "open.h"

/* Borrows o and log, which must outlive the tree.
 * Errors: ZF_E_UNKNOWN no save is there; of the store. */
struct zf_tree *tags_tree(const char *path, const struct opts *o, struct cmd_log *log,
                          struct zf_err *err) ZF_CHECKED;

#endif
