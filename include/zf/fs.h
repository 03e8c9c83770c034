/* SPDX-License-Identifier: Apache-2.0 */
/* The FUSE shell over a tree: the only room that knows libfuse. */
#ifndef ZF_FS_H
#define ZF_FS_H

#include <sys/types.h>

#include <zf/mountpoint.h>
#include <zf/tree.h>

/* Extended attributes: named and listed; not at all; or named always, and listed where the tree is small. */
enum zf_fs_xattrs { ZF_FS_XATTRS_AUTO, ZF_FS_XATTRS_ON, ZF_FS_XATTRS_OFF };

/* How large files are read where mappings stay possible: past the page cache but for kinds that
 * are mapped, never so, or always. */
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
    void *log_ctx;
    /* Each is called once at most, with session_ctx, and may be NULL.  mounted: at once, before
     * anything is served; modes and then ready: from a thread of its own, when the mount
     * answers; stopping: when a signal, or the end of stop_fd, came, after the mount point was
     * freed (off: that is certain). */
    void (*mounted)(void *ctx, const struct zf_mount *m);
    void (*modes)(void *ctx, const struct zf_fs_modes *m);
    void (*ready)(void *ctx);
    void (*stopping)(void *ctx, bool off);
    void *session_ctx;
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
