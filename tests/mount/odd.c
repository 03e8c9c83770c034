/* SPDX-License-Identifier: Apache-2.0 */
/* odd DIR COUNTS MOUNTPOINT WORDS [libfuse's options]: shows DIR read-only as shared and cloud file systems do.  WORDS, with
 * commas between them:
 *   plain      nothing odd; a read is answered by whoever serves, never out of the page cache
 *   ino=new    each answer has another inode number; ino=one: all have 1; else the files' own
 *   attr=long  the kernel keeps attributes for an hour; entry=long: and names
 *   bypath     a read opens the path anew
 *   noctime    ctime is mtime, in whole seconds
 *   epoch      all times are 1970; future: they are thirty years on
 *   nostatfs   statfs fails
 *   late=NAME  NAME is there a second after the first question, or listing, in which it should be
 * The file COUNTS has how many questions after files there were, and reads. */
#include "shown.h"
#include <stdatomic.h>
#include <sys/statvfs.h>

static int counts;
static atomic_long n_looks, n_reads, asked, n_ino;
static bool ino_new, ino_one, attr_long, entry_long, by_path, no_ctime, epoch, future, no_statfs;
static char late[300];

static void count(atomic_long *n)
{
    char text[64];

    (*n)++;
    int len = snprintf(text, sizeof text, "%8ld %8ld\n", (long)n_looks, (long)n_reads);
    if (pwrite(counts, text, (size_t)len, 0) != len)
        perror("odd");
}

/* From the first question on. */
static bool is_late(const char *name)
{
    struct timespec t;
    long none = 0;

    if (!late[0] || strcmp(name, late) != 0)
        return false;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    const long now = t.tv_sec * 1000 + t.tv_nsec / 1000000;
    (void)atomic_compare_exchange_strong(&asked, &none, now);
    return now - asked < 1000;
}

static int op_getattr_odd(const char *path, struct stat *st, struct fuse_file_info *fi)
{
    int rc = op_getattr(path, st, fi);

    if (is_late(path + 1))
        return -ENOENT;
    if (rc == 0 && S_ISREG(st->st_mode))
        count(&n_looks);
    st->st_ino = ino_new ? (ino_t)(1000 + n_ino++) : ino_one ? 1 : st->st_ino;
    if (no_ctime) {
        st->st_mtim.tv_nsec = 0;
        st->st_ctim = st->st_mtim;
    }
    if (epoch || future) {
        st->st_mtim = (struct timespec){.tv_sec = epoch ? 0 : 2740000000};
        st->st_ctim = st->st_atim = st->st_mtim;
    }
    return rc;
}

static int op_open_odd(const char *path, struct fuse_file_info *fi)
{
    fi->direct_io = 1;
    return op_open(path, fi);
}

static int op_read(const char *path, char *buf, size_t n, off_t off, struct fuse_file_info *fi)
{
    int fd = by_path ? openat(dir, below(path), O_RDONLY | O_CLOEXEC) : (int)fi->fh;
    ssize_t got = pread(fd, buf, n, off);
    int rc = got < 0 ? -errno : (int)got;

    count(&n_reads);
    if (by_path && fd >= 0)
        (void)close(fd);
    return rc;
}

static int op_statfs(const char *path, struct statvfs *s)
{
    (void)path;
    return no_statfs ? -EIO : fstatvfs(dir, s) == 0 ? 0 : -errno;
}

static void *op_init(struct fuse_conn_info *conn, struct fuse_config *cfg)
{
    (void)conn;
    cfg->attr_timeout = attr_long ? 3600 : 1;
    cfg->entry_timeout = entry_long ? 3600 : 1;
    cfg->use_ino = 1;
    return NULL;
}

static void understand(char *words)
{
    const struct {
        const char *word;
        bool *set;
    } known[] = {
        {"ino=new", &ino_new},       {"ino=one", &ino_one}, {"attr=long", &attr_long},
        {"entry=long", &entry_long}, {"bypath", &by_path},  {"noctime", &no_ctime},
        {"epoch", &epoch},           {"future", &future},   {"nostatfs", &no_statfs},
    };
    char *save;

    for (char *w = strtok_r(words, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
        size_t i = 0;

        while (i < sizeof known / sizeof known[0] && strcmp(known[i].word, w) != 0)
            i++;
        if (i < sizeof known / sizeof known[0])
            *known[i].set = true;
        else if (strncmp(w, "late=", 5) == 0)
            (void)snprintf(late, sizeof late, "%s", w + 5);
    }
}

int main(int argc, char **argv)
{
    static const struct fuse_operations ops = {
        .init = op_init,
        .open = op_open_odd,
        .read = op_read,
        .statfs = op_statfs,
        .getattr = op_getattr_odd,
        .readdir = op_readdir,
        .readlink = op_readlink,
        .release = op_release,
    };

    if (argc < 5) {
        (void)fprintf(stderr, "usage: odd DIR COUNTS MOUNTPOINT WORDS [OPTIONS]\n");
        return 2;
    }
    dir = open(argv[1], O_PATH | O_DIRECTORY | O_CLOEXEC);
    counts = open(argv[2], O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (dir < 0 || counts < 0) {
        perror("odd");
        return 2;
    }
    understand(argv[4]);
    hides = is_late;
    argv[4] = argv[3]; /* libfuse wants the name, the mount point and the options */
    argv[3] = argv[0];
    return fuse_main(argc - 3, argv + 3, &ops, NULL);
}
