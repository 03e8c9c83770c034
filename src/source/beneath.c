/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#ifndef STATX_TYPE
#include <linux/stat.h>
#endif
#ifdef HAVE_LINUX_OPENAT2_H
#include <asm/unistd.h> /* glibc 2.31 has no SYS_openat2 */
#include <linux/openat2.h>
#endif

#define MAX_LINKS 40 /* as the kernel */
#define MAX_DEPTH 128

/* openat2 refuses O_NOCTTY beside O_PATH, which opens nothing anyway. */
static int beneath_always(int flags)
{
    return flags | O_CLOEXEC | (flags & O_PATH ? 0 : O_NOCTTY);
}

/* Directories entered so far, so that ".." is a pop and can never climb over the first. */
struct beneath_walk {
    int fd[MAX_DEPTH]; /* fd[0] is the caller's */
    int n;
    int links;
    bool xdev;
    uint32_t major, minor;   /* of fd[0] */
    char rest[2 * PATH_MAX]; /* what is still to be walked */
};

static int beneath_refuse(int why)
{
    errno = why;
    return -1;
}

static void beneath_leave_all(struct beneath_walk *w)
{
    int keep = errno;

    while (w->n > 1) {
        (void)close(w->fd[--w->n]);
    }
    errno = keep;
}

static int beneath_push(struct beneath_walk *w, int fd)
{
    if (w->n == MAX_DEPTH) {
        (void)close(fd);
        return beneath_refuse(ENAMETOOLONG);
    }
    w->fd[w->n++] = fd;
    return 0;
}

/* Puts the text of the link `name` in front of what is left to walk. */
static int beneath_follow(struct beneath_walk *w, const char *name)
{
    char text[PATH_MAX];
    ssize_t n = readlinkat(w->fd[w->n - 1], name, text, sizeof text);

    if (n < 0) {
        return -1;
    }
    size_t len = (size_t)n, rest = strlen(w->rest);
    if (++w->links > MAX_LINKS) {
        return beneath_refuse(ELOOP);
    }
    if (len == 0 || text[0] == '/') {
        return beneath_refuse(EXDEV);
    }
    if (len + 1 + rest + 1 > sizeof w->rest || len == sizeof text) {
        return beneath_refuse(ENAMETOOLONG);
    }
    memmove(w->rest + len + 1, w->rest, rest + 1);
    memcpy(w->rest, text, len);
    w->rest[len] = '/';
    return 0;
}

/* Cuts the next component off w->rest; false when nothing is left. */
static bool beneath_next(struct beneath_walk *w, char name[NAME_MAX + 1], bool *too_long)
{
    size_t skip = strspn(w->rest, "/"), len = strcspn(w->rest + skip, "/");

    *too_long = len > NAME_MAX;
    if (len == 0 || *too_long) {
        return false;
    }
    memcpy(name, w->rest + skip, len);
    name[len] = '\0';
    memmove(w->rest, w->rest + skip + len, strlen(w->rest + skip + len) + 1);
    return true;
}

static bool beneath_is_last(const struct beneath_walk *w)
{
    return w->rest[strspn(w->rest, "/")] == '\0';
}

/* Kind and device of the file behind an O_PATH descriptor, as far as the kernel knows it by itself:
 * asking who serves a file system could be asking ourselves, or somebody who never answers. */
static bool beneath_peek(int fd, struct statx *out)
{
    const int how = AT_EMPTY_PATH | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC;

    return syscall(SYS_statx, fd, "", how, STATX_TYPE, out) == 0;
}

/* Device numbers of directories only: those of files may differ within an overlay. */
static bool beneath_foreign(const struct beneath_walk *w, const struct statx *st)
{
    return !w->xdev && S_ISDIR(st->stx_mode) &&
           (st->stx_dev_major != w->major || st->stx_dev_minor != w->minor);
}

/* One step that is neither "." nor "..".  Gives the final descriptor when this was the last one, -1
 * on failure, -2 to go on. */
static int beneath_step(struct beneath_walk *w, const char *name, int flags)
{
    struct statx st;
    int at = w->fd[w->n - 1];
    int fd = openat(at, name, beneath_always(O_PATH | O_NOFOLLOW));

    if (fd < 0) {
        return -1;
    }
    int why = !beneath_peek(fd, &st) ? errno : beneath_foreign(w, &st) ? EXDEV : 0;
    bool last = beneath_is_last(w), link = !why && S_ISLNK(st.stx_mode);
    if (!why && !link && !last && S_ISDIR(st.stx_mode)) {
        return beneath_push(w, fd) == 0 ? -2 : -1;
    }
    (void)close(fd);
    if (why || (!link && !last)) {
        return beneath_refuse(why ? why : ENOTDIR);
    }
    if (link && !(last && (flags & O_NOFOLLOW))) {
        return beneath_follow(w, name) == 0 ? -2 : -1;
    }
    return openat(at, name, beneath_always(flags | O_NOFOLLOW));
}

static int beneath_walk_path(struct beneath_walk *w, int flags)
{
    char name[NAME_MAX + 1];
    bool too_long;

    while (beneath_next(w, name, &too_long)) {
        if (strcmp(name, ".") == 0) {
            continue;
        }
        if (strcmp(name, "..") == 0) {
            if (w->n == 1) {
                return beneath_refuse(EXDEV);
            }
            (void)close(w->fd[--w->n]);
            continue;
        }
        int fd = beneath_step(w, name, flags);
        if (fd != -2) {
            return fd;
        }
    }
    return too_long ? beneath_refuse(ENAMETOOLONG)
                    : openat(w->fd[w->n - 1], ".", beneath_always(flags | O_NOFOLLOW));
}

int beneath_walk(int dir, const char *path, int flags, bool xdev)
{
    struct statx st;
    size_t len = strlen(path);

    if (path[0] == '/' || len == 0) {
        return beneath_refuse(len ? EXDEV : ENOENT);
    }
    if (len >= PATH_MAX) {
        return beneath_refuse(ENAMETOOLONG);
    }
    struct beneath_walk *w = beneath_peek(dir, &st) ? malloc(sizeof *w) : NULL;
    if (!w) {
        return -1;
    }
    w->xdev = xdev;
    w->major = st.stx_dev_major;
    w->minor = st.stx_dev_minor;
    w->fd[0] = dir;
    w->n = 1;
    w->links = 0;
    memcpy(w->rest, path, len + 1);
    int fd = beneath_walk_path(w, flags);
    beneath_leave_all(w);
    free(w);
    return fd;
}

#ifdef HAVE_LINUX_OPENAT2_H
/* EPERM is what older container profiles answer to calls they do not know. */
static bool beneath_unknown_call(void)
{
    return errno == ENOSYS || errno == EPERM;
}

int beneath_open(int dir, const char *path, int flags, bool xdev)
{
    struct open_how how = {
        .flags = (unsigned)beneath_always(flags),
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | (xdev ? 0 : RESOLVE_NO_XDEV),
    };
    long fd;

    /* EAGAIN: something was renamed during the walk, the kernel could not prove "beneath". */
    for (int tries = 0; tries < 100; tries++) {
        fd = syscall(__NR_openat2, dir, path, &how, sizeof how);
        if (fd >= 0 || (errno != EINTR && errno != EAGAIN)) {
            break;
        }
    }
    return fd < 0 && beneath_unknown_call() ? beneath_walk(dir, path, flags, xdev) : (int)fd;
}
#else
/* Kernel headers before 5.6. */
int beneath_open(int dir, const char *path, int flags, bool xdev)
{
    return beneath_walk(dir, path, flags, xdev);
}
#endif
