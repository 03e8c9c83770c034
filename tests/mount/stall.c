/* SPDX-License-Identifier: Apache-2.0 */
/* stall DIR CONTROL MOUNTPOINT [libfuse's options]: shows DIR read-only, and holds answers back as
 * storage does that hangs.  As long as CONTROL/open.NAME exists, opening a file called NAME takes no
 * end; with CONTROL/read.NAME, reading it.  CONTROL/blocked says how many requests wait just now, and
 * CONTROL/waits.open.NAME is there when one of these does. */
#include "shown.h"

static int control;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int blocked;

static void count(int step)
{
    char text[16];

    (void)pthread_mutex_lock(&lock);
    blocked += step;
    int n = snprintf(text, sizeof text, "%8d\n", blocked);
    int fd = openat(control, "blocked", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd >= 0 && pwrite(fd, text, (size_t)n, 0) != n)
        perror("stall");
    (void)close(fd);
    (void)pthread_mutex_unlock(&lock);
}

static void hold(const char *what, const char *path)
{
    char mark[300], *name = mark + sizeof "waits." - 1;

    (void)snprintf(mark, sizeof mark, "waits.%s.%s", what, strrchr(path, '/') + 1);
    if (faccessat(control, name, F_OK, 0) != 0)
        return;
    count(1);
    int fd = openat(control, mark, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    (void)close(fd);
    wait_while(control, name);
    (void)unlinkat(control, mark, 0);
    count(-1);
}

static int op_open_held(const char *path, struct fuse_file_info *fi)
{
    hold("open", path);
    fi->direct_io = 1;
    return op_open(path, fi);
}

static int op_read(const char *path, char *buf, size_t n, off_t off, struct fuse_file_info *fi)
{
    hold("read", path);
    ssize_t got = pread((int)fi->fh, buf, n, off);

    return got < 0 ? -errno : (int)got;
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
        .open = op_open_held,
        .read = op_read,
        SHOWN_OPS,
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
