/* SPDX-License-Identifier: Apache-2.0 */
/* Mounting: /dev/fuse and mount(2), or fusermount3 for users without the right to mount. */
#ifndef ZF_FS_ATTACH_H
#define ZF_FS_ATTACH_H

#include <zf/fs.h>

/* Mounts at o->mountpoint.  *fd_out is the open FUSE device, owned by the caller; closing it disconnects the mount but
 * does not remove it from the mount table.  Errors: ZF_E_IO, with cause and remedy. */
bool fs_attach(const struct zf_fs_opts *o, int *fd_out, struct zf_err *err) ZF_CHECKED;

#endif
