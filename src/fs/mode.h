/* SPDX-License-Identifier: Apache-2.0 */
/* By which way contents are read, and how far the kernel reads ahead. */
#ifndef ZF_FS_MODE_H
#define ZF_FS_MODE_H

#include "session.h"

/* Lets a file that goes past the page cache be mapped with MAP_SHARED too (Linux 6.6, libfuse 3.17). */
#ifdef FUSE_CAP_DIRECT_IO_ALLOW_MMAP
#define MODE_SHARED_MAPS FUSE_CAP_DIRECT_IO_ALLOW_MMAP
#else
#define MODE_SHARED_MAPS 0
#endif

/* At INIT, when it is known what the kernel grants. */
void mode_choose(struct fs *fs, const struct fuse_conn_info *conn);

/* Is this file, when it is opened now, read past the page cache? */
bool mode_direct(const struct fs *fs, const struct zf_stat *s);

/* Are libfuse and this kernel of versions that speak over io_uring?  A libfuse may be built
 * without it nevertheless. */
bool mode_has_io_uring(void);

/* Notes by which way a request came; one is enough, since all come by the same. */
void mode_note_request(struct fs *fs, fuse_req_t req);

/* The kernel's own buffer for the reply to a request that came over io_uring, of n bytes at least:
 * what is put there needs no copy.  It is the request's until that is answered.  NULL where there is
 * none. */
void *mode_ring_buffer(const struct fs *fs, fuse_req_t req, size_t n);

/* When the mount answers: raises the read-ahead of its device, NULL where it is not known, and reports
 * both. */
void mode_get(const struct fs *fs, const dev_t *dev, struct zf_fs_modes *out);

#endif
