/* SPDX-License-Identifier: Apache-2.0 */
/* A store of the files in a directory. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zf/base/ahead.h>
#include <zf/base/fd.h>
#include <zf/base/vec.h>

#include "beneath.h"
#include "file.h"
#include "pace.h"
#include "same.h"
#include <zf/source/store_kind.h>

/* Concurrent requests: enough for a network file system, few enough for its server. */
#define STORE_DIR_AHEAD 64

/* Reads the attributes of the file at a path, without opening it for reading.  False: errno says why. */
static bool store_dir_look(struct pool *pool, const char *path, struct stat *st,
                           struct zf_identity *out)
{
    int fd = reach_open(&pool->reach, path, O_PATH);
    bool ok = fd >= 0 && fstat(fd, st) == 0;
    int why = errno;

    if (ok)
        *out = pool_identity(pool, st, fd);
    if (fd >= 0)
        (void)close(fd);
    errno = why;
    return ok;
}

static const char *store_dir_broken_link(int why)
{
    switch (why) {
    case ENOENT:
    case ENOTDIR:
        return "a dangling link";
    case ELOOP:
        return "a symbolic link that leads back to itself";
    case EXDEV:
        return "a link that leads out of the checkpoint's directory or its file system "
               "(-o links follows it)";
    default:
        return "a symbolic link that cannot be followed";
    }
}

/* 0 for an errno that tells what the link is, else the errno. */
static int store_dir_link_unknown(int why)
{
    return why == ENOENT || why == ENOTDIR || why == ELOOP || why == EXDEV ? 0 : why;
}

/* A directory may be a mount point, whose attributes its server would be asked for: perhaps this
 * very process, which would deadlock.  Opening it with O_PATH and without xdev asks no server. */
static bool store_dir_inspect(struct pool *pool, int dir, const char *name, uint8_t type,
                              struct stat *st)
{
    if (type != DT_DIR && type != DT_UNKNOWN)
        return same_stat(dir, name, AT_SYMLINK_NOFOLLOW, st);
    zf_auto(fd) int fd = -1;
    do {
        fd = beneath_open(dir, name, O_PATH | O_NOFOLLOW, pool->reach.xdev);
    } while (fd < 0 && pool_spared(pool, errno));
    return fd >= 0 && same_stat(fd, "", AT_EMPTY_PATH, st);
}

/* A directory that is being listed. */
struct dir_names {
    struct pool *pool;
    const char *dir;
    int fd; /* the open directory */
    struct zf_listing *l;
    zf_vec(uint8_t) type; /* [l->n] d_type of readdir */
};

/* Opens a file on a device not seen before to learn its file system: in an overlay it may differ from the directory's. */
static struct zf_identity store_dir_identity(const struct dir_names *names, const char *name,
                                             const struct stat *st)
{
    zf_auto(fd) int fd =
        pool_knows(names->pool, st->st_dev)
            ? -1
            : beneath_open(names->fd, name, O_PATH | O_NOFOLLOW, names->pool->reach.xdev);

    return pool_identity(names->pool, st, fd);
}

/* Sets kind, what and id of an entry. */
static void store_dir_classify(const struct dir_names *names, uint8_t type, struct zf_entry *e)
{
    const char *dir = names->dir;
    char path[PATH_MAX];
    struct stat st;

    const int64_t began = zf_clock_ns();
    const bool seen = store_dir_inspect(names->pool, names->fd, e->name, type, &st);
    const int why = errno;

    pace_note(&names->pool->pace, began);
    e->kind = ZF_ENTRY_OTHER;
    e->what = "an unreadable entry";
    errno = why;
    if (!seen) {
        e->unknown = errno == EXDEV || errno == ENOENT ? 0 : errno;
        e->what = errno == EXDEV ? "on another file system (-o xdev enters it)" : e->what;
        return;
    }
    e->id = store_dir_identity(names, e->name, &st);
    if (S_ISLNK(st.st_mode)) {
        int n = snprintf(path, sizeof path, "%s%s%s", dir, dir[0] ? "/" : "", e->name);

        if (n < 0 || (size_t)n >= sizeof path || !store_dir_look(names->pool, path, &st, &e->id)) {
            e->unknown = store_dir_link_unknown(errno);
            e->what = store_dir_broken_link(errno);
            return;
        }
    }
    e->what = file_what(st.st_mode);
    if (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))
        e->kind = S_ISREG(st.st_mode) ? ZF_ENTRY_FILE : ZF_ENTRY_DIR;
}

static void store_dir_look_at(const struct dir_names *names, size_t i)
{
    struct zf_entry *e = &names->l->entry[i];
    const struct timespec began = place_clock();

    store_dir_classify(names, names->type.at[i], e);
    e->fresh = place_is_far(&e->id) ? place_racy(&e->id, began) : place_fresh(e->id.ctime, began);
}

/* Number of entries that a thread reads the attributes of in a row; a long directory uses several threads. */
#define STORE_DIR_ROW 16u

/* Rows of entries from `first` on, `row` entries each. */
struct dir_rows {
    const struct dir_names *names;
    size_t first, row;
};

static void *store_dir_look_row(void *ctx, uint64_t row, struct zf_err *err)
{
    const struct dir_rows *rows = ctx;
    const size_t n = rows->names->l->n, begin = rows->first + row * rows->row;

    (void)err;
    for (size_t i = begin; i < begin + rows->row && i < n; i++)
        store_dir_look_at(rows->names, i);
    return ctx;
}

/* On slow storage, which the first answers show, each entry is a row of its own, so that all requests are concurrent. */
static bool store_dir_look_at_all(struct dir_names *names, struct zf_err *err)
{
    const size_t n = names->l->n;
    const bool many = n > STORE_DIR_ROW * STORE_DIR_ROW;
    struct dir_rows rows = {.names = names, .row = STORE_DIR_ROW};

    while (rows.first < n && !pace_is_slow(&names->pool->pace) &&
           (!many || rows.first < STORE_DIR_ROW))
        store_dir_look_at(names, rows.first++);
    rows.row = pace_is_slow(&names->pool->pace) ? 1 : rows.row;
    const struct zf_ahead_work work = {
        .make = store_dir_look_row, .ctx = &rows, .most = STORE_DIR_AHEAD, .slow = rows.row == 1};

    return rows.first == n || zf_ahead_all(work, (n - rows.first + rows.row - 1) / rows.row, err);
}

/* Reads all names first; then their attributes, in threads, which on a network is mostly waiting. */
static bool store_dir_read_names(struct dir_names *names, DIR *d, struct zf_err *err)
{
    const struct dirent *de;

    for (errno = 0; (de = readdir(d)) != NULL; errno = 0) {
        const struct zf_entry e = {.name = de->d_name};
        uint8_t *type;

        if (strcmp(e.name, ".") == 0 || strcmp(e.name, "..") == 0)
            continue;
        if (!zf_listing_add(names->l, &e, err) || !(type = zf_vec_push(&names->type, err)))
            return false;
        *type = de->d_type;
    }
    return errno == 0 ? store_dir_look_at_all(names, err) : zf_fail_sys(err, "read the directory");
}

static bool store_dir_no_directory(const struct reach *r, const char *dir, struct zf_err *err)
{
    return errno == ENOTDIR ? zf_fail(err, ZF_E_NOENT, ZF_OFF_NONE, "this is not a directory")
                            : reach_fail(r, dir, "open the directory", err);
}

static bool dir_list(void *self, const char *dir, struct zf_listing *l, struct zf_err *err)
{
    struct pool *pool = self;
    int fd = pool_open(pool, dir, O_RDONLY | O_DIRECTORY);

    if (fd < 0)
        return store_dir_no_directory(&pool->reach, dir, err);
    DIR *d = fdopendir(fd);
    if (!d) {
        (void)zf_fail_sys(err, "read the directory");
        (void)close(fd);
        return false;
    }
    struct dir_names names = {.pool = pool, .dir = dir, .fd = fd, .l = l};
    bool ok = store_dir_read_names(&names, d, err);
    zf_vec_fini(&names.type);
    (void)closedir(d);
    return ok;
}

static struct zf_source *dir_open(void *self, const char *path, const char *name,
                                  const struct zf_entry *known, struct zf_err *err)
{
    return file_new(self, path, name, known ? &known->id : NULL, err);
}

static void dir_seen(void *self, struct zf_source *file, struct zf_out *out)
{
    (void)self;
    file_note(file, out);
}

static bool dir_expect(void *self, struct zf_source *file, struct zf_bytes note, struct zf_err *err)
{
    (void)self;
    return file_claim(file, note, err);
}

static bool dir_lags(const void *self)
{
    const struct pool *pool = self;

    return pool->place.far;
}

static bool dir_reaches(void *self, const char *path, struct zf_err *err)
{
    const struct pool *pool = self;
    zf_auto(fd) int fd = reach_open(&pool->reach, path, O_PATH);

    return fd >= 0 || errno != EXDEV || reach_fail(&pool->reach, path, "open it", err);
}

static char *store_dir_last_part(const char *path)
{
    const char *slash = strrchr(path, '/');

    return strdup(slash && slash[1] ? slash + 1 : path);
}

/* Proves the directory beneath the root first; the full path is then used for its name only. */
static char *dir_base(void *self, const char *dir, struct zf_err *err)
{
    struct pool *pool = self;
    zf_auto(fd) int fd = reach_open(&pool->reach, dir, O_PATH | O_DIRECTORY);

    if (fd < 0)
        return zf_null(store_dir_no_directory(&pool->reach, dir, err));
    zf_auto(mem) char *full = NULL;
    if (asprintf(&full, "%s/%s", pool->reach.abs, dir) < 0)
        full = NULL;
    zf_auto(mem) char *real = full ? realpath(full, NULL) : NULL;
    char *base = store_dir_last_part(real ? real : dir);
    if (!base)
        (void)zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    return base;
}

static void dir_fini(void *self)
{
    struct pool *pool = self;

    pool_unref(&pool);
}

static bool dir_slow(const void *self)
{
    return pace_is_slow(&((const struct pool *)self)->pace);
}

static const struct zf_store_ops dir_ops = {
    .list = dir_list,
    .open = dir_open,
    .reaches = dir_reaches,
    .base = dir_base,
    .seen = dir_seen,
    .expect = dir_expect,
    .lags = dir_lags,
    .fini = dir_fini,
    .slow = dir_slow,
    .ahead = STORE_DIR_AHEAD,
};

/* A path as given, split at its last '/'. */
struct cut {
    char *dir;        /* "": the working directory */
    const char *file; /* NULL: the path is a directory itself */
};

static bool store_dir_cut_path(const char *path, char *copy, struct cut *out, struct zf_err *err)
{
    struct stat st;

    if (stat(path, &st) != 0)
        return zf_fail_sys(err, "open it");
    size_t n = strlen(copy);
    while (n > 1 && copy[n - 1] == '/')
        copy[--n] = '\0';
    *out = (struct cut){.dir = copy};
    if (S_ISDIR(st.st_mode))
        return true;
    if (!S_ISREG(st.st_mode)) {
        return zf_fail(err, ZF_E_UNKNOWN, ZF_OFF_NONE,
                       "this is neither a directory nor a regular file");
    }
    char *slash = strrchr(copy, '/');
    if (!slash) {
        out->file = path;
        out->dir = copy + n; /* "" */
        return true;
    }
    out->file = path + (slash + 1 - copy);
    slash[slash == copy] = '\0'; /* "/file" lies in "/" */
    return true;
}

static struct pool *store_dir_pool_at(const char *dir, const struct zf_limits *lim,
                                      struct zf_err *err)
{
    /* Resolved now: the daemon changes its working directory later. */
    zf_auto(mem) char *abs = realpath(dir[0] ? dir : ".", NULL);

    if (!abs)
        return zf_null(zf_fail_sys(err, "open the directory"));
    return pool_new(abs, lim, err);
}

/* Can the file be opened from its own directory?  Not if it is a link that leads out of it. */
static bool store_dir_reachable(const struct pool *pool, const char *file)
{
    zf_auto(fd) int fd = file ? reach_open(&pool->reach, file, O_PATH) : -1;

    return !file || fd >= 0 || errno != EXDEV;
}

/* Opens the directory of `path`; *cut points into path and into the malloc'ed *copy. */
static struct pool *store_dir_pool_for(const char *path, char **copy, struct cut *cut,
                                       const struct zf_limits *lim, struct zf_err *err)
{
    free(*copy);
    *copy = strdup(path);
    if (!*copy)
        return zf_null(zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory"));
    return store_dir_cut_path(path, *copy, cut, err) ? store_dir_pool_at(cut->dir, lim, err) : NULL;
}

/* Allows a file named by the user to be on another file system than its directory. */
static bool store_dir_point_at(struct pool *pool, const struct cut *cut, struct zf_err *err)
{
    pool->reach.pointed = cut->file ? strdup(cut->file) : NULL;
    return !cut->file || pool->reach.pointed ||
           zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
}

struct zf_store *zf_store_dir(const char *path, const struct zf_limits *lim, struct zf_err *err)
{
    return zf_store_dir_with(path, NULL, lim, err);
}

struct zf_store *zf_store_dir_with(const char *path, const struct zf_dir_opts *how,
                                   const struct zf_limits *lim, struct zf_err *err)
{
    zf_auto(mem) char *copy = NULL, *real = NULL;
    struct cut cut = {0};
    struct pool *pool = store_dir_pool_for(path, &copy, &cut, lim, err);

    /* The user named the link itself, so it may lead anywhere: open its target. */
    if (pool && !store_dir_reachable(pool, cut.file)) {
        pool_unref(&pool);
        real = realpath(path, NULL);
        pool = real ? store_dir_pool_for(real, &copy, &cut, lim, err) : NULL;
        if (!real)
            (void)zf_fail_sys(err, "open it");
    }
    if (pool && !store_dir_point_at(pool, &cut, err))
        pool_unref(&pool);
    if (pool && how) {
        pool->reach.xdev = how->xdev;
        pool->reach.links = how->links;
        pool->shared = how->shared;
        pool->strict = how->strict;
    }
    if (!pool)
        return zf_null(zf_err_in(err, "%s", path));
    return zf_store_new(&dir_ops, pool,
                        (struct zf_store_look){.name = path, .shown = cut.dir, .focus = cut.file},
                        lim, err);
}
