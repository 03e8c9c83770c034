/* SPDX-License-Identifier: Apache-2.0 */
/* The directory of the cache as a whole: counting, evicting, listing, clearing. */
#include "diskcache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zf/base/clock.h>
#include <zf/base/fd.h>
#include <zf/base/vec.h>
#include <zf/remote.h>

#define MARK "zerofs-cache"
#define MARK_TEXT "1\n"
#define USED_UNIT " on disk\n"
/* Age at which temporary files of killed processes are removed. */
#define STALE_SECONDS 600

/* A file of blocks, or (bare) an object's directory without such files. */
struct files_item {
    char key[65];
    bool bare;
    uint64_t number;
    uint64_t bytes;
    struct timespec used;
};

struct files {
    zf_vec(struct files_item);
    uint64_t bytes;
    bool bares; /* include bare directories, which a killed process may have left */
};

int diskcache_lock(int dir)
{
    int fd = openat(dir, MARK, O_RDWR | O_CLOEXEC | O_NOFOLLOW);

    while (fd >= 0 && flock(fd, LOCK_EX) != 0) {
        if (errno != EINTR) {
            (void)close(fd);
            fd = -1;
        }
    }
    return fd;
}

/* ---- walking --------------------------------------------------------------------------------- */

static inline void zf_auto_files_dir(DIR **d)
{
    if (*d)
        (void)closedir(*d);
}

static DIR *diskcache_files_dir(int at, const char *name)
{
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;

    if (fd >= 0 && !d)
        (void)close(fd);
    return d;
}

static bool diskcache_files_is_key(const char *name)
{
    return strlen(name) == 64 && strspn(name, "0123456789abcdef") == 64;
}

static bool diskcache_files_number(const char *name, uint64_t *out)
{
    char *end;

    if (name[0] < '0' || name[0] > '9' || strlen(name) > 19)
        return false;
    *out = strtoull(name, &end, 10);
    return *end == '\0';
}

/* Removes a temporary file that a killed process left. */
static void diskcache_files_sweep(int object, const char *name)
{
    struct timespec now;
    struct stat st;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (strncmp(name, "about.", 6) == 0 && fstatat(object, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        now.tv_sec - st.st_mtim.tv_sec > STALE_SECONDS)
        (void)unlinkat(object, name, 0);
}

int diskcache_object(int dir, const char *key, bool make, bool *made_out)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;
    zf_auto(fd) int all = openat(dir, "o", flags);
    int fd = all >= 0 ? openat(all, key, flags) : -1;

    if (fd < 0 && make && all >= 0 && errno == ENOENT && mkdirat(all, key, 0700) == 0) {
        *made_out = true;
        fd = openat(all, key, flags);
    }
    return fd;
}

/* Disk space of a file in bytes; 0 = it does not exist. */
static uint64_t diskcache_files_blocks(int at, const char *name)
{
    struct stat st;

    return fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
}

/* Disk space of an object besides its blocks. */
static uint64_t diskcache_files_overhead(int object)
{
    return diskcache_files_blocks(object, ".") + diskcache_files_blocks(object, "about");
}

static bool diskcache_files_of(struct files *f, DIR *d, const char *key, struct zf_err *err)
{
    const size_t before = f->n;

    f->bytes += diskcache_files_overhead(dirfd(d));
    for (struct dirent *e; (e = readdir(d));) {
        uint64_t number;
        struct stat st;

        if (!diskcache_files_number(e->d_name, &number)) {
            diskcache_files_sweep(dirfd(d), e->d_name);
            continue;
        }
        if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode))
            continue;
        struct files_item *it = zf_vec_push(f, err);
        if (!it)
            return false;
        memcpy(it->key, key, 65);
        it->number = number;
        it->bytes = (uint64_t)st.st_blocks * 512;
        it->used = st.st_mtim;
        f->bytes += it->bytes;
    }
    struct files_item *bare = f->bares && f->n == before ? zf_vec_push(f, err) : NULL;
    if (bare) {
        *bare = (struct files_item){.bare = true};
        memcpy(bare->key, key, 65);
    }
    return bare || !f->bares || f->n > before;
}

static bool diskcache_files_all(int dir, struct files *f, struct zf_err *err)
{
    zf_auto(files_dir) DIR *all = diskcache_files_dir(dir, "o");

    if (!all)
        return errno == ENOENT || zf_fail_sys(err, "list the cache");
    f->bytes = diskcache_files_blocks(dir, ".") + diskcache_files_blocks(dir, "o") +
               diskcache_files_blocks(dir, MARK) + diskcache_files_blocks(dir, "used");
    for (struct dirent *e; (e = readdir(all));) {
        zf_auto(files_dir) DIR *d =
            diskcache_files_is_key(e->d_name) ? diskcache_files_dir(dirfd(all), e->d_name) : NULL;

        if (d && !diskcache_files_of(f, d, e->d_name, err))
            return false;
    }
    return true;
}

/* ---- counting and evicting; under the lock --------------------------------------------------- */

static int diskcache_files_older(const void *a, const void *b)
{
    const struct timespec *s = &((const struct files_item *)a)->used,
                          *t = &((const struct files_item *)b)->used;

    return zf_clock_cmp(s, t);
}

/* Removes a file, and the object's directory if it was the last file there.  Returns the bytes freed. */
static uint64_t diskcache_files_remove(int all, const struct files_item *it)
{
    char name[24];

    (void)snprintf(name, sizeof name, "%" PRIu64, it->number);
    zf_auto(files_dir) DIR *d = diskcache_files_dir(all, it->key);
    if (!d || (!it->bare && unlinkat(dirfd(d), name, 0) != 0 && errno != ENOENT))
        return 0;
    uint64_t number, freed = it->bytes;
    bool last = true;

    for (struct dirent *e; last && (e = readdir(d));)
        last = !diskcache_files_number(e->d_name, &number);
    if (last) {
        const uint64_t beside = diskcache_files_overhead(dirfd(d));

        (void)unlinkat(dirfd(d), "about", 0);
        freed += unlinkat(all, it->key, AT_REMOVEDIR) == 0 ? beside : 0;
    }
    return freed;
}

/* Evicts the least recently used files until at most `most` bytes are left; *left_out is what is left. */
static bool diskcache_files_evict(int dir, uint64_t most, uint64_t *left_out)
{
    struct files f = {.bares = true};
    struct zf_err err;
    bool ok = diskcache_files_all(dir, &f, &err);
    zf_auto(fd) int all = openat(dir, "o", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

    if (ok && f.n && f.bytes > most)
        qsort(f.at, f.n, sizeof *f.at, diskcache_files_older);
    for (size_t i = 0; ok && i < f.n && f.bytes > most; i++)
        f.bytes -= diskcache_files_remove(all, &f.at[i]);
    *left_out = f.bytes;
    zf_vec_fini(&f);
    return ok;
}

static uint64_t diskcache_files_used(int dir)
{
    char text[32] = "";
    zf_auto(fd) int fd = openat(dir, "used", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    char *end;

    uint64_t used = strtoull(text, &end, 10);
    /* UINT64_MAX makes the caller count again: the number is unreadable, or was counted by another rule (no such unit). */
    return n > 0 && text[0] >= '0' && text[0] <= '9' && strcmp(end, USED_UNIT) == 0 ? used
                                                                                    : UINT64_MAX;
}

static bool diskcache_files_set_used(int dir, uint64_t used)
{
    char text[32];
    int n = snprintf(text, sizeof text, "%020" PRIu64 USED_UNIT, used);
    zf_auto(fd) int fd = openat(dir, "used", O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

    return fd >= 0 && pwrite(fd, text, (size_t)n, 0) == n;
}

bool diskcache_count(int dir, uint64_t more, uint64_t most)
{
    uint64_t used = diskcache_files_used(dir);

    if (used > UINT64_MAX - more || (most && used + more > most)) {
        const uint64_t keep = most ? most - most / 8 : UINT64_MAX;

        /* Evict an eighth more than needed, so that evictions are rare. */
        if ((most && more > keep) ||
            !diskcache_files_evict(dir, most ? keep - more : UINT64_MAX, &used))
            return false;
    }
    return (!most || used + more <= most) && diskcache_files_set_used(dir, used + more);
}

/* ---- the directory --------------------------------------------------------------------------- */

static bool diskcache_files_is_empty(int fd)
{
    zf_auto(files_dir) DIR *d = diskcache_files_dir(fd, ".");
    bool empty = d != NULL;

    for (struct dirent *e; empty && (e = readdir(d));) {
        empty = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
                strncmp(e->d_name, MARK, strlen(MARK)) == 0;
    }
    return empty;
}

/* Creates the mark with link(2), so that of two processes one succeeds and both lock the same file. */
static bool diskcache_files_make(int fd)
{
    char temp[64];

    (void)snprintf(temp, sizeof temp, MARK ".%ld", (long)getpid());
    zf_auto(fd) int made =
        openat(fd, temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool ok = made >= 0 && write(made, MARK_TEXT, 2) == 2 &&
              (linkat(fd, temp, fd, MARK, 0) == 0 || errno == EEXIST);
    const int why = errno;
    (void)unlinkat(fd, temp, 0);
    errno = why;
    return ok;
}

/* Checks the mark of a cache; make: turns an empty directory into a cache.  Other directories are refused. */
static bool diskcache_files_mark(int fd, bool make, struct zf_err *err)
{
    char text[8] = "";
    zf_auto(fd) int mark = openat(fd, MARK, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

    if (mark < 0 && errno == ENOENT && make && diskcache_files_is_empty(fd)) {
        if (!diskcache_files_make(fd))
            return zf_fail_sys(err, "make the cache");
        (void)mkdirat(fd, "o", 0700);
    }
    /* Just created by us or by another process. */
    mark = mark < 0 ? openat(fd, MARK, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : mark;
    return (mark >= 0 && read(mark, text, sizeof text - 1) == 2 && strcmp(text, MARK_TEXT) == 0) ||
           zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                   "this directory is not a zerofs cache. Name an empty or new directory");
}

int diskcache_open_dir(const char *path, bool make, struct zf_err *err)
{
    struct stat st;

    if (make && mkdir(path, 0700) != 0 && errno != EEXIST) {
        (void)zf_fail_sys(err, "make the cache");
        (void)zf_err_in(err, "%s", path);
        return -1;
    }
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0) {
        (void)zf_fail_sys(err, "open the cache");
    } else if (st.st_uid != geteuid()) {
        (void)zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "the cache directory belongs to another user");
    } else if ((st.st_mode & 077) != 0) {
        (void)zf_fail(
            err, ZF_E_USAGE, ZF_OFF_NONE,
            "other users may enter the cache directory (mode %04o). Close it: chmod 700 %.200s",
            (unsigned)st.st_mode & 07777, path);
    } else if (diskcache_files_mark(fd, make, err)) {
        return fd;
    }
    (void)zf_err_in(err, "%s", path);
    zf_auto_fd(&fd);
    return -1;
}

/* ---- for the user ---------------------------------------------------------------------------- */

/* The first line of `about`, up to n bytes, without control characters of terminals. */
static void diskcache_files_url(int dir, const char *key, char *out, size_t n)
{
    zf_auto(fd) int object = diskcache_object(dir, key, false, NULL);
    zf_auto(fd) int fd =
        object < 0 ? -1 : openat(object, "about", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    ssize_t got = fd >= 0 ? read(fd, out, n - 1) : -1;
    size_t len = 0;

    while (got > 0 && len < (size_t)got && out[len] != '\n' && out[len] != '\0') {
        out[len] = (unsigned char)out[len] < ' ' || out[len] == 0x7f ? '?' : out[len];
        len++;
    }
    out[len] = '\0';
}

/* Sorts by object, within an object most recently used first. */
static int diskcache_files_by_key(const void *a, const void *b)
{
    int by = strcmp(((const struct files_item *)a)->key, ((const struct files_item *)b)->key);

    return by ? by : diskcache_files_older(b, a);
}

static struct zf_cached diskcache_files_object(const struct files *f, size_t *i)
{
    const struct files_item *first = &f->at[*i];
    struct zf_cached c = {.used = first->used};

    for (; *i < f->n && strcmp(f->at[*i].key, first->key) == 0; (*i)++)
        c.bytes += f->at[*i].bytes;
    return c;
}

bool zf_remote_cache_each(const char *path, zf_cached_fn *fn, void *ctx, struct zf_err *err)
{
    zf_auto(fd) int dir = diskcache_open_dir(path, false, err);
    struct files f = {0};
    char url[4096];

    if (dir < 0)
        return false;
    bool ok = diskcache_files_all(dir, &f, err);
    if (ok && f.n)
        qsort(f.at, f.n, sizeof *f.at, diskcache_files_by_key);
    for (size_t i = 0; ok && i < f.n;) {
        const char *key = f.at[i].key;
        struct zf_cached c = diskcache_files_object(&f, &i);

        diskcache_files_url(dir, key, url, sizeof url);
        c.url = url;
        fn(ctx, &c);
    }
    zf_vec_fini(&f);
    return ok;
}

bool zf_remote_cache_clear(const char *path, uint64_t *bytes_out, struct zf_err *err)
{
    zf_auto(fd) int dir = diskcache_open_dir(path, false, err);
    zf_auto(fd) int lock = dir >= 0 ? diskcache_lock(dir) : -1;
    struct files f = {0};
    uint64_t left = 0;

    *bytes_out = 0;
    if (dir < 0)
        return false;
    bool ok = lock >= 0 || zf_fail_sys(err, "lock the cache");
    ok = ok && diskcache_files_all(dir, &f, err);
    ok = ok && ((diskcache_files_evict(dir, 0, &left) && diskcache_files_set_used(dir, left)) ||
                zf_fail_sys(err, "clear the cache"));
    *bytes_out = ok ? f.bytes - left : 0;
    zf_vec_fini(&f);
    return ok;
}
