/* SPDX-License-Identifier: Apache-2.0 */
/* Mounts are looked up in /proc/self/mountinfo (proc(5)) and not accessed, because they may be dead or hang.
 * Only a mount that the user gave is asked which save it shows. */
#include "where.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include <zf/base/auto.h>
#include <zf/mountpoint.h>
#include <zf/remote.h>

/* A row of mountinfo to look for, and its strings; malloc'ed. */
struct where_mount {
    uint64_t id;       /* mount ID; 0: any zerofs mount below `below` */
    const char *below; /* resolved path */
    char *point, *source;
};

static void zf_auto_where_mount(struct where_mount *m)
{
    free(m->point);
    free(m->source);
}

static bool where_is_below(const char *point, const char *dir)
{
    size_t n = strlen(dir);

    n -= n == 1; /* "/" */
    return strncmp(point, dir, n) == 0 && point[n] == '/' && point[n + 1];
}

static bool where_look(void *ctx, const struct zf_mount_row *row)
{
    struct where_mount *m = ctx;

    if (m->id
            ? row->mount.id == m->id
            : strcmp(row->mount.type, "fuse.zerofs") == 0 && where_is_below(row->point, m->below)) {
        m->point = strdup(row->point);
        m->source = strdup(row->source);
    }
    return !m->point;
}

static bool where_find(struct where_mount *m)
{
    zf_mount_each(where_look, m);
    return m->point && m->source;
}

/* Writes "/data/run7/global_step1000": the source and, if the mount reports it, the save. */
static void where_shows(const struct where_mount *m, const char *asked, char *out, size_t n)
{
    char tag[200];
    ssize_t len = asked ? getxattr(asked, "user.zerofs.tag", tag, sizeof tag) : -1;

    (void)snprintf(out, n, "%.100s%s%.*s", m->source, len > 0 ? "/" : "", len > 0 ? (int)len : 0,
                   tag);
}

static bool where_is_zerofs(const struct zf_mount *at, const char *path)
{
    return strcmp(at->type, "fuse.zerofs") == 0 ||
           (at->fuse && getxattr(path, "user.zerofs.format", NULL, 0) >= 0);
}

bool where_is_remote(const char *path)
{
    struct stat st;

    return zf_remote_knows(path, NULL) && stat(path, &st) != 0;
}

bool where_check(const char *path, struct zf_err *err)
{
    char shows[320];
    struct stat st;

    bool address, known = zf_remote_knows(path, &address);

    if (address && stat(path, &st) != 0) {
        return known || (zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                                 "zerofs reads local paths and URLs of http, https, s3, r2, weka, "
                                 "gs, hf and file. Mount or download this first"),
                         zf_err_in(err, "%s", path));
    }
    zf_auto(mem) char *real = realpath(path, NULL);
    struct zf_mount at;
    /* A path that cannot be read is refused later, when it is opened, with the reason. */
    if (!real || stat(real, &st) != 0 || !S_ISDIR(st.st_mode) || !zf_mount_at(real, &at) ||
        !where_is_zerofs(&at, real))
        return true;
    zf_auto(where_mount) struct where_mount m = {.id = at.id};
    if (!where_find(&m))
        return true;
    where_shows(&m, real, shows, sizeof shows);
    if (at.here) {
        return zf_fail(err, ZF_E_UNKNOWN, ZF_OFF_NONE,
                       "%.100s is a zerofs mount of %s; point at the checkpoint itself", path,
                       shows);
    }
    return zf_fail(err, ZF_E_UNKNOWN, ZF_OFF_NONE,
                   "%.100s is in a zerofs mount of %s; point at the checkpoint itself", path,
                   shows);
}

void where_below(const char *path, struct zf_err *err)
{
    zf_auto(mem) char *real = realpath(path, NULL);
    zf_auto(where_mount) struct where_mount m = {.below = real};
    char shows[200];

    if (!real || !where_find(&m))
        return;
    where_shows(&m, NULL, shows, sizeof shows);
    /* Replaces a hint that something on another file system was ignored: that is this mount. */
    zf_err_hint(err, "%.80s is a mount of zerofs and shows %s", m.point, shows);
}
