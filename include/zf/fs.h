/* SPDX-License-Identifier: Apache-2.0 */
/* The FUSE shell over a tree: the only room that knows libfuse. */
#ifndef ZF_FS_H
#define ZF_FS_H

#include <sys/types.h>

#include <zf/tree.h>

struct zf_fs_opts {
    const char *mountpoint, *fsname, *subtype;
    const char *const *fuse_opt; /* handed to libfuse as they are: allow_other … */
    uint32_t n_fuse_opt;
    uid_t uid;
    gid_t gid;
    mode_t umask;                       /* taken from 0444 and 0555 */
    double entry_timeout, attr_timeout; /* seconds */
    uint32_t max_threads;               /* 0 = choose */
    uint32_t max_read;                  /* bytes of the largest request; 0 = the kernel's choice */
    uint32_t read_ahead_kib;            /* 0 = leave alone */
    bool debug;
    /* Called in the serving process for each failed read, by the thread that failed. */
    void (*log)(void *ctx, const struct zf_err *err);
    void *log_ctx;
    /* Called once, from a thread of its own, when the mount answers. */
    void (*ready)(void *ctx);
    void *ready_ctx;
};

/* Mounts, serves until unmounted or SIGTERM/SIGINT/SIGHUP, unmounts.  Borrows t and o.
 * Errors: ZF_E_IO cannot mount; the mount point is left as it was. */
bool zf_fs_serve(struct zf_tree *t, const struct zf_fs_opts *o, struct zf_err *err) ZF_CHECKED;

#endif
