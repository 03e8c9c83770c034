/* SPDX-License-Identifier: Apache-2.0 */
/* Mounting: may it be, who stays beside the mount, and zerofs mount itself. */
#ifndef CMD_MOUNT_H
#define CMD_MOUNT_H

#include <zf/fs.h>

#include "mounted.h"
#include "options.h"

/* ---- mountable ------------------------------------------------------------------------------- */

/* Is it a directory, and empty unless -o nonempty was given?  An automount point is not looked into:
 * that would wait for the mount that we were started to make.
 * Errors: ZF_E_USAGE no, ZF_E_IO a dead mount is in the way, or it cannot be looked at. */
bool mountable_free(const struct mount_job *job, struct zf_err *err) ZF_CHECKED;

/* Are checkpoint and mount point, both resolved, apart?  Files that are opened later would else be
 * looked for in the mount itself.  Errors: ZF_E_USAGE. */
bool mountable_outside(const struct mount_job *job, struct zf_err *err) ZF_CHECKED;

/* Is it a mount point of autofs? */
bool mountable_automount(const char *mountpoint);

/* ---- supervise ------------------------------------------------------------------------------- */
/* A small process that stays beside the one that serves, and frees the mount point whatever ends
 * it. */

struct supervise {
    const char *mountpoint; /* absolute, without links; or /dev/fd/N: somebody else's mount */
    /* Runs in the worker, a child process; gives its exit code.  It reports through `link`, whose
     * end of file says that the supervisor has ended. */
    int (*work)(void *ctx, int link);
    /* Runs in the supervisor, once, when the worker said that the mount answers. */
    void (*ready)(void *ctx);
    void *ctx;
    /* Writing end of a pipe to a command that waits for `ready`; when that is gone before, nobody wants the mount.  -1: none. */
    int waiter;
    bool background; /* after ready there is no stderr: what is said goes to the system log */
};

/* Starts the worker and returns its exit code when it has ended and its mount is gone: 0 when a
 * signal was the reason, EXIT_IO, with a sentence, when the worker was killed.
 * To be called before anything large is in memory. */
int supervise(const struct supervise *s);

/* Reports of the worker: zf/fs.h's, and that it serves no more and its mount is gone; it only writes what it has. */
enum { SUPERVISE_LEAVING = ZF_FS_STOPPING + 1 };

/* m: of ZF_FS_MOUNTED, else NULL. */
void supervise_report(int link, int what, const struct zf_mount *m);

/* ---- mount ----------------------------------------------------------------------------------- */
/* Mounting, for `zerofs mount` and for mount(8)'s helper. */

/* Mounts and, unless in the foreground, returns when the mount answers.  *already_out: it was there already, which mount(8)
 * takes for a failure.  Returns an exit code; failures have been reported. */
int mount_at(const struct opts *o, const char *source, const char *mountpoint, bool *already_out);

#endif
