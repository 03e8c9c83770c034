/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints behind a URL instead of a path: http(s)://host/dir/, s3://bucket/prefix and so on.  They are opened as a
 * store like any other, and read with range requests. */
#ifndef ZF_REMOTE_H
#define ZF_REMOTE_H

#include <zf/base/out.h>
#include <zf/source/store.h>

struct zf_remote;

/* Adds the versions of the libraries needed for URLs (zf/base/version.h); loads libcurl. */
void zf_remote_versions(struct zf_out *o);

/* The user's options; strings are copied. */
struct zf_remote_opts {
    uint32_t connections; /* maximum per host; 0 = 16 */
    uint64_t cache_mem;   /* bytes of blocks cached in memory; 0 = 256 MiB */
    double timeout;       /* seconds until a read fails, including all retries; 0 = 120 */
    const char *cacert;   /* PEM file of trusted certificate authorities; NULL = the system's */
    const char *cache_dir, *local_cache; /* NULL = none */
    uint64_t cache_size;                 /* limit of cache_dir, bytes; 0 = no limit */
    /* Log callback, called for each attempt from any thread with a line that has no newline, query or credential.  NULL =
     * no log. */
    void (*say)(void *ctx, const char *line);
    /* Called with a line of advice to the user, independently of the log; may be NULL. */
    void (*advise)(void *ctx, const char *line);
    void *say_ctx;
};

/* Records *o.  The HTTP client and its thread start when the first URL is opened, so the process may fork before that.
 * Errors: ZF_E_NOMEM. */
struct zf_remote *zf_remote_new(const struct zf_remote_opts *o, struct zf_err *err) ZF_CHECKED;
/* All stores opened with it must be closed before.  NULL is fine. */
void zf_remote_free(struct zf_remote *r);
static inline void zf_auto_remote(struct zf_remote **r)
{
    zf_remote_free(*r);
}

/* Is `where` a URL with a scheme that zf_remote_open supports?  *address_out (may be NULL): is it a URL at all? */
bool zf_remote_knows(const char *where, bool *address_out);

/* Opens the directory at a URL, or for the URL of a file its directory (zf_store_focus).  Errors: ZF_E_USAGE credentials in
 * the URL, where other users can see them; ZF_E_UNSUPPORTED unknown scheme, or not compiled in; ZF_E_NOENT; ZF_E_IO. */
struct zf_store *zf_remote_open(struct zf_remote *r, const char *address,
                                const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;

/* An object with blocks in the disk cache. */
struct zf_cached {
    const char *url; /* without query; "" = not known */
    uint64_t bytes;  /* on disk */
    struct timespec used;
};
typedef void zf_cached_fn(void *ctx, const struct zf_cached *c);
/* Calls fn for each object in the cache at `dir`.  Errors: ZF_E_USAGE not a cache; ZF_E_IO. */
bool zf_remote_cache_each(const char *dir, zf_cached_fn *fn, void *ctx,
                          struct zf_err *err) ZF_CHECKED;
/* Empties the cache, even while other processes use it; *bytes_out is the number of bytes freed.  Errors: the same. */
bool zf_remote_cache_clear(const char *dir, uint64_t *bytes_out, struct zf_err *err) ZF_CHECKED;

/* The list of files that is read where a web server gives no directory listing. */
#define ZF_REMOTE_INDEX "zerofs.index.json"

/* Writes such a list of all files in and below st to *out, at most `most` files; sha256: reads the files and adds their
 * digests.  Links out of st are not followed.  Errors: those of the store; ZF_E_STALE a file was being written;
 * ZF_E_LIMIT; ZF_E_UNSUPPORTED a name that is not UTF-8. */
bool zf_remote_index(struct zf_store *st, bool sha256, uint64_t most, struct zf_out *out,
                     struct zf_err *err) ZF_CHECKED;

#endif
