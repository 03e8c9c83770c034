/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the mount at a path and unmounts exactly that one.  Sends no request to a file system, so a dead or stalled one
 * cannot block the caller.  Thread: any. */
#ifndef ZF_MOUNTPOINT_H
#define ZF_MOUNTPOINT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include <zf/base/err.h>

/* A row of /proc/self/mountinfo.  id and dev together identify a mount while it exists; the kernel reuses both numbers
 * afterwards. */
struct zf_mount {
    uint64_t id, parent;
    dev_t dev;
    bool here;     /* the mount point is the queried path itself, not a directory above it */
    bool fuse;     /* of type "fuse" or "fuse.<something>" */
    char type[64]; /* truncated if longer */
};

/* One row with its strings, which are valid only during the callback. */
struct zf_mount_row {
    struct zf_mount mount; /* `here` is not set */
    const char *point, *source;
};

/* Calls fn for every mount of this mount namespace, oldest first, until fn returns false.  Without /proc it is never
 * called. */
void zf_mount_each(bool (*fn)(void *ctx, const struct zf_mount_row *row), void *ctx);

/* Finds the topmost mount that contains `path`.
 * False: the path or /proc does not exist; or, with out->id set, the mount's root is outside the caller's chroot, so that
 * mountinfo does not list it. */
bool zf_mount_at(const char *path, struct zf_mount *out);

/* Finds the topmost mount whose mount point is `path`.  A symbolic link at the end of the path is not followed.  False:
 * there is none. */
bool zf_mount_on(const char *path, struct zf_mount *out);

/* Is `mountpoint` /dev/fd/N, the open FUSE device of a mount that another program makes?  Where and when that is mounted
 * is not known here. */
static inline bool zf_mount_given(const char *mountpoint)
{
    return strncmp(mountpoint, "/dev/fd/", 8) == 0;
}

static inline bool zf_mount_same(const struct zf_mount *a, const struct zf_mount *b)
{
    return a->id == b->id && a->dev == b->dev;
}

enum zf_detached {
    ZF_DETACH_DONE,
    ZF_DETACH_GONE,    /* it is no longer mounted; nothing was done */
    ZF_DETACH_COVERED, /* something else is mounted over it; nothing was done */
    ZF_DETACH_FAILED,  /* the reason is in *err */
};
/* Unmounts `m`, and nothing else, from `path` (absolute, without links), even while files in it are open; they stay
 * readable while the server runs.  ours: decides whether the mount at `path` with m's numbers is m or a later mount that
 * reuses the numbers; fd is an O_PATH descriptor of it, and while fd is open the numbers cannot be reused.  ours may be
 * NULL if the caller knows that m is still mounted. */
enum zf_detached zf_mount_detach(const char *path, const struct zf_mount *m,
                                 bool (*ours)(void *ctx, int fd), void *ctx, struct zf_err *err);

/* Unmounts the topmost mount at `path`, whichever it is: for a process without /proc, which cannot identify it. */
bool zf_mount_detach_any(const char *path, struct zf_err *err);

/* Has the server of this FUSE mount ended?  fd: any descriptor of the mount; O_PATH suffices.  A dead mount fails at once,
 * while a live one may block, so a child process asks it and is given up after a second. */
bool zf_mount_dead(int fd);

/* Unmounts with fusermount3, which is setuid, for a process without the right to unmount.  lazy: even while files are
 * open.  Errors: ZF_E_IO. */
bool zf_mount_fusermount(const char *path, bool lazy, struct zf_err *err) ZF_CHECKED;

#endif
