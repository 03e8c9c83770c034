/* SPDX-License-Identifier: Apache-2.0 */
/* server DIR COUNTS MOUNTPOINT LATENCY_US [libfuse's options]: shows DIR read-only, as a server far away does that is
 * asked for everything: each request takes LATENCY_US, and many may be under way at once.  What it said of a file holds
 * for a minute.  COUNTS has six numbers of 64 bits: requests for attributes, openings, reads and listings, how many are
 * under way, and the most that were. */
#include "shown.h"

#include <stdatomic.h>
#include <sys/mman.h>

enum { ATTR, OPEN, READ, LIST, NOW, MOST, N_COUNTS };
static _Atomic uint64_t *count;
static long long latency;

static void asked(int what)
{
    const struct timespec t = {.tv_sec = latency / 1000000, .tv_nsec = latency % 1000000 * 1000};
    const uint64_t now = ++count[NOW];
    uint64_t most = count[MOST];

    while (now > most && !atomic_compare_exchange_weak(&count[MOST], &most, now)) {
    }
    count[what]++;
    (void)nanosleep(&t, NULL);
    count[NOW]--;
}

static int asked_getattr(const char *path, struct stat *st, struct fuse_file_info *fi)
{
    asked(ATTR);
    return op_getattr(path, st, fi);
}

static int asked_open(const char *path, struct fuse_file_info *fi)
{
    asked(OPEN);
    return op_open(path, fi);
}

static int asked_read(const char *path, char *buf, size_t n, off_t off, struct fuse_file_info *fi)
{
    (void)path;
    asked(READ);
    const ssize_t got = pread((int)fi->fh, buf, n, off);
    return got < 0 ? -errno : (int)got;
}

static int asked_readdir(const char *path, void *buf, fuse_fill_dir_t fill, off_t off,
                         struct fuse_file_info *fi, enum fuse_readdir_flags flags)
{
    asked(LIST);
    return op_readdir(path, buf, fill, off, fi, flags);
}

static void *op_init(struct fuse_conn_info *conn, struct fuse_config *cfg)
{
    conn->max_background = 256;
    conn->congestion_threshold = 256;
    cfg->attr_timeout = cfg->entry_timeout = 60;
    cfg->use_ino = 1;
    return NULL;
}

int main(int argc, char **argv)
{
    static const struct fuse_operations ops = {
        .init = op_init,
        .getattr = asked_getattr,
        .readlink = op_readlink,
        .open = asked_open,
        .read = asked_read,
        .readdir = asked_readdir,
        .release = op_release,
    };

    if (argc < 5) {
        (void)fprintf(stderr, "usage: server DIR COUNTS MOUNTPOINT US [OPTIONS]\n");
        return 2;
    }
    const size_t n = N_COUNTS * sizeof *count;
    const int fd = open(argv[2], O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    dir = open(argv[1], O_PATH | O_DIRECTORY | O_CLOEXEC);
    latency = atoll(argv[4]);
    void *p = fd < 0 || ftruncate(fd, (off_t)n) != 0
                  ? MAP_FAILED
                  : mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (dir < 0 || p == MAP_FAILED || latency < 0) {
        perror("server");
        return 2;
    }
    count = p;
    argv[4] = argv[3]; /* libfuse wants the name, the mount point and the options */
    argv[3] = argv[0];
    return fuse_main(argc - 3, argv + 3, &ops, NULL);
}
