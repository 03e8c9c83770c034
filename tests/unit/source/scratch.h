/* SPDX-License-Identifier: Apache-2.0 */
/* A directory of its own for each test; `*state` is its path. */
#ifndef TESTS_UNIT_SOURCE_SCRATCH_H
#define TESTS_UNIT_SOURCE_SCRATCH_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zf/source/store.h>

static inline int scratch_setup(void **state)
{
    char path[] = "/tmp/zf-test-XXXXXX";

    *state = mkdtemp(path) ? realpath(path, NULL) : NULL;
    return *state ? 0 : -1;
}

static inline int scratch_rm(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static inline int scratch_teardown(void **state)
{
    int rc = nftw(*state, scratch_rm, 16, FTW_DEPTH | FTW_PHYS);

    free(*state);
    return rc;
}

/* The full path of `name`, whose directories are made. */
static inline void scratch_path(const char *root, const char *name, char out[4200])
{
    int n = snprintf(out, 4200, "%s/%s", root, name);

    assert_in_range(n, 1, 4199);
    for (char *p = out + strlen(root) + 1; (p = strchr(p, '/')) != NULL; p++) {
        *p = '\0';
        assert_true(mkdir(out, 0700) == 0 || errno == EEXIST);
        *p = '/';
    }
}

static inline void scratch_bytes(const char *root, const char *name, const void *p, size_t n)
{
    char path[4200];

    scratch_path(root, name, path);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, p, n), n);
    assert_int_equal(close(fd), 0);
}

static inline void scratch_file(const char *root, const char *name, const char *text)
{
    scratch_bytes(root, name, text, strlen(text));
}

static inline void scratch_dir(const char *root, const char *name)
{
    char path[4200];

    scratch_path(root, name, path);
    assert_int_equal(mkdir(path, 0700), 0);
}

static inline void scratch_link(const char *root, const char *name, const char *text)
{
    char path[4200];

    scratch_path(root, name, path);
    assert_int_equal(symlink(text, path), 0);
}

/* A store of it that may have so many files open at once. */
static inline struct zf_store *scratch_store(const char *root, uint64_t open_files)
{
    struct zf_err err;
    struct zf_limits lim = zf_limits_default();

    lim.open_files = open_files;
    struct zf_store *st = zf_store_dir(root, &lim, &err);
    assert_ok(st, &err);
    return st;
}

/* How many descriptors this process has open, and a few more: only to be compared. */
static inline int scratch_descriptors(void)
{
    DIR *d = opendir("/proc/self/fd");
    int n = 0;

    assert_non_null(d);
    while (readdir(d))
        n++;
    (void)closedir(d);
    return n;
}

#endif
