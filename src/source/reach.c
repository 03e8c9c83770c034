/* SPDX-License-Identifier: Apache-2.0 */
/* A Hugging Face cache keeps a repository as
 *     models--org--name/snapshots/<revision>/<file> -> ../../blobs/<hash>
 * so the files of a snapshot are links that leave it.  They are followed into that very `blobs`
 * directory, one level, and nowhere else.
 * Source: huggingface_hub, file_download.py, _create_symlink (relative, or absolute across
 * volumes). */
#include "reach.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zf/base/fd.h>

#include "beneath.h"

/* The length of C in "C/snapshots[/<revision>…]", the last such place; 0 when there is none. */
static size_t reach_cache_len(const char *abs)
{
    static const char mark[] = "/snapshots";
    size_t n = 0;

    for (const char *p = strstr(abs, mark); p; p = strstr(p + 1, mark)) {
        char after = p[sizeof mark - 1];

        n = after == '\0' || after == '/' ? (size_t)(p - abs) : n;
    }
    return n;
}

/* Holds C open when C/blobs is there. */
static void reach_find_cache(struct reach *r)
{
    r->n_cache = reach_cache_len(r->abs);
    if (r->n_cache == 0) {
        return;
    }
    char *dir = strndup(r->abs, r->n_cache);
    int fd = dir ? open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    free(dir);
    if (fd >= 0 && faccessat(fd, "blobs", X_OK, 0) == 0) {
        r->cache = fd;
    } else if (fd >= 0) {
        (void)close(fd);
    }
}

bool reach_init(struct reach *r, const char *abs, struct zf_err *err)
{
    *r = (struct reach){.root = -1, .cache = -1, .abs = strdup(abs)};
    if (!r->abs) {
        return zf_fail_sys(err, "keep a path");
    }
    r->root = open(abs, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (r->root < 0) {
        (void)zf_fail_sys(err, "open the directory");
        reach_fini(r);
        return false;
    }
    if (!beneath_check(r->root, err)) {
        reach_fini(r);
        return false;
    }
    reach_find_cache(r);
    return true;
}

void reach_fini(struct reach *r)
{
    zf_auto_fd(&r->root);
    zf_auto_fd(&r->cache);
    free(r->abs);
    free(r->pointed);
    *r = (struct reach){.root = -1, .cache = -1};
}

/* How many components has p, without empty ones? */
static size_t reach_depth(const char *p)
{
    size_t n = 0;

    for (p += strspn(p, "/"); *p; p += strspn(p, "/")) {
        n++;
        p += strcspn(p, "/");
    }
    return n;
}

/* The blob's name when the text of the link at `path` leads from the root's place in the cache to
 * blobs/<name>; NULL otherwise.  Points into text. */
static const char *reach_blob_of(const struct reach *r, const char *path, const char *text)
{
    static const char blobs[] = "blobs/";
    size_t up = 0;

    if (text[0] == '/') {
        if (strncmp(text, r->abs, r->n_cache) != 0 || text[r->n_cache] != '/') {
            return NULL;
        }
        text += r->n_cache + 1;
    } else {
        size_t need = reach_depth(r->abs + r->n_cache) + reach_depth(path) - 1;

        for (; strncmp(text, "../", 3) == 0; text += 3) {
            up++;
        }
        if (up != need) {
            return NULL;
        }
    }
    if (strncmp(text, blobs, sizeof blobs - 1) != 0) {
        return NULL;
    }
    text += sizeof blobs - 1;
    return *text && !strchr(text, '/') && strcmp(text, "..") != 0 ? text : NULL;
}

/* Text of the link at `path`, whose directory must lie beneath the root. */
static bool reach_link_text(const struct reach *r, const char *path, char *out, size_t n)
{
    zf_auto(fd) int fd = beneath_open(r->root, path, O_PATH | O_NOFOLLOW, r->xdev);
    ssize_t got = fd < 0 ? -1 : readlinkat(fd, "", out, n - 1);

    if (got < 0) {
        return false;
    }
    out[got] = '\0';
    return true;
}

static int reach_open_blob(const struct reach *r, const char *path, int flags)
{
    char text[PATH_MAX];
    const char *blob =
        reach_link_text(r, path, text, sizeof text) ? reach_blob_of(r, path, text) : NULL;
    int dir = blob ? beneath_open(r->cache, "blobs", O_PATH | O_DIRECTORY, r->xdev) : -1;

    if (dir < 0) {
        errno = EXDEV;
        return -1;
    }
    int fd = beneath_open(dir, blob, flags, r->xdev);
    int keep = errno;
    (void)close(dir);
    errno = keep;
    return fd;
}

int reach_open(const struct reach *r, const char *path, int flags)
{
    bool xdev = r->xdev || (r->pointed && strcmp(path, r->pointed) == 0);
    int fd = beneath_open(r->root, path[0] ? path : ".", flags, xdev);

    if (fd < 0 && errno == EXDEV && r->cache >= 0) {
        return reach_open_blob(r, path, flags);
    }
    return fd;
}

/* Is a mount point on the way?  Its place in the path is found from the front: the first part that
 * cannot even be looked at, though links at its end are not followed. */
static bool reach_crosses(const struct reach *r, const char *path)
{
    char part[PATH_MAX];
    size_t n = 0;

    while (path[n]) {
        n += strspn(path + n, "/");
        n += strcspn(path + n, "/");
        if (n >= sizeof part) {
            return false;
        }
        memcpy(part, path, n);
        part[n] = '\0';
        int fd = beneath_open(r->root, part, O_PATH | O_NOFOLLOW, false);
        if (fd < 0) {
            return errno == EXDEV;
        }
        (void)close(fd);
    }
    return false;
}

bool reach_fail(const struct reach *r, const char *path, const char *what, struct zf_err *err)
{
    if (errno != EXDEV) {
        return zf_fail_sys(err, what);
    }
    if (!r->xdev && reach_crosses(r, path)) {
        (void)zf_fail(err, ZF_E_IO, ZF_OFF_NONE,
                      "cannot %s: it is on another file system that is mounted below the "
                      "checkpoint; -o xdev goes there",
                      what);
    } else {
        (void)zf_fail(err, ZF_E_IO, ZF_OFF_NONE,
                      "cannot %s: a symbolic link leads out of the checkpoint's directory%s", what,
                      r->xdev ? "" : ", or to another file system there (-o xdev follows that)");
    }
    err->sys = EXDEV;
    return false;
}
