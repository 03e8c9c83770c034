/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes whole ranges through a descriptor, and continues after signals and partial reads or writes. */
#ifndef ZF_BASE_FD_H
#define ZF_BASE_FD_H

#include <stdint.h>
#include <sys/types.h>
#include <unistd.h>

#include <zf/base/auto.h>
#include <zf/base/err.h>

/* `zf_auto(fd) int fd = open(...)`; closes nothing when the descriptor is negative. */
static inline void zf_auto_fd(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
}

/* Reads n bytes at off; returns the number of bytes read, fewer than n only at the end of the file, or -1 and errno. */
ssize_t zf_fd_pread(int fd, void *p, size_t n, uint64_t off) ZF_CHECKED;

/* Write all n bytes: at the descriptor's position, or at off.  False: errno says why. */
bool zf_fd_write(int fd, const void *p, size_t n) ZF_CHECKED;
bool zf_fd_pwrite(int fd, const void *p, size_t n, uint64_t off) ZF_CHECKED;

#endif
