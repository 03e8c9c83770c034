/* SPDX-License-Identifier: Apache-2.0 */
/* Whether reads bypass the page cache, the kernel's read-ahead, and io_uring. */
#ifndef ZF_FS_MODE_H
#define ZF_FS_MODE_H

#include "session.h"

/* Capability flag: files that bypass the page cache can be mapped with MAP_SHARED (Linux 6.6, libfuse 3.17). */
#ifdef FUSE_CAP_DIRECT_IO_ALLOW_MMAP
#define MODE_SHARED_MAPS FUSE_CAP_DIRECT_IO_ALLOW_MMAP
#else
#define MODE_SHARED_MAPS 0
#endif

/* Sets fs->shared_maps and fs->direct from the capabilities that the kernel offers.  Called at INIT. */
void mode_choose(struct fs *fs, const struct fuse_conn_info *conn);

/* Should reads of this file bypass the page cache if it is opened now? */
bool mode_direct(const struct fs *fs, const struct zf_stat *s);

/* Do the versions of libfuse and of the kernel support io_uring?  libfuse may still have been built without it. */
bool mode_has_io_uring(void);

/* Notes whether a request came through io_uring.  One request suffices, because all use the same transport. */
void mode_note_request(struct fs *fs, fuse_req_t req);

/* The kernel's reply buffer of a request that came through io_uring, at least n bytes; a reply written there is not copied.
 * Valid until the request is answered.  NULL for other requests. */
void *mode_ring_buffer(const struct fs *fs, fuse_req_t req, size_t n);

/* Raises the kernel's read-ahead for the mount's device `dev` (NULL = unknown) and fills *out.  Called once the mount
 * answers requests. */
void mode_get(const struct fs *fs, const dev_t *dev, struct zf_fs_modes *out);

#endif
