/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/base/path.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zf/base/auto.h>

bool zf_relpath_ok(const char *path)
{
    if (!*path || *path == '/')
        return false;
    for (const char *p = path;;) {
        size_t n = strcspn(p, "/");
        if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
            return false;
        if (!p[n])
            return true;
        p += n + 1;
    }
}

char *zf_relpath_join(const char *dir, const char *name, struct zf_err *err)
{
    char *path;

    if (asprintf(&path, "%s%s%s", dir, *dir ? "/" : "", name) < 0)
        return zf_null(zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory"));
    return path;
}

bool zf_path_absolute(char **path, struct zf_err *err)
{
    zf_auto(mem) char *here = **path == '/' ? NULL : getcwd(NULL, 0);
    char *out = NULL;

    if (**path == '/')
        return true;
    if (!here || asprintf(&out, "%s/%s", here, *path) < 0)
        return zf_fail_sys(err, "find out the working directory");
    free(*path);
    *path = out;
    return true;
}
