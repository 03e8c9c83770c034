/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a path without ever leaving a directory. */
#ifndef SOURCE_BENEATH_H
#define SOURCE_BENEATH_H

#include <stdbool.h>

#include <zf/base/err.h>

/* Opens the relative `path` beneath the directory `dir` ("." = dir itself) with these open(2)
 * flags; O_CLOEXEC and O_NOCTTY are added.  Symbolic links are followed as long as they stay
 * beneath; one that does not gives EXDEV, a loop ELOOP.  Without `xdev` a mount point on the way
 * gives EXDEV too, without a request to that file system.  Returns a descriptor, or -1 with
 * errno.  Source: openat2(2), RESOLVE_BENEATH and RESOLVE_NO_XDEV. */
int beneath_open(int dir, const char *path, int flags, bool xdev);

/* The same without asking the file system: EAGAIN where the kernel would have to (EINVAL before Linux 5.12).
 * Source: openat2(2), RESOLVE_CACHED. */
int beneath_cached(int dir, const char *path, int flags, bool xdev);

/* As beneath_open, but links may lead anywhere, also to other file systems.  Magic links of /proc
 * give ELOOP (RESOLVE_NO_MAGICLINKS). */
int beneath_leave(int dir, const char *path, int flags);

/* Tries on the directory `dir` whether openat2 can be called at all.  Errors: ZF_E_IO with a
 * sentence that names the cause, where the kernel lacks it (ENOSYS) or a seccomp profile older than
 * libseccomp 2.5 refuses it (EPERM); err->sys is that number. */
bool beneath_check(int dir, struct zf_err *err) ZF_CHECKED;

#endif
