/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/assemble/absent.h>

#include <stdio.h>

const char *zf_absent(struct zf_store *st, const char *path, char *out)
{
    const char *what = zf_store_what(st, path);

    if (!what) {
        (void)snprintf(out, ZF_ABSENT_MAX, "is missing");
    } else {
        (void)snprintf(out, ZF_ABSENT_MAX, "is %s, not a file", what);
    }
    return out;
}
