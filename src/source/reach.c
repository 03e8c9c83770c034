/* SPDX-License-Identifier: Apache-2.0 */
/* Links are followed as long as they stay below the root.  A Hugging Face cache keeps a repository as
 *     models--org--name/snapshots/<revision>/<file> -> ../../blobs/<hash>
 * so the files of a snapshot are links out of it: for a snapshot, all of models--org--name is allowed.
 * Source: huggingface_hub, file_download.py, _create_symlink (relative, or absolute across
 * volumes). */
#include "pool.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zf/base/fd.h>

#include "beneath.h"

/* The length of C in "C/snapshots[/<revision>…]" (the last "snapshots" counts); 0: there is none. */
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

/* Opens C if C/blobs exists. */
static void reach_find_cache(struct reach *r)
{
    r->n_cache = reach_cache_len(r->abs);
    if (r->n_cache == 0)
        return;
    char *dir = strndup(r->abs, r->n_cache);
    int fd = dir ? open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    free(dir);
    if (fd >= 0 && faccessat(fd, "blobs", X_OK, 0) == 0)
        r->cache = fd;
    else if (fd >= 0)
        (void)close(fd);
}

bool reach_init(struct reach *r, const char *abs, struct zf_err *err)
{
    *r = (struct reach){.root = -1, .cache = -1, .abs = strdup(abs)};
    if (!r->abs)
        return zf_fail_sys(err, "keep a path");
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

/* Replaces the file behind fd; dup3(2) is atomic, so threads that use fd meanwhile get the old or the new one. */
static bool reach_replace(int fd, int by)
{
    return fd < 0 || dup3(by, fd, O_CLOEXEC) >= 0;
}

bool reach_again(struct reach *r, bool (*is)(const void *ctx, int fd), const void *ctx)
{
    zf_auto(mem) char *dir = strndup(r->abs, r->n_cache);
    zf_auto(fd) int root = open(r->abs, O_PATH | O_DIRECTORY | O_CLOEXEC);
    zf_auto(fd) int cache = r->cache >= 0 && dir ? open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;

    return root >= 0 && (r->cache < 0 || cache >= 0) && is(ctx, root) &&
           reach_replace(r->cache, cache) && reach_replace(r->root, root);
}

void reach_fini(struct reach *r)
{
    zf_auto_fd(&r->root);
    zf_auto_fd(&r->cache);
    free(r->abs);
    free(r->pointed);
    *r = (struct reach){.root = -1, .cache = -1};
}

/* Links may lead anywhere below this directory; `abs` recognizes absolute links that do. */
struct reach_base {
    int dir;
    const char *abs;
    size_t n_abs;
    bool xdev;
};

#define REACH_LINKS 40 /* the kernel's limit */

/* Replaces the link at path[0, n) by its target `text`. */
static bool reach_put_link(const struct reach_base *b, char path[PATH_MAX], size_t n,
                           const char *text)
{
    char out[2 * PATH_MAX];
    size_t dir = n;
    int len;

    if (text[0] == '/') {
        if (strncmp(text, b->abs, b->n_abs) != 0 || (text[b->n_abs] && text[b->n_abs] != '/')) {
            errno = EXDEV;
            return false;
        }
        text += b->n_abs + strspn(text + b->n_abs, "/");
        dir = 0;
    }
    while (dir > 0 && path[dir - 1] != '/')
        dir--;
    len = snprintf(out, sizeof out, "%.*s%s%s", (int)dir, path, *text ? text : ".", path + n);
    if (len < 0 || len >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return false;
    }
    memcpy(path, out, (size_t)len + 1);
    return true;
}

/* Reads the target of the first symbolic link on the path, which ends at path[*n]; "" = there is none.  A link at the
 * end of the path counts only when `last`. */
static bool reach_first_link(const struct reach_base *b, const char *path, bool last, size_t *n,
                             char text[PATH_MAX])
{
    char part[PATH_MAX];

    text[0] = '\0';
    for (*n = 0; path[*n + strspn(path + *n, "/")];) {
        *n += strspn(path + *n, "/");
        *n += strcspn(path + *n, "/");
        memcpy(part, path, *n);
        part[*n] = '\0';
        zf_auto(fd) int fd = beneath_open(b->dir, part, O_PATH | O_NOFOLLOW, b->xdev);
        ssize_t got = fd < 0 ? -1 : readlinkat(fd, "", text, PATH_MAX - 1);
        if (fd < 0)
            return false;
        text[got > 0 ? got : 0] = '\0';
        if (got > 0 && (last || path[*n]))
            return true;
        text[0] = '\0';
    }
    return true;
}

/* RESOLVE_BENEATH refuses every absolute link.  Those that stay beneath are replaced by their targets; the final path is
 * opened by beneath_open again, so a link that is swapped meanwhile cannot lead out. */
static int reach_open_inside(const struct reach_base *b, char path[PATH_MAX], int flags)
{
    char text[PATH_MAX];
    size_t n;

    for (int links = 0; links <= REACH_LINKS; links++) {
        int fd = beneath_open(b->dir, path, flags, b->xdev);

        if (fd >= 0 || errno != EXDEV)
            return fd;
        if (!reach_first_link(b, path, !(flags & O_NOFOLLOW), &n, text))
            return -1;
        if (!text[0]) {
            errno = EXDEV;
            return -1;
        }
        if (!reach_put_link(b, path, n, text))
            return -1;
    }
    errno = ELOOP;
    return -1;
}

static bool reach_crosses(const struct reach *r, const char *path);

int reach_open(const struct reach *r, const char *path, int flags)
{
    const bool xdev = r->xdev || (r->pointed && strcmp(path, r->pointed) == 0);
    const bool hub = r->cache >= 0;
    char full[PATH_MAX];

    path = path[0] ? path : ".";
    int fd = beneath_open(r->root, path, flags, xdev);
    if (fd >= 0 || errno != EXDEV)
        return fd;
    const struct reach_base b = {.dir = hub ? r->cache : r->root,
                                 .abs = r->abs,
                                 .n_abs = hub                   ? r->n_cache
                                          : strcmp(r->abs, "/") ? strlen(r->abs)
                                                                : 0,
                                 .xdev = xdev};
    int n = snprintf(full, sizeof full, "%s%s%s", hub ? r->abs + r->n_cache + 1 : "",
                     hub ? "/" : "", path);
    fd = n > 0 && (size_t)n < sizeof full ? reach_open_inside(&b, full, flags) : -1;
    if (fd >= 0 || errno != EXDEV || !r->links || (!xdev && reach_crosses(r, path)))
        return fd;
    return beneath_leave(r->root, path, flags);
}

/* Does the path cross a mount point before any link? */
static bool reach_crosses(const struct reach *r, const char *path)
{
    const struct reach_base b = {.dir = r->root};
    char text[PATH_MAX];
    const int keep = errno;
    size_t n;

    bool crosses =
        strlen(path) < PATH_MAX && !reach_first_link(&b, path, true, &n, text) && errno == EXDEV;
    errno = keep;
    return crosses;
}

bool reach_fail(const struct reach *r, const char *path, const char *what, struct zf_err *err)
{
    if (errno != EXDEV)
        return zf_fail_sys(err, what);
    if (!r->xdev && reach_crosses(r, path)) {
        (void)zf_fail(err, ZF_E_IO, ZF_OFF_NONE,
                      "cannot %s: it is on another file system that is mounted below the "
                      "checkpoint. Enter it with -o xdev",
                      what);
    } else {
        (void)zf_fail(err, ZF_E_IO, ZF_OFF_NONE,
                      "cannot %s: a symbolic link leads out of the checkpoint's directory%s%s",
                      what, r->xdev ? "" : ", or to another file system there",
                      r->links ? "" : ". Follow it with -o links");
    }
    err->sys = EXDEV;
    return false;
}
