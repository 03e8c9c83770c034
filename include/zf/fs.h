/* SPDX-License-Identifier: Apache-2.0 */
/* The FUSE shell over a tree: the only room that knows libfuse. */
#ifndef ZF_FS_H
#define ZF_FS_H

#include <sys/types.h>

#include <zf/mountpoint.h>
#include <zf/tree.h>

/* Extended attributes.  ON: getxattr and listxattr work.  OFF: neither.  AUTO: getxattr works, listxattr only in a small
 * tree. */
enum zf_fs_xattrs { ZF_FS_XATTRS_AUTO, ZF_FS_XATTRS_ON, ZF_FS_XATTRS_OFF };

/* AUTO: files of 64 MiB and more bypass the page cache where they can still be mapped, except safetensors.  CACHED: never.
 * DIRECT: always. */
enum zf_fs_io { ZF_FS_IO_AUTO, ZF_FS_IO_CACHED, ZF_FS_IO_DIRECT };

/* Modes of a mount, once they are negotiated. */
struct zf_fs_modes {
    bool direct;     /* large files bypass the page cache */
    const char *why; /* a sentence: the reason for `direct` being true or false */
    bool io_uring;   /* requests come through io_uring */
    /* The kernel's read-ahead for this mount (0 = unknown), and the one requested (0 = none requested). */
    uint32_t read_ahead_kib, read_ahead_wanted;
    char remedy[100]; /* "", or a shell command that raises the read-ahead to the requested value */
};

/* Each is reported at most once, in this order. */
enum zf_fs_event {
    ZF_FS_MOUNTED, /* with: struct zf_mount.  No request is served yet */
    ZF_FS_READY, /* with: struct zf_fs_modes.  The mount answers requests; called from a separate thread */
    ZF_FS_OFF,     /* after a signal or the end of stop_fd: our mount is certainly unmounted */
    ZF_FS_STOPPING /* after a signal or the end of stop_fd: unmounting was tried, successfully or not */
};

struct zf_fs_opts {
    const char *mountpoint, *fsname, *subtype;
    const char *const *fuse_opt; /* passed to libfuse unchanged: allow_other … */
    size_t n_fuse_opt;
    uid_t uid;
    gid_t gid;
    mode_t umask;                       /* cleared from the modes 0444 and 0555 */
    double entry_timeout, attr_timeout; /* seconds */
    uint32_t max_threads;               /* 0 = choose */
    uint32_t max_read;                  /* bytes of the largest request; 0 = the kernel's choice */
    uint32_t read_ahead_kib;            /* 0 = leave alone */
    enum zf_fs_xattrs xattrs;
    enum zf_fs_io io;
    bool io_uring;
    bool debug;
    int stop_fd; /* end of file on it stops serving, as a signal does; -1 = none */
    /* Called for each failed read, in the serving process, by the thread that served the read. */
    void (*log)(void *ctx, const struct zf_err *err);
    void (*event)(void *ctx, enum zf_fs_event what, const void *with);
    void *ctx; /* passed to log and event, both of which may be NULL */
};

/* Version of the loaded libfuse, a static string. */
const char *zf_fs_version(void);

/* Mounts t and serves it until it is unmounted, or until SIGTERM, SIGINT, SIGHUP or the end of stop_fd; these unmount it
 * at once.  Requests that are still running then have one second; after that the process exits with 0, because a stalled
 * source may block a thread for ever.
 * A mount whose connection was aborted stays in the mount table: the supervising process unmounts it, as it does when
 * the server is killed.  Borrows t and o.
 * Errors: ZF_E_IO cannot mount; the mount point is then unchanged. */
bool zf_fs_serve(struct zf_tree *t, const struct zf_fs_opts *o, struct zf_err *err) ZF_CHECKED;

#endif
