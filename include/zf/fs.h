/* SPDX-License-Identifier: Apache-2.0 */
/* The FUSE shell over a tree: the only room that knows libfuse. */
#ifndef ZF_FS_H
#define ZF_FS_H

#include <sys/types.h>

#include <zf/mountpoint.h>
#include <zf/tree.h>

/* Extended attributes: named and listed; not at all; or named always, and listed where the tree is small. */
enum zf_fs_xattrs { ZF_FS_XATTRS_AUTO, ZF_FS_XATTRS_ON, ZF_FS_XATTRS_OFF };

/* AUTO: files of 64 MiB and more bypass the page cache where they can still be mapped, except safetensors.  CACHED: never.
 * DIRECT: always. */
enum zf_fs_io { ZF_FS_IO_AUTO, ZF_FS_IO_CACHED, ZF_FS_IO_DIRECT };

/* Modes of a mount, once they are negotiated. */
struct zf_fs_modes {
    bool direct;     /* large files are read past the page cache */
    const char *why; /* a sentence: why they are, or are not */
    bool io_uring;   /* requests come through io_uring */
    /* Read-ahead of the kernel for this mount, and what was asked for; 0 = not known, or left alone. */
    uint32_t read_ahead_kib, read_ahead_wanted;
    char remedy[100]; /* "", or the command that raises it */
};

/* Each happens once at most, in this order. */
enum zf_fs_event {
    ZF_FS_MOUNTED, /* with: struct zf_mount.  Nothing is served yet */
    ZF_FS_READY,   /* with: struct zf_fs_modes.  The mount answers; from a thread of its own */
    ZF_FS_OFF,     /* a signal, or the end of stop_fd, came, and our mount is off for certain */
    ZF_FS_STOPPING /* it came; the mount point was freed, or could not be */
};

struct zf_fs_opts {
    const char *mountpoint, *fsname, *subtype;
    const char *const *fuse_opt; /* handed to libfuse as they are: allow_other … */
    size_t n_fuse_opt;
    uid_t uid;
    gid_t gid;
    mode_t umask;                       /* taken from 0444 and 0555 */
    double entry_timeout, attr_timeout; /* seconds */
    uint32_t max_threads;               /* 0 = choose */
    uint32_t max_read;                  /* bytes of the largest request; 0 = the kernel's choice */
    uint32_t read_ahead_kib;            /* 0 = leave alone */
    enum zf_fs_xattrs xattrs;
    enum zf_fs_io io;
    bool io_uring;
    bool debug;
    int stop_fd; /* its end of file stops serving as a signal does; -1 = none */
    /* Called in the serving process for each failed read, by the thread that failed. */
    void (*log)(void *ctx, const struct zf_err *err);
    void (*event)(void *ctx, enum zf_fs_event what, const void *with);
    void *ctx; /* of both, which may be NULL */
};

/* The version of libfuse that is loaded. */
const char *zf_fs_version(void);

/* Mounts, serves until unmounted, or until SIGTERM, SIGINT, SIGHUP or the end of stop_fd.  Then the
 * mount point is freed at once; requests that are still being served get a second, after which the
 * process exits with 0 by itself, because a stalled source may hold a thread for ever.
 * A mount whose connection was aborted stays in the mount table: whoever supervises the process
 * takes it off, as when it is killed.  Borrows t and o.
 * Errors: ZF_E_IO cannot mount; the mount point is left as it was. */
bool zf_fs_serve(struct zf_tree *t, const struct zf_fs_opts *o, struct zf_err *err) ZF_CHECKED;

#endif
