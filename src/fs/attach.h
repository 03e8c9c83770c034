/* SPDX-License-Identifier: Apache-2.0 */
/* Mounting: /dev/fuse and mount(2), or fusermount3 for who may not do that. */
#ifndef ZF_FS_ATTACH_H
#define ZF_FS_ATTACH_H

#include <zf/fs.h>

/* Mounts at o->mountpoint; *fd_out is the open device, the caller's.  Closing it ends the mount's
 * life, not its row in the mount table.  Errors: ZF_E_IO, with the cause and what helps. */
bool fs_attach(const struct zf_fs_opts *o, int *fd_out, struct zf_err *err) ZF_CHECKED;

#endif
