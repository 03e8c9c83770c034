/* SPDX-License-Identifier: Apache-2.0 */
/* slow DIR COUNTS MOUNTPOINT LATENCY_US BYTES_PER_SECOND [libfuse's options]: shows DIR read-only, as
 * storage far away does: each read takes LATENCY_US and then its turn on a line of BYTES_PER_SECOND,
 * and many may be under way at once.  The kernel caches what was read, as that of a network does.
 * The file COUNTS has the number of reads, and their bytes.  While COUNTS.stall exists, reads of
 * files whose name begins with "shard-0" are not answered. */
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

static int dir, counts;
static char stall[4096];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long long latency, rate, n_reads, n_bytes;
static long long line_free; /* nanoseconds: when the line has sent all that was asked for */

static long long now(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static void until(long long ns)
{
    const struct timespec t = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) {
    }
}

static void take_time(size_t n)
{
    char text[64];

    (void)pthread_mutex_lock(&lock);
    const long long at = now() + latency * 1000;
    line_free = (line_free > at ? line_free : at) + (long long)n * 1000000000 / rate;
    const long long done = line_free;
    n_reads++;
    n_bytes += (long long)n;
    int len = snprintf(text, sizeof text, "%lld %lld\n", n_reads, n_bytes);
    if (pwrite(counts, text, (size_t)len, 0) != len) {
        perror("slow");
    }
    (void)pthread_mutex_unlock(&lock);
    until(done);
}

static void hold(const char *path)
{
    const struct timespec ms = {.tv_nsec = 2000000};

    while (strncmp(path, "/shard-0", 8) == 0 && access(stall, F_OK) == 0) {
        (void)nanosleep(&ms, NULL);
    }
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
    int fd = openat(dir, below(path), O_RDONLY | O_CLOEXEC);

    if (fd < 0) {
        return -errno;
    }
    fi->fh = (uint64_t)fd;
    fi->keep_cache = 1;
    return 0;
}

static int op_read(const char *path, char *buf, size_t n, off_t off, struct fuse_file_info *fi)
{
    ssize_t got = pread((int)fi->fh, buf, n, off);

    hold(path);
    take_time(got > 0 ? (size_t)got : 0);
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
    conn->max_background = 64;
    conn->congestion_threshold = 64;
    cfg->attr_timeout = cfg->entry_timeout = 60;
    cfg->use_ino = 1;
    cfg->kernel_cache = 1;
    return NULL;
}

int main(int argc, char **argv)
{
    static const struct fuse_operations ops = {
        .init = op_init,
        .getattr = op_getattr,
        .readdir = op_readdir,
        .open = op_open,
        .read = op_read,
        .release = op_release,
    };

    if (argc < 6) {
        (void)fprintf(stderr, "usage: slow DIR COUNTS MOUNTPOINT US RATE [OPTIONS]\n");
        return 2;
    }
    dir = open(argv[1], O_PATH | O_DIRECTORY | O_CLOEXEC);
    counts = open(argv[2], O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    (void)snprintf(stall, sizeof stall, "%s.stall", argv[2]);
    latency = atoll(argv[4]);
    rate = atoll(argv[5]);
    if (dir < 0 || counts < 0 || latency < 0 || rate <= 0) {
        perror("slow");
        return 2;
    }
    argv[5] = argv[3]; /* libfuse wants the name, the mount point and the options */
    argv[4] = argv[0];
    return fuse_main(argc - 4, argv + 4, &ops, NULL);
}
