/* SPDX-License-Identifier: Apache-2.0 */
/* A file system of libfuse that shows the directory `dir` as it is: what those of the tests share that are
 * slow or hang. */
#ifndef TESTS_MOUNT_SHOWN_H
#define TESTS_MOUNT_SHOWN_H
#define FUSE_USE_VERSION 31
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int dir;

static const char *below(const char *path)
{
    return path[1] ? path + 1 : ".";
}

static int op_getattr(const char *path, struct stat *st, struct fuse_file_info *fi)
{
    (void)fi;
    return fstatat(dir, below(path), st, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : -errno;
}

static int op_readlink(const char *path, char *buf, size_t n)
{
    ssize_t got = readlinkat(dir, below(path), buf, n - 1);

    if (got < 0)
        return -errno;
    buf[got] = '\0';
    return 0;
}

/* NULL, or: what is not listed. */
static bool (*hides)(const char *name);

static int op_readdir(const char *path, void *buf, fuse_fill_dir_t fill, off_t off,
                      struct fuse_file_info *fi, enum fuse_readdir_flags flags)
{
    int fd = openat(dir, below(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;

    (void)off, (void)fi, (void)flags;
    if (!d)
        return -errno;
    for (struct dirent *e; (e = readdir(d));)
        if (!hides || !hides(e->d_name))
            (void)fill(buf, e->d_name, NULL, 0, 0);
    (void)closedir(d);
    return 0;
}

static int op_open(const char *path, struct fuse_file_info *fi)
{
    int fd = openat(dir, below(path), O_RDONLY | O_CLOEXEC);

    fi->fh = (uint64_t)fd;
    return fd < 0 ? -errno : 0;
}

/* As long as `mark` is there, below `at`. */
static inline void wait_while(int at, const char *mark)
{
    const struct timespec ms = {.tv_nsec = 2000000};

    while (faccessat(at, mark, F_OK, 0) == 0)
        (void)nanosleep(&ms, NULL);
}

static int op_release(const char *path, struct fuse_file_info *fi)
{
    (void)path;
    (void)close((int)fi->fh);
    return 0;
}

#define SHOWN_OPS                                                                                  \
    .getattr = op_getattr, .readlink = op_readlink, .readdir = op_readdir, .release = op_release

#endif
