/* SPDX-License-Identifier: Apache-2.0 */
/* Mounting: its preconditions, the supervisor process, and zerofs mount itself. */
#ifndef CMD_MOUNT_H
#define CMD_MOUNT_H

#include <zf/fs.h>

#include "mounted.h"
#include "options.h"

/* ---- mountable ------------------------------------------------------------------------------- */

/* Checks that the mount point is a directory and, without -o nonempty, empty.  An automount point is not
 * read: that would wait for the very mount that we were started to make.
 * Errors: ZF_E_USAGE it is not; ZF_E_IO a dead mount is in the way, or it cannot be read. */
bool mountable_free(const struct mount_job *job, struct zf_err *err) ZF_CHECKED;

/* Checks that checkpoint and mount point, both resolved, are apart: else files that are opened later
 * would be looked up in the mount itself.  Errors: ZF_E_USAGE. */
bool mountable_outside(const struct mount_job *job, struct zf_err *err) ZF_CHECKED;

/* True if it is a mount point of autofs. */
bool mountable_automount(const char *mountpoint);

/* ---- supervise ------------------------------------------------------------------------------- */
/* The parent of the serving process (the worker), which unmounts however the worker ends. */

struct supervise {
    const char *mountpoint; /* absolute, no symbolic links; or /dev/fd/N, mounted by another */
    /* Runs in the worker, a child process; returns its exit code.  It reports through `link`, which is
     * at end of file when the supervisor has ended. */
    int (*work)(void *ctx, int link);
    /* Runs in the supervisor, once, when the worker reports that the mount answers. */
    void (*ready)(void *ctx);
    void *ctx;
    /* Write end of a pipe to the command that waits for `ready`; if it ends before, the mount is given up.  -1:
     * none. */
    int waiter;
    bool background; /* after `ready` there is no stderr: messages go to the system log */
};

/* Starts the worker and, when it has ended and its mount is gone, returns its exit code: 0 if a signal
 * asked it to end; EXIT_IO, with a message, if it was killed.
 * Call this before anything large is in memory. */
int supervise(const struct supervise *s);

/* The worker's reports: those of zf/fs.h, and that its mount is gone and only buffered data remain to be written. */
enum { SUPERVISE_LEAVING = ZF_FS_STOPPING + 1 };

/* Sends a report; m: the mount for ZF_FS_MOUNTED, else NULL. */
void supervise_report(int link, int what, const struct zf_mount *m);

/* ---- mount ----------------------------------------------------------------------------------- */
/* Mounting, for `zerofs mount` and for mount(8)'s helper. */

/* Mounts and, unless in the foreground, returns when the mount answers.  *already_out: the same mount existed already,
 * a failure for mount(8).  Reports failures itself and returns an exit code. */
int mount_at(const struct opts *o, const char *source, const char *mountpoint, bool *already_out);

#endif
