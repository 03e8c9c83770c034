/* SPDX-License-Identifier: Apache-2.0 */
/* zerofs umount: unmounts a FUSE mount, even if its process is dead; refuses other kinds of mounts. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>

#include <zf/mountpoint.h>

#include "options.h"

/* True for any FUSE mount.  Whether it is one of zerofs cannot be known: its type depends on -o subtype=,
 * and a dead mount does not answer. */
static bool umount_is_fuse(const char *mnt)
{
    struct zf_mount m;

    return zf_mount_on(mnt, &m) && m.fuse;
}

/* Resolves the parent directory but not the last component, because resolving that could hang or fail on
 * a dead mount. */
static char *umount_resolve(const char *path)
{
    char *copy = strdup(path);
    size_t n = copy ? strlen(copy) : 0;

    while (n > 1 && copy[n - 1] == '/')
        copy[--n] = '\0';
    char *slash = copy ? strrchr(copy, '/') : NULL;
    const char *leaf = slash ? slash + 1 : copy;
    if (!copy || strcmp(leaf, "") == 0 || strcmp(leaf, ".") == 0 || strcmp(leaf, "..") == 0) {
        free(copy);
        return realpath(path, NULL);
    }
    char *parent = NULL, *out = NULL;
    if (slash) {
        *slash = '\0';
        parent = realpath(slash == copy ? "/" : copy, NULL);
    } else {
        parent = realpath(".", NULL);
    }
    if (parent && asprintf(&out, "%s/%s", strcmp(parent, "/") == 0 ? "" : parent, leaf) < 0)
        out = NULL;
    free(parent);
    free(copy);
    return out;
}

/* Finds the mount point; also through a symbolic link to it, as long as the mount responds. */
static char *umount_find_mount(const char *path)
{
    char *mnt = umount_resolve(path),
         *real = mnt && !umount_is_fuse(mnt) ? realpath(mnt, NULL) : NULL;

    if (real) {
        free(mnt);
        return real;
    }
    return mnt;
}

static bool umount_unmount(const char *mnt, bool lazy, struct zf_err *err)
{
    if (!umount_is_fuse(mnt))
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "no FUSE file system is mounted here");
    if (umount2(mnt, (lazy ? MNT_DETACH : 0) | UMOUNT_NOFOLLOW) == 0)
        return true;
    if (errno == EPERM)
        return zf_mount_fusermount(mnt, lazy, err);
    return zf_fail_sys(err, errno == EBUSY ? "unmount it (files are open; -z detaches it now)"
                                           : "unmount it");
}

int cmd_umount(const struct opts *o, int n, char **word)
{
    int code = EXIT_OK;

    for (int i = 0; i < n; i++) {
        struct zf_err err;
        zf_auto(mem) char *mnt = umount_find_mount(word[i]);

        if (!(mnt ? umount_unmount(mnt, o->lazy, &err) : zf_fail_sys(&err, "resolve it"))) {
            (void)zf_err_in(&err, "%s", word[i]);
            code = cmd_fail(&err);
        }
    }
    return code;
}
