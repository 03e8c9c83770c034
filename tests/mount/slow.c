/* SPDX-License-Identifier: Apache-2.0 */
/* slow DIR COUNTS MOUNTPOINT LATENCY_US BYTES_PER_SECOND [libfuse's options]: shows DIR read-only, as
 * storage far away does: each read takes LATENCY_US and then its turn on a line of BYTES_PER_SECOND,
 * and many may be under way at once.  The kernel caches what was read, as that of a network does.
 * The file COUNTS has the number of reads, and their bytes.  While COUNTS.stall exists, reads of
 * files whose name begins with "shard-0" are not answered. */
#include "shown.h"

static int counts;
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
    if (pwrite(counts, text, (size_t)len, 0) != len)
        perror("slow");
    (void)pthread_mutex_unlock(&lock);
    until(done);
}

static int op_open_kept(const char *path, struct fuse_file_info *fi)
{
    fi->keep_cache = 1;
    return op_open(path, fi);
}

static int op_read(const char *path, char *buf, size_t n, off_t off, struct fuse_file_info *fi)
{
    ssize_t got = pread((int)fi->fh, buf, n, off);

    if (strncmp(path, "/shard-0", 8) == 0)
        wait_while(AT_FDCWD, stall);
    take_time(got > 0 ? (size_t)got : 0);
    return got < 0 ? -errno : (int)got;
}

static void *op_init(struct fuse_conn_info *conn, struct fuse_config *cfg)
{
    /* Far storage takes whatever it is asked for; a FUSE file system forgets advice while this many are under way. */
    conn->max_background = 4096;
    conn->congestion_threshold = 4096;
    cfg->attr_timeout = cfg->entry_timeout = 60;
    cfg->use_ino = 1;
    cfg->kernel_cache = 1;
    return NULL;
}

int main(int argc, char **argv)
{
    static const struct fuse_operations ops = {
        .init = op_init,
        .open = op_open_kept,
        .read = op_read,
        SHOWN_OPS,
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
