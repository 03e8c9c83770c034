/* SPDX-License-Identifier: Apache-2.0 */
/* Recognizes paths that are no local checkpoint: zerofs's own mounts, and addresses. */
#ifndef ZF_CMD_WHERE_H
#define ZF_CMD_WHERE_H

#include <zf/base/err.h>

/* True for an address that zerofs supports, unless a local file has this name. */
bool where_is_remote(const char *path);

/* Refuses other kinds of addresses (ftp://…), and the mount point of a zerofs or a directory in it: its
 * files are made from a checkpoint and could be mistaken for one.  A regular file in it may be read.
 * Errors: ZF_E_UNSUPPORTED; ZF_E_UNKNOWN with what is mounted there. */
bool where_check(const char *path, struct zf_err *err) ZF_CHECKED;

/* Adds to *err (nothing was found at `path`) a hint if a zerofs is mounted below it. */
void where_below(const char *path, struct zf_err *err);

#endif
