/* SPDX-License-Identifier: Apache-2.0 */
/* libfuse, and what the request handlers share with the session that runs them. */
#ifndef ZF_FS_SESSION_H
#define ZF_FS_SESSION_H

#define FUSE_USE_VERSION 312
#include <fuse_lowlevel.h>
#include <stdatomic.h>

#include <zf/fs.h>

#include "ahead.h"

/* libfuse's user data: borrowed, immutable while serving but for what is atomic. */
struct fs {
    struct zf_tree *tree;
    const struct zf_fs_opts *opts;
    struct fuse_session *se;
    atomic_bool shared_maps; /* the kernel maps files shared that go past its cache */
    atomic_bool maps_told;
    atomic_bool direct; /* large files go past the page cache */
    atomic_bool uring;  /* a request came over io_uring */
    struct ahead ahead;
};

/* The request handlers (ops.c); and among them those for extended attributes (xattrs.c). */
extern const struct fuse_lowlevel_ops zf_ops;
void xattrs_get(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size);
void xattrs_list(fuse_req_t req, fuse_ino_t ino, size_t size);

#endif
