/* SPDX-License-Identifier: Apache-2.0 */
/* Finds out what is mounted at a mount point already, so that every task on a node may mount the same. */
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
 * tag: the save inside job->source, or "".  Returns malloc'ed text. */
char *mounted_text(const struct mount_job *job, const char *tag, struct zf_err *err) ZF_CHECKED;

/* The document /.zerofs/modes.json: how files of the mount are read.  Returns malloc'ed text, or NULL. */
char *mounted_modes_text(const struct zf_fs_modes *m);

/* Describes the zerofs mount at this path: {"mountpoint", "checkpoint", "shows", "in_force", "uptime" (s), "bytes"
 * (read from files), "errors", "io", "remedy"}; unknown numbers are null.  NULL: there is none, or access to it is
 * denied. */
json_t *mounted_describe(const char *mountpoint);

enum mounted {
    MOUNTED_NOTHING, /* no mount, or none of zerofs: the mount point is checked like any directory */
    MOUNTED_SAME,    /* this checkpoint with these options; *err is the message for it */
    MOUNTED_OTHER,   /* another mount, described in *err: ZF_E_USAGE, or ZF_E_IO for a dead mount */
};
enum mounted mounted_check(const struct mount_job *job, struct zf_err *err);

/* Locks the mount point against other zerofs processes that mount there at the same time; waits until they
 * are ready.  Returns a descriptor for mounted_unlock, or -1 if the file system has no locks. */
int mounted_lock(const char *mountpoint);
void mounted_unlock(int fd);

#endif
