/* SPDX-License-Identifier: Apache-2.0 */
/* Which mount is at a path, and how to take exactly that one off.  Never asks a file system, so
 * that a dead or stalled one holds up nobody.  Thread: any. */
#ifndef ZF_MOUNTPOINT_H
#define ZF_MOUNTPOINT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include <zf/base/err.h>

/* A row of /proc/self/mountinfo.  id and dev together name one mount as long as it is there; the
 * kernel uses both numbers again afterwards. */
struct zf_mount {
    uint64_t id, parent;
    dev_t dev;
    bool here;     /* its root is the path that was asked for, not a directory above it */
    bool fuse;     /* of type "fuse" or "fuse.<something>" */
    char type[64]; /* cut where it is longer */
};

/* One row with its texts, which are valid during the call only. */
struct zf_mount_row {
    struct zf_mount mount; /* `here` is not set */
    const char *point, *source;
};

/* Calls fn for every mount of this mount namespace, the later ones last, until it returns false.
 * Without /proc there are none. */
void zf_mount_each(bool (*fn)(void *ctx, const struct zf_mount_row *row), void *ctx);

/* The mount that is reached at `path`, the uppermost one.
 * False: the path or /proc is not there; or, with out->id set, the mount's root is outside of a chroot,
 * whose mountinfo leaves it out. */
bool zf_mount_at(const char *path, struct zf_mount *out);

/* The mount of which `path` is the root, the uppermost one, where a link at its end is not followed.  False: there is none. */
bool zf_mount_on(const char *path, struct zf_mount *out);

/* Is it /dev/fd/N, the open device of a mount that somebody else made?  Where that is, and when, only
 * they know. */
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
    ZF_DETACH_GONE,    /* it is not mounted any more; nothing was done */
    ZF_DETACH_COVERED, /* something else was mounted over it; nothing was done */
    ZF_DETACH_FAILED,  /* *err says why */
};
/* Takes `m` off `path` (absolute, without links), also while files are open in it (they can be read
 * on as long as somebody serves them), and never anything else.  ours: asked about the mount at `path` that has these
 * numbers, of which fd is an O_PATH descriptor: is it m, or a later one that was given the same?  While fd is open
 * neither the mount nor its numbers can become another's.  NULL: that m is there is known. */
enum zf_detached zf_mount_detach(const char *path, const struct zf_mount *m,
                                 bool (*ours)(void *ctx, int fd), void *ctx, struct zf_err *err);

/* Takes off whatever is uppermost at `path`: for a process without /proc, which cannot know. */
bool zf_mount_detach_any(const char *path, struct zf_err *err);

/* Has the process that served the FUSE mount of this descriptor (O_PATH does) ended?  Only a dead one answers for certain
 * at once, and with an error, so a live one is asked by a process of its own, for a second at
 * most. */
bool zf_mount_dead(int fd);

/* Unmounts with fusermount3, which is setuid, for a process that may not itself.  lazy: although
 * files are open.  Errors: ZF_E_IO. */
bool zf_mount_fusermount(const char *path, bool lazy, struct zf_err *err) ZF_CHECKED;

#endif
