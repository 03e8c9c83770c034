/* SPDX-License-Identifier: Apache-2.0 */
#include "beneath.h"

#include <asm/unistd.h> /* glibc 2.31 has no SYS_openat2 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <unistd.h>

#ifndef RESOLVE_CACHED
#define RESOLVE_CACHED 0x20 /* Linux 5.12 */
#endif

static int beneath_resolve(int dir, const char *path, int flags, uint64_t resolve)
{
    /* openat2 refuses O_NOCTTY together with O_PATH, which does not open the device anyway. */
    struct open_how how = {
        .flags = (unsigned)(flags | O_CLOEXEC | (flags & O_PATH ? 0 : O_NOCTTY)),
        .resolve = resolve | RESOLVE_NO_MAGICLINKS,
    };
    long fd = -1;

    /* EAGAIN: a rename during the path walk kept the kernel from proving "beneath". */
    for (int tries = 0; tries < 100; tries++) {
        fd = syscall(__NR_openat2, dir, path, &how, sizeof how);
        if (fd >= 0 || (errno != EINTR && errno != EAGAIN) || (resolve & RESOLVE_CACHED))
            break;
    }
    return (int)fd;
}

int beneath_open(int dir, const char *path, int flags, bool xdev)
{
    return beneath_resolve(dir, path, flags, RESOLVE_BENEATH | (xdev ? 0 : RESOLVE_NO_XDEV));
}

int beneath_cached(int dir, const char *path, int flags, bool xdev)
{
    return beneath_resolve(dir, path, flags,
                           RESOLVE_CACHED | RESOLVE_BENEATH | (xdev ? 0 : RESOLVE_NO_XDEV));
}

int beneath_leave(int dir, const char *path, int flags)
{
    return beneath_resolve(dir, path, flags, 0);
}

bool beneath_check(int dir, struct zf_err *err)
{
    int fd = beneath_open(dir, ".", O_PATH, true);

    if (fd >= 0) {
        (void)close(fd);
        return true;
    }
    if (errno != ENOSYS && errno != EPERM)
        return zf_fail_sys(err, "open the directory");
    (void)zf_fail(err, ZF_E_IO, ZF_OFF_NONE,
                  "the system call openat2 is refused (%s): zerofs needs Linux 5.10 and, in a "
                  "container, a seccomp profile that allows openat2",
                  errno == ENOSYS ? "ENOSYS" : "EPERM");
    err->sys = errno;
    return false;
}
