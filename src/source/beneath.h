/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a path without ever leaving a directory. */
#ifndef SOURCE_BENEATH_H
#define SOURCE_BENEATH_H

#include <stdbool.h>

#include <zf/base/err.h>

/* Opens the relative `path` beneath the directory `dir` ("." = dir itself) with these open(2)
 * flags; O_CLOEXEC and O_NOCTTY are added.  Symbolic links are followed as long as they stay
 * beneath; one that does not gives EXDEV, a loop ELOOP.  Without `xdev` a mount point on the way
 * gives EXDEV too, and nobody who serves it is asked anything.  Gives a descriptor, or -1 with
 * errno.  Source: openat2(2), RESOLVE_BENEATH and RESOLVE_NO_XDEV. */
int beneath_open(int dir, const char *path, int flags, bool xdev);

/* The same without asking the file system: EAGAIN where the kernel would have to (EINVAL before Linux 5.12).
 * Source: openat2(2), RESOLVE_CACHED. */
int beneath_cached(int dir, const char *path, int flags, bool xdev);

/* As beneath_open, but links may lead anywhere, also to other file systems; those of /proc that are no
 * paths give ELOOP (RESOLVE_NO_MAGICLINKS). */
int beneath_leave(int dir, const char *path, int flags);

/* Whether openat2 may be called at all, tried on the directory `dir`.  Errors: ZF_E_IO with a
 * sentence that names the cause, where the kernel lacks it (ENOSYS) or a seccomp profile of before
 * libseccomp 2.5 refuses it (EPERM); err->sys is that number. */
bool beneath_check(int dir, struct zf_err *err) ZF_CHECKED;

#endif
