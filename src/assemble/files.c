/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/assemble/files.h>

#include <stdio.h>
#include <string.h>

const char *zf_absent(struct zf_store *st, const char *path, char *out)
{
    const struct zf_entry *e = zf_store_find(st, path);

    if (!e) {
        (void)snprintf(out, ZF_ABSENT_MAX, "is missing");
    } else {
        (void)snprintf(out, ZF_ABSENT_MAX, "is %s, not a file", e->what);
    }
    return out;
}

/* Reads one to five digits; *p moves behind them.  0 = there are none, or more. */
static size_t files_series_digits(const char **p, unsigned long *out)
{
    size_t n = strspn(*p, "0123456789");

    *out = strtoul(*p, NULL, 10);
    *p += n;
    return n <= 5 ? n : 0;
}

bool zf_series_parse(const char *name, struct zf_series *out)
{
    const char *of = strstr(name, "-of-"), *at = of;

    while (at && at > name && at[-1] >= '0' && at[-1] <= '9') {
        at--;
    }
    if (!at || at <= name + 1 || at[-1] != '-') {
        return false;
    }
    out->stem = (size_t)(at - 1 - name);
    size_t wide = files_series_digits(&at, &out->number);

    at = of + 4;
    size_t wide_of = files_series_digits(&at, &out->of);

    out->padded = wide == 5 && wide_of == 5;
    out->tail = at;
    return wide && wide_of && *at == '.';
}

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
    struct zf_err ignored;

    for (struct zf_entries l = zf_store_entries(st, ""); l.e < l.end; l.e++) {
        if (l.e->kind != ZF_ENTRY_FILE || l.e->id.size >= POINTER_MAX ||
            (only && strcmp(only, l.e->name) != 0)) {
            continue;
        }
        zf_auto(source) struct zf_source *src = zf_store_open(st, l.e->name, &ignored);
        if (src && zf_lfs_is(src)) {
            return l.e->name;
        }
    }
    return NULL;
}
