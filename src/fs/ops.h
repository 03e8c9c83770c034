/* SPDX-License-Identifier: Apache-2.0 */
/* The request handlers and what they share with the session that runs them. */
#ifndef ZF_FS_OPS_H
#define ZF_FS_OPS_H

#define FUSE_USE_VERSION 312
#include <fuse_lowlevel.h>

#include <zf/fs.h>

/* libfuse's user data: borrowed, immutable while serving. */
struct fs {
    struct zf_tree *tree;
    const struct zf_fs_opts *opts;
};

extern const struct fuse_lowlevel_ops zf_ops;

#endif
