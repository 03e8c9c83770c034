/* SPDX-License-Identifier: Apache-2.0 */
/* Paths at which there is no checkpoint by their nature: zerofs's own mounts, and addresses. */
#ifndef ZF_CMD_WHERE_H
#define ZF_CMD_WHERE_H

#include <zf/base/err.h>

/* An address that zerofs opens, and not the name of something here. */
bool where_is_remote(const char *path);

/* False for an address of another kind (ftp://…), and for the mount point of a zerofs or a
 * directory in it: its files are made from a checkpoint and would be taken for one.  A plain
 * file in it may be read.
 * Errors: ZF_E_UNSUPPORTED; ZF_E_UNKNOWN with what is mounted there. */
bool where_check(const char *path, struct zf_err *err) ZF_CHECKED;

/* Nothing was found at `path`: if a zerofs is mounted below it, *err says so, too. */
void where_below(const char *path, struct zf_err *err);

#endif
