/* SPDX-License-Identifier: Apache-2.0 */
/* Requests for extended attributes. */
#ifndef ZF_FS_XATTRS_H
#define ZF_FS_XATTRS_H

#include "session.h"

void xattrs_get(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size);
void xattrs_list(fuse_req_t req, fuse_ino_t ino, size_t size);

#endif
