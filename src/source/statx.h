/* SPDX-License-Identifier: Apache-2.0 */
/* statx(2), also where the C library does not know it: musl before 1.2.5. */
#ifndef SOURCE_STATX_H
#define SOURCE_STATX_H

#include <sys/stat.h>

#ifndef STATX_BASIC_STATS
#include <linux/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline int statx(int dir, const char *path, int flags, unsigned mask, struct statx *out)
{
    return (int)syscall(SYS_statx, dir, path, flags, mask, out);
}
#endif

#ifndef AT_STATX_FORCE_SYNC
#define AT_STATX_FORCE_SYNC 0x2000
#define AT_STATX_DONT_SYNC 0x4000
#endif

#endif
