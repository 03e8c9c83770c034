/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/base/path.h>

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
