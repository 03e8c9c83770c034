/* SPDX-License-Identifier: Apache-2.0 */
/* The checkpoint that a mount point shows already, so that every task of a node may mount the same. */
#ifndef ZF_CMD_MOUNTED_H
#define ZF_CMD_MOUNTED_H

#include <jansson.h>

#include <zf/fs.h>
#include <zf/tree.h>

#include "options.h"

/* A requested mount. */
struct mount_job {
    const char *source,
        *mountpoint; /* as given; made absolute before the process leaves its directory */
    const struct opts *opts;
};

/* The document /.zerofs/mount.json of a mount: what it shows, from where, with which options.
 * tag: the save inside job->source, or "".  Gives malloc'ed text. */
char *mounted_text(const struct mount_job *job, const char *tag, struct zf_err *err) ZF_CHECKED;

/* The document /.zerofs/modes.json: how the mount is read.  Gives malloc'ed text, or NULL. */
char *mounted_modes_text(const struct zf_fs_modes *m);

/* The mount of ours at this path: {"mountpoint", "checkpoint", "shows", "in_force", "uptime" (s), "bytes" (read from files), "errors", "io",
 * "remedy"}; numbers that it does not give are null.  NULL: there is none, or it lets nobody in. */
json_t *mounted_describe(const char *mountpoint);

enum mounted {
    MOUNTED_NOTHING, /* or nothing of ours: the mount point is to be looked at as any directory */
    MOUNTED_SAME,    /* this checkpoint with these options; *err is the sentence that says so */
    MOUNTED_OTHER,   /* *err says what: ZF_E_USAGE, or ZF_E_IO for a dead mount */
};
enum mounted mounted_check(const struct mount_job *job, struct zf_err *err);

/* Holds off other zerofs that mount at the same directory at the same moment.  Waits until they are
 * ready.  Gives a descriptor to close (mounted_unlock), or -1 where the file system has no locks. */
int mounted_lock(const char *mountpoint);
void mounted_unlock(int fd);

#endif
