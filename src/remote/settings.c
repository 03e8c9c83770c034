/* SPDX-License-Identifier: Apache-2.0 */
#include "settings.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>

#include <zf/base/fd.h>

/* Milliseconds to wait for data from a pipe (a shell passes one as /dev/fd/N, and its writer may be slow). */
#define PIPE_MS 10000

const char *settings_env(const char *name)
{
    const char *v = getenv(name);

    return v && *v ? v : NULL;
}

static ssize_t settings_read(int fd, char *p, size_t n)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    ssize_t got;

    while ((got = read(fd, p, n)) < 0 && (errno == EINTR || errno == EAGAIN)) {
        if (errno == EAGAIN && poll(&ready, 1, PIPE_MS) == 0) {
            errno = ETIMEDOUT;
            break;
        }
    }
    return got;
}

bool settings_file(const char *path, size_t most, struct zf_out *out, struct zf_err *err)
{
    zf_auto(fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    size_t n = 0;
    ssize_t got = -1;

    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return true;
    if (fd >= 0) {
        zf_out_fill(out, '\0', most + 1);
        if (!zf_out_ok(out, err))
            return false;
        while (n <= most && (got = settings_read(fd, out->p + n, most + 1 - n)) > 0)
            n += (size_t)got;
        zf_out_cut(out, n);
    }
    if (got < 0) {
        (void)zf_fail_sys(err, "read it");
        return zf_err_in(err, "%s", path);
    }
    return n <= most ||
           zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "%s has more than %zu bytes", path, most);
}

bool settings_is_word(const char *text)
{
    size_t n = 0;

    while (text[n] > ' ' && text[n] <= '~')
        n++;
    return n && !text[n];
}
