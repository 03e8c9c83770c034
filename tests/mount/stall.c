/* SPDX-License-Identifier: Apache-2.0 */
/* stall DIR CONTROL MOUNTPOINT [libfuse's options]: shows DIR read-only, and holds answers back as
 * storage does that hangs.  As long as CONTROL/open.NAME exists, opening a file called NAME takes no
 * end; with CONTROL/read.NAME, reading it.  CONTROL/blocked says how many requests wait just now, and
 * CONTROL/waits.open.NAME is there when one of these does. */
#define FUSE_USE_VERSION 31
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int dir, control;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int blocked;

static void count(int step)
{
    char text[16];

    (void)pthread_mutex_lock(&lock);
    blocked += step;
    int n = snprintf(text, sizeof text, "%8d\n", blocked);
    int fd = openat(control, "blocked", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd >= 0 && pwrite(fd, text, (size_t)n, 0) != n) {
        perror("stall");
    }
    (void)close(fd);
    (void)pthread_mutex_unlock(&lock);
}

static void hold(const char *what, const char *path)
{
    const struct timespec ms = {.tv_nsec = 2000000};
    char mark[300], *name = mark + sizeof "waits." - 1;

    (void)snprintf(mark, sizeof mark, "waits.%s.%s", what, strrchr(path, '/') + 1);
    if (faccessat(control, name, F_OK, 0) != 0) {
        return;
    }
    count(1);
    int fd = openat(control, mark, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    (void)close(fd);
    while (faccessat(control, name, F_OK, 0) == 0) {
        (void)nanosleep(&ms, NULL);
    }
    (void)unlinkat(control, mark, 0);
    count(-1);
}

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

    if (got < 0) {
        return -errno;
    }
    buf[got] = '\0';
    return 0;
}

static int op_readdir(const char *path, void *buf, fuse_fill_dir_t fill, off_t off,
                      struct fuse_file_info *fi, enum fuse_readdir_flags flags)
{
    int fd = openat(dir, below(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;

    (void)off, (void)fi, (void)flags;
    if (!d) {
        return -errno;
    }
    for (struct dirent *e; (e = readdir(d));) {
        (void)fill(buf, e->d_name, NULL, 0, 0);
    }
    (void)closedir(d);
    return 0;
}

static int op_open(const char *path, struct fuse_file_info *fi)
{
    hold("open", path);
    int fd = openat(dir, below(path), O_RDONLY | O_CLOEXEC);

    if (fd < 0) {
        return -errno;
    }
    fi->fh = (uint64_t)fd;
    fi->direct_io = 1;
    return 0;
}

static int op_read(const char *path, char *buf, size_t n, off_t off, struct fuse_file_info *fi)
{
    hold("read", path);
    ssize_t got = pread((int)fi->fh, buf, n, off);

    return got < 0 ? -errno : (int)got;
}

static int op_release(const char *path, struct fuse_file_info *fi)
{
    (void)path;
    (void)close((int)fi->fh);
    return 0;
}

static void *op_init(struct fuse_conn_info *conn, struct fuse_config *cfg)
{
    (void)conn;
    cfg->attr_timeout = cfg->entry_timeout = 0;
    cfg->use_ino = 1;
    return NULL;
}

int main(int argc, char **argv)
{
    static const struct fuse_operations ops = {
        .init = op_init,
        .getattr = op_getattr,
        .readlink = op_readlink,
        .readdir = op_readdir,
        .open = op_open,
        .read = op_read,
        .release = op_release,
    };

    if (argc < 4) {
        (void)fprintf(stderr, "usage: stall DIR CONTROL MOUNTPOINT [OPTIONS]\n");
        return 2;
    }
    dir = open(argv[1], O_PATH | O_DIRECTORY | O_CLOEXEC);
    control = open(argv[2], O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0 || control < 0) {
        perror("stall");
        return 2;
    }
    argv[2] = argv[0];
    return fuse_main(argc - 2, argv + 2, &ops, NULL);
}
