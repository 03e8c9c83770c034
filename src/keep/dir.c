/* SPDX-License-Identifier: Apache-2.0 */
/* No locks are needed: a model is one file, renamed to its name when complete, and a removed file stays readable for
 * processes that have it open. */
#include "keep.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zf/base/clock.h>
#include <zf/base/fd.h>
#include <zf/base/utf8.h>
#include <zf/base/vec.h>

#define DIR_SUFFIX ".model"
#define DIR_TEMP ".new-"
/* Age after which temporary files, left by killed processes, are removed. */
#define DIR_STALE_SECONDS 600

/* ---- owner and permissions ------------------------------------------------------------------- */

/* Can no other user (except root) have written this file? */
static bool dir_is_ours(const struct stat *st)
{
    return st->st_uid == geteuid() && (st->st_mode & 022) == 0;
}

/* Is the directory accessible to its owner only?  Names of saves and their contents are private. */
static bool dir_is_closed(const struct stat *st, const char *path, struct zf_err *err)
{
    if (st->st_uid != geteuid())
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "the model cache belongs to another user");
    return (st->st_mode & 077) == 0 ||
           zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                   "other users may enter the model cache (mode %04o). Close it: chmod 700 %.200s",
                   (unsigned)st->st_mode & 07777, path);
}

/* Is the parent of `dir` writable for all users, without the sticky bit? */
static bool dir_is_open(int dir)
{
    struct stat st;

    return fstatat(dir, "..", &st, 0) != 0 || ((st.st_mode & 02) && !(st.st_mode & S_ISVTX));
}

/* May `path` be created?  Not in another user's directory: root, with the user's HOME under sudo, would leave a directory
 * there that the owner cannot remove.  A parent that all may write to, as /tmp, is fine. */
static bool dir_may_make(const char *path)
{
    zf_auto(mem) char *up = strdup(path);
    char *slash = up ? strrchr(up, '/') : NULL;
    struct stat st;

    if (slash)
        slash[slash == up] = '\0';
    const bool may =
        up && stat(slash ? up : ".", &st) == 0 && (st.st_uid == geteuid() || (st.st_mode & 02));
    errno = may ? errno : EPERM;
    return may;
}

static bool dir_make(const char *path)
{
    zf_auto(mem) char *copy = strdup(path);
    bool ok = copy && *copy;

    for (char *p = copy; ok && *p;) {
        p += strspn(p, "/");
        p += strcspn(p, "/");
        const char was = *p;
        *p = '\0';
        ok = access(copy, F_OK) == 0 || (dir_may_make(copy) && mkdir(copy, 0700) == 0) ||
             errno == EEXIST || errno == EISDIR;
        *p = was;
    }
    return ok;
}

int dir_open(const char *path, bool make, struct zf_err *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat st;

    if (fd < 0 && errno == ENOENT && make && dir_make(path))
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0) {
        (void)zf_fail_sys(err, "open the model cache");
    } else if (dir_is_closed(&st, path, err)) {
        if (!dir_is_open(fd))
            return fd;
        (void)zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "all users may write to its parent directory");
    }
    (void)zf_err_in(err, "%s", path);
    zf_auto_fd(&fd);
    return -1;
}

/* ---- whole files ----------------------------------------------------------------------------- */

static uint8_t *dir_read_fd(int fd, uint64_t most, uint64_t *n_out, struct zf_err *err)
{
    struct stat st;

    if (fstat(fd, &st) != 0)
        return zf_null(zf_fail_sys(err, "read a cached model"));
    if (!S_ISREG(st.st_mode) || !dir_is_ours(&st) || st.st_nlink != 1) {
        return zf_null(
            zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "the cached model may belong to another user"));
    }
    if ((uint64_t)st.st_size > most)
        return zf_null(zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "the cached model is too large"));
    zf_auto(mem) uint8_t *p = malloc((size_t)st.st_size + 1);
    if (!p)
        return zf_null(zf_fail_sys(err, "read a cached model"));
    *n_out = (uint64_t)st.st_size;
    const ssize_t got = zf_fd_pread(fd, p, (size_t)st.st_size, 0);
    if (got != st.st_size) {
        (void)(got < 0
                   ? zf_fail_sys(err, "read a cached model")
                   : zf_fail(err, ZF_E_FORMAT, (uint64_t)got, "the cached model became shorter"));
        return NULL;
    }
    (void)futimens(fd, NULL);
    return zf_give(p);
}

uint8_t *dir_read(int dir, const char *name, uint64_t most, uint64_t *n_out, struct zf_err *err)
{
    zf_auto(fd) int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0)
        return zf_null(zf_fail_sys(err, "open a cached model"));
    return dir_read_fd(fd, most, n_out, err);
}

bool dir_write(int dir, const char *name, const struct dir_part *part, size_t n_parts,
               struct zf_err *err)
{
    uint64_t mark = 0;
    char temp[64];

    if (getrandom(&mark, sizeof mark, GRND_NONBLOCK) < 0)
        mark = (uint64_t)getpid();
    (void)snprintf(temp, sizeof temp, DIR_TEMP "%ld-%llx", (long)getpid(),
                   (unsigned long long)mark);
    int fd = openat(dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return zf_fail_sys(err, "cache a model");
    bool ok = true;
    for (size_t i = 0; ok && i < n_parts; i++)
        ok = zf_fd_write(fd, part[i].p, part[i].n);
    /* A file torn by a crash is found by its checksum. */
    ok = (close(fd) == 0) && ok && renameat(dir, temp, dir, name) == 0;
    if (!ok) {
        (void)zf_fail_sys(err, "cache a model");
        (void)unlinkat(dir, temp, 0);
    }
    return ok;
}

/* ---- listing --------------------------------------------------------------------------------- */

struct dir_file {
    char name[DIR_NAME];
    uint64_t bytes;
    struct timespec used;
};

struct dir_files {
    zf_vec(struct dir_file);
    uint64_t bytes;
};

static bool dir_is_model(const char *name)
{
    return strlen(name) == 32 + sizeof DIR_SUFFIX - 1 && strspn(name, "0123456789abcdef") == 32 &&
           strcmp(name + 32, DIR_SUFFIX) == 0;
}

static bool dir_add(struct dir_files *f, int dir, const char *name, struct zf_err *err)
{
    struct timespec now;
    struct stat st;

    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode))
        return true;
    if (!dir_is_model(name)) {
        (void)clock_gettime(CLOCK_REALTIME, &now);
        if (now.tv_sec - st.st_mtim.tv_sec > DIR_STALE_SECONDS)
            (void)unlinkat(dir, name, 0);
        return true;
    }
    struct dir_file *x = zf_vec_push(f, err);
    if (x) {
        memcpy(x->name, name, 32 + sizeof DIR_SUFFIX);
        x->bytes = (uint64_t)st.st_size;
        x->used = st.st_mtim;
        f->bytes += x->bytes;
    }
    return x != NULL;
}

static int dir_newest_first(const void *a, const void *b)
{
    const struct timespec *s = &((const struct dir_file *)a)->used,
                          *t = &((const struct dir_file *)b)->used;

    return zf_clock_cmp(t, s);
}

static bool dir_list(int dir, struct dir_files *f, struct zf_err *err)
{
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    bool ok = true;

    if (!d) {
        (void)zf_fail_sys(err, "list the cached models");
        zf_auto_fd(&fd);
        return false;
    }
    for (struct dirent *e; ok && (e = readdir(d));)
        if (dir_is_model(e->d_name) || strncmp(e->d_name, DIR_TEMP, sizeof DIR_TEMP - 1) == 0)
            ok = dir_add(f, fd, e->d_name, err);
    (void)closedir(d);
    if (f->n)
        qsort(f->at, f->n, sizeof *f->at, dir_newest_first);
    return ok;
}

void dir_trim(int dir, uint64_t most)
{
    struct dir_files f = {0};
    struct zf_err err;

    if (dir_list(dir, &f, &err)) {
        while (f.bytes > most && f.n > 0) {
            f.bytes -= f.at[--f.n].bytes;
            (void)unlinkat(dir, f.at[f.n].name, 0);
        }
    }
    zf_vec_fini(&f);
}

/* The first line of the key, with control characters and invalid UTF-8 replaced by '?'. */
static void dir_what(int dir, const char *name, char *out, size_t n)
{
    zf_auto(fd) int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    ssize_t got = fd >= 0 ? pread(fd, out, n - 1, KEEP_KEY_AT) : -1;
    size_t len = 0;

    while (got > 0 && len < (size_t)got && out[len] != '\n') {
        size_t k = zf_utf8_len(out + len, (size_t)got - len);

        if (k == 0 || zf_utf8_obeyed(out + len, k)) {
            k = k ? k : 1;
            memset(out + len, '?', k);
        }
        len += k;
    }
    out[len] = '\0';
}

bool zf_keep_each(const char *path, zf_keep_fn *fn, void *ctx, struct zf_err *err)
{
    zf_auto(fd) int dir = dir_open(path, false, err);
    struct dir_files f = {0};
    char what[4096];

    if (dir < 0)
        return false;
    bool ok = dir_list(dir, &f, err);
    for (size_t i = 0; ok && i < f.n; i++) {
        dir_what(dir, f.at[i].name, what, sizeof what);
        fn(ctx,
           &(struct zf_keep_entry){.what = what, .bytes = f.at[i].bytes, .used = f.at[i].used});
    }
    zf_vec_fini(&f);
    return ok;
}

bool zf_keep_clear(const char *path, uint64_t *bytes_out, struct zf_err *err)
{
    zf_auto(fd) int dir = dir_open(path, false, err);
    struct dir_files f = {0};

    *bytes_out = 0;
    if (dir < 0)
        return false;
    bool ok = dir_list(dir, &f, err);
    for (size_t i = 0; ok && i < f.n; i++) {
        ok = unlinkat(dir, f.at[i].name, 0) == 0 || errno == ENOENT ||
             zf_fail_sys(err, "remove a cached model");
        *bytes_out += ok ? f.at[i].bytes : 0;
    }
    zf_vec_fini(&f);
    return ok;
}
