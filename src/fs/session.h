/* SPDX-License-Identifier: Apache-2.0 */
/* libfuse, and the state shared by the request handlers and the session. */
#ifndef ZF_FS_SESSION_H
#define ZF_FS_SESSION_H

#define FUSE_USE_VERSION 312
#include <fuse_lowlevel.h>
#include <stdatomic.h>

#include <zf/fs.h>

#include "ahead.h"

/* libfuse's user data.  Pointers are borrowed; only the atomics and `ahead` change while serving. */
struct fs {
    struct zf_tree *tree;
    const struct zf_fs_opts *opts;
    struct fuse_session *se;
    atomic_bool shared_maps; /* the kernel allows MAP_SHARED of files that bypass its cache */
    atomic_bool maps_told;   /* ops_report_maps has logged its message */
    atomic_bool direct;      /* large files bypass the page cache */
    atomic_bool uring;       /* a request came through io_uring */
    struct ahead ahead;
};

/* The request handlers (ops.c), including those for extended attributes (xattrs.c). */
extern const struct fuse_lowlevel_ops zf_ops;
void xattrs_get(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size);
void xattrs_list(fuse_req_t req, fuse_ino_t ino, size_t size);

#endif
