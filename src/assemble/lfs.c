/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/assemble/lfs.h>

#include <string.h>

/* A pointer is shorter than this. */
enum { POINTER_MAX = 1024 };

bool zf_lfs_is(struct zf_source *src)
{
    static const char first[] = "version https://git-lfs";
    char head[sizeof first - 1];
    struct zf_err ignored = {.code = ZF_OK};

    return src->size >= sizeof head && src->size < POINTER_MAX &&
           zf_source_pread(src, head, sizeof head, 0, &ignored) &&
           memcmp(head, first, sizeof head) == 0;
}

bool zf_lfs_fail(struct zf_err *err)
{
    return zf_fail(
        err, ZF_E_FORMAT, ZF_OFF_NONE,
        "only Git LFS's pointer is here, not the file itself: fetch it with git lfs pull");
}

const char *zf_lfs_find(struct zf_store *st, const char *only)
{
    struct zf_err ignored = {.code = ZF_OK};
    const struct zf_entry *e;
    size_t n;

    if (!zf_store_list(st, "", &e, &n, &ignored)) {
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        if (e[i].kind != ZF_ENTRY_FILE || e[i].size >= POINTER_MAX ||
            (only && strcmp(only, e[i].name) != 0)) {
            continue;
        }
        zf_auto(source) struct zf_source *src = zf_store_open(st, e[i].name, &ignored);
        if (src && zf_lfs_is(src)) {
            return e[i].name;
        }
    }
    return NULL;
}
