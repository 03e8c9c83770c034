/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a path without ever leaving a directory. */
#ifndef SOURCE_BENEATH_H
#define SOURCE_BENEATH_H

#include <stdbool.h>

/* Opens the relative `path` beneath the directory `dir` ("." = dir itself) with these open(2)
 * flags; O_CLOEXEC and O_NOCTTY are added.  Symbolic links are followed as long as they stay
 * beneath; one that does not gives EXDEV, a loop ELOOP.  Without `xdev` a mount point on the way
 * gives EXDEV too, and nobody who serves it is asked anything.  Gives a descriptor, or -1 with
 * errno.  Source: openat2(2), RESOLVE_BENEATH and RESOLVE_NO_XDEV. */
int beneath_open(int dir, const char *path, int flags, bool xdev);

/* The same without openat2 (kernels before 5.6, strict seccomp profiles): one component at a time.
 * Another file system is known by the device number of its directories: one that is mounted a
 * second time elsewhere is not noticed, nor is one that is mounted on a regular file. */
int beneath_walk(int dir, const char *path, int flags, bool xdev);

#endif
