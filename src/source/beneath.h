/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a path without ever leaving a directory. */
#ifndef SOURCE_BENEATH_H
#define SOURCE_BENEATH_H

/* Opens the relative `path` beneath the directory `dir` ("." = dir itself) with these open(2)
 * flags; O_CLOEXEC and O_NOCTTY are added.  Symbolic links are followed as long as they stay
 * beneath; one that does not gives EXDEV, a loop ELOOP.  Gives a descriptor, or -1 with errno.
 * Source: openat2(2), RESOLVE_BENEATH. */
int zf_beneath_open(int dir, const char *path, int flags);

/* The same without openat2 (kernels before 5.6, strict seccomp profiles): one component at
 * a time. */
int zf_beneath_walk(int dir, const char *path, int flags);

#endif
