/* SPDX-License-Identifier: Apache-2.0 */
/* To be preloaded: every call that asks a file system something takes LATENCY_US microseconds more, as on a
 * network.  What glibc does by itself (loading libraries) does not come by here. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "../support/next.h"

static void wait_a_little(void)
{
    static long us = -1;
    const char *text = us < 0 ? getenv("LATENCY_US") : NULL;

    us = us < 0 ? (text ? atol(text) : 0) : us;
    if (us > 0) {
        const struct timespec t = {us / 1000000, us % 1000000 * 1000};

        (void)nanosleep(&t, NULL);
    }
}

ssize_t pread(int fd, void *p, size_t n, off_t off)
{
    wait_a_little();
    return NEXT(pread)(fd, p, n, off);
}

ssize_t preadv(int fd, const struct iovec *v, int n, off_t off)
{
    wait_a_little();
    return NEXT(preadv)(fd, v, n, off);
}

int fstatat(int fd, const char *path, struct stat *st, int flags)
{
    wait_a_little();
    return NEXT(fstatat)(fd, path, st, flags);
}

long syscall(long number, ...)
{
    va_list ap;

    va_start(ap, number);
    const struct next_args args = next_args(ap);
    const long *a = args.a;
    va_end(ap);
    if (number == SYS_openat2)
        wait_a_little();
    return NEXT(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
