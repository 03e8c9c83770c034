/* SPDX-License-Identifier: Apache-2.0 */
/* Every path component is opened with O_NOFOLLOW relative to its parent, so a symbolic link in the destination is never
 * followed, even one created during the export. */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <zf/base/hex.h>
#include <zf/base/name.h>

#include "export.h"

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_CLOEXEC)

/* mkdir -p */
static bool dest_make_dirs(const char *path, struct zf_err *err)
{
    zf_auto(mem) char *copy = strdup(path);

    if (!copy)
        return zf_fail_sys(err, "make the directory");
    for (char *p = copy + 1; *p; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        if (mkdir(copy, 0777) != 0 && errno != EEXIST)
            return zf_fail_sys(err, "make the directory");
        *p = '/';
    }
    return mkdir(copy, 0777) == 0 || errno == EEXIST || zf_fail_sys(err, "make the directory");
}

/* Resolves the longest existing parent of `path`. */
static bool dest_resolve(const char *path, char out[PATH_MAX])
{
    zf_auto(mem) char *copy = strdup(path);

    while (copy && !realpath(copy, out)) {
        char *slash = strrchr(copy, '/');

        if (errno != ENOENT)
            return false;
        if (!slash)
            return realpath(".", out);
        slash[slash == copy] = '\0';
    }
    return copy;
}

static bool dest_refuse_inside(const char *path, const char *ckpt, bool force, struct zf_err *err)
{
    char dest[PATH_MAX], root[PATH_MAX];
    struct stat st;

    if (!ckpt)
        return true;
    if (!dest_resolve(path, dest) || !realpath(ckpt, root) || stat(root, &st) != 0)
        return zf_fail_sys(err, "find the destination");
    bool file = !S_ISDIR(st.st_mode);
    /* A path that does not exist cannot be the source file. */
    if (file && (!force || access(path, F_OK) != 0))
        return true;
    if (file) {
        char *slash = strrchr(root, '/');

        slash[slash == root] = '\0';
    }
    size_t n = strlen(root);
    if (strncmp(dest, root, n) != 0 || (dest[n] != '\0' && (file || (n > 1 && dest[n] != '/'))))
        return true;
    return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                   file ? "with --force, the checkpoint's own directory cannot be the destination"
                        : "the destination lies inside the checkpoint");
}

bool export_dest_open(const char *path, const char *ckpt, bool force, int *fd_out,
                      struct zf_err *err)
{
    if (*path == '\0')
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "the destination has no name");
    bool ok = dest_refuse_inside(path, ckpt, force, err);
    if (ok && (*fd_out = open(path, DIR_FLAGS)) < 0) {
        ok = errno == ENOENT ? dest_make_dirs(path, err) : zf_fail_sys(err, "open the destination");
        ok = ok &&
             ((*fd_out = open(path, DIR_FLAGS)) >= 0 || zf_fail_sys(err, "open the destination"));
    }
    return ok || zf_err_in(err, "%s", path);
}

static int dest_step(int dir, const char *name)
{
    int fd = openat(dir, name, DIR_FLAGS | O_NOFOLLOW);

    if (fd < 0 && errno == ENOENT) {
        if (mkdirat(dir, name, 0777) != 0 && errno != EEXIST)
            return -1;
        fd = openat(dir, name, DIR_FLAGS | O_NOFOLLOW);
    }
    return fd;
}

/* ".NAME.part", or for a name too long for that, a short one with its digest. */
static void dest_part_name(struct export_spot *s)
{
    int n = snprintf(s->part, sizeof s->part, ".%s.part", s->name);

    if (n >= (int)sizeof s->part) {
        uint8_t sum[32];
        char digits[17];

        zf_sha256(s->name, strlen(s->name), sum);
        zf_hex(digits, sum, 8);
        (void)snprintf(s->part, sizeof s->part, ".%.64s~%s.part", s->name, digits);
    }
}

bool export_dest_spot(int root, const char *to, struct export_spot *out, struct zf_err *err)
{
    zf_auto(fd) int dir = fcntl(root, F_DUPFD_CLOEXEC, 3);

    out->dir = -1;
    while (dir >= 0) {
        size_t n = strcspn(to, "/");
        char name[256];

        if (n == 0 || n >= sizeof name || (to[0] == '.' && (n == 1 || (n == 2 && to[1] == '.'))))
            return zf_fail(err, ZF_E_IO, ZF_OFF_NONE, "this is not a valid file name");
        memcpy(name, to, n);
        name[n] = '\0';
        if (to[n] == '\0') {
            memcpy(out->name, name, n + 1);
            dest_part_name(out);
            out->dir = dir;
            dir = -1;
            return true;
        }
        int next = dest_step(dir, name);
        (void)close(dir);
        dir = next;
        if (dir < 0 && (errno == ELOOP || errno == ENOTDIR)) {
            return zf_fail(err, ZF_E_IO, ZF_OFF_NONE,
                           "\"%.100s\" in the destination is not a directory, or a link to one",
                           name);
        }
        to += n + 1;
    }
    return zf_fail_sys(err, "make the directory");
}

int export_dest_file(const struct export_spot *s, const char *name, int flags)
{
    struct stat st;
    /* O_NONBLOCK: opening a FIFO must not block. */
    int fd = openat(s->dir, name, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);

    if (fd >= 0 && (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))) {
        (void)close(fd);
        errno = ELOOP;
        return -1;
    }
    return fd;
}

bool export_dest_publish(const struct export_spot *s, bool force, struct zf_err *err)
{
    if (renameat2(s->dir, s->part, s->dir, s->name, force ? 0 : RENAME_NOREPLACE) == 0)
        return true;
    /* Not every file system supports RENAME_NOREPLACE; link(2) does not replace a file either. */
    if (!force && (errno == EINVAL || errno == ENOSYS) &&
        linkat(s->dir, s->part, s->dir, s->name, 0) == 0)
        return unlinkat(s->dir, s->part, 0) == 0 || zf_fail_sys(err, "remove the partial file");
    return zf_fail_sys(err, "rename the partial file");
}
