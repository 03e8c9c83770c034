/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/base/path.h>

#include <stdio.h>
#include <string.h>

bool zf_relpath_ok(const char *path)
{
    if (!*path || *path == '/') {
        return false;
    }
    for (const char *p = path;;) {
        size_t n = strcspn(p, "/");
        if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.')) {
            return false;
        }
        if (!p[n]) {
            return true;
        }
        p += n + 1;
    }
}

char *zf_relpath_join(const char *dir, const char *name, struct zf_err *err)
{
    char *path;

    if (asprintf(&path, "%s%s%s", dir, *dir ? "/" : "", name) < 0) {
        (void)zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
        return NULL;
    }
    return path;
}
