/* SPDX-License-Identifier: Apache-2.0 */
/* Files that a directory store may open: all beneath its root and, when the root is a snapshot of a
 * Hugging Face cache, beneath that cache's directory; other file systems that are mounted there, and what links lead
 * to that leave it, only when it is asked for. */
#ifndef SOURCE_REACH_H
#define SOURCE_REACH_H

#include <stdbool.h>

#include <zf/base/err.h>

struct reach {
    int root;       /* O_PATH descriptor of the root */
    char *abs;      /* its absolute path, links resolved */
    int cache;      /* O_PATH descriptor of the cache directory, or -1 */
    size_t n_cache; /* abs[0, n_cache) is the cache directory's path */
    bool xdev;      /* go into other file systems */
    bool links;     /* follow links that leave */
    char *pointed;  /* the one path that the user named, wherever it is; or NULL */
};

/* `abs` is absolute with links resolved.  xdev, links and pointed are the caller's to set afterwards; the
 * latter is freed with the rest.  Errors: ZF_E_IO, ZF_E_NOENT, ZF_E_NOMEM. */
bool reach_init(struct reach *r, const char *abs, struct zf_err *err) ZF_CHECKED;
/* Opens the same directories again by their paths, for descriptors whose file system went away; is: may that be?
 * False: they stay. */
bool reach_again(struct reach *r, bool (*is)(const void *ctx, int fd), const void *ctx);
void reach_fini(struct reach *r);

/* As beneath_open; path "" = the root. */
int reach_open(const struct reach *r, const char *path, int flags);

/* Reports errno of a failed reach_open of `path`, like zf_fail_sys, with a better sentence for
 * EXDEV. */
bool reach_fail(const struct reach *r, const char *path, const char *what, struct zf_err *err);

#endif
