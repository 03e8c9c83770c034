/* SPDX-License-Identifier: Apache-2.0 */
#include "settings.h"

#include <errno.h>
#include <fcntl.h>

#include <zf/base/fd.h>

const char *settings_env(const char *name)
{
    const char *v = getenv(name);

    return v && *v ? v : NULL;
}

bool settings_file(const char *path, size_t most, struct zf_out *out, struct zf_err *err)
{
    zf_auto(fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    size_t n = 0;
    ssize_t got = -1;

    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) {
        return true;
    }
    if (fd >= 0) {
        zf_out_fill(out, '\0', most + 1);
        if (!zf_out_ok(out, err)) {
            return false;
        }
        while (n <= most && (got = read(fd, out->p + n, most + 1 - n)) != 0) {
            if (got < 0 && errno != EINTR) {
                break;
            }
            n += got > 0 ? (size_t)got : 0;
        }
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

    while (text[n] > ' ' && text[n] <= '~') {
        n++;
    }
    return n && !text[n];
}
