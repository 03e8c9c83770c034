/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/base/fd.h>

#include <errno.h>

ssize_t zf_fd_pread(int fd, void *p, size_t n, uint64_t off)
{
    size_t done = 0;

    while (done < n) {
        ssize_t k = pread(fd, (char *)p + done, n - done, (off_t)(off + done));

        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return k < 0 ? k : (ssize_t)done;
        done += (size_t)k;
    }
    return (ssize_t)done;
}

/* Advances past the bytes written.  False: the write failed with errno. */
static bool fd_wrote(ssize_t k, const char **p, size_t *n)
{
    if (k < 0)
        return errno == EINTR;
    *p += k;
    *n -= (size_t)k;
    return true;
}

bool zf_fd_write(int fd, const void *p, size_t n)
{
    const char *from = p;

    while (n > 0)
        if (!fd_wrote(write(fd, from, n), &from, &n))
            return false;
    return true;
}

bool zf_fd_pwrite(int fd, const void *p, size_t n, uint64_t off)
{
    const char *from = p;
    const uint64_t end = off + n;

    while (n > 0)
        if (!fd_wrote(pwrite(fd, from, n, (off_t)(end - n)), &from, &n))
            return false;
    return true;
}
