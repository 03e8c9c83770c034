/* SPDX-License-Identifier: Apache-2.0 */
/* A small process that stays beside the one that serves, and frees the mount point whatever ends
 * it. */
#ifndef ZF_CMD_SUPERVISE_H
#define ZF_CMD_SUPERVISE_H

#include <zf/fs.h>

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

#endif
