/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints that lie behind an address instead of a path: http(s)://host/dir/, s3://bucket/prefix
 * and so on.  What comes out is a store like any other, read by ranges. */
#ifndef ZF_REMOTE_H
#define ZF_REMOTE_H

#include <zf/base/out.h>
#include <zf/source/store.h>

struct zf_remote;

/* Adds the libraries that addresses need (zf/base/version.h); loads libcurl. */
void zf_remote_versions(struct zf_out *o);

/* The user's options; texts are copied. */
struct zf_remote_opts {
    uint32_t connections; /* to one host at a time; 0 = 16 */
    uint64_t cache_mem;   /* bytes of blocks kept in memory; 0 = 256 MiB */
    double timeout;       /* seconds until a read fails, all retries together; 0 = 120 */
    const char *cacert;   /* PEM file of the authorities to believe; NULL = the system's */
    const char *cache_dir, *local_cache; /* NULL = none */
    uint64_t cache_size;                 /* of cache_dir, bytes; 0 = no bound */
    /* NULL, or called for each attempt with a line without newline, query or credential.  From any
     * thread. */
    void (*say)(void *ctx, const char *line);
    /* NULL, or called with a line of advice that concerns an address, whether or not details are wanted. */
    void (*advise)(void *ctx, const char *line);
    void *say_ctx;
};

/* Makes nothing but a record of *o: the client and its thread begin with the first address that is
 * opened, so that a fork before that does no harm.  Errors: ZF_E_NOMEM. */
struct zf_remote *zf_remote_new(const struct zf_remote_opts *o, struct zf_err *err) ZF_CHECKED;
/* No store that it opened may be left. */
void zf_remote_free(struct zf_remote *r);
static inline void zf_auto_remote(struct zf_remote **r)
{
    zf_remote_free(*r);
}

/* Is this an address, scheme://…, of a kind that zf_remote_open knows?  *address_out, which may be
 * NULL: is it one of any kind? */
bool zf_remote_knows(const char *where, bool *address_out);

/* Opens the directory behind an address, or the directory of the one file that is behind it
 * (zf_store_focus).  Errors: ZF_E_USAGE credentials in the address, which other users can see;
 * ZF_E_UNSUPPORTED unknown, or left out when zerofs was built; ZF_E_NOENT; ZF_E_IO. */
struct zf_store *zf_remote_open(struct zf_remote *r, const char *address,
                                const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;

/* An object of which blocks are in a cache on disk. */
struct zf_cached {
    const char *url; /* without query; "" = not known */
    uint64_t bytes;  /* on disk */
    struct timespec used;
};
typedef void zf_cached_fn(void *ctx, const struct zf_cached *c);
/* Calls fn for each object in the cache at `dir`.  Errors: ZF_E_USAGE this is no cache; ZF_E_IO. */
bool zf_remote_cache_each(const char *dir, zf_cached_fn *fn, void *ctx,
                          struct zf_err *err) ZF_CHECKED;
/* Empties it, also while others use it; *bytes_out are free then.  Errors: the same. */
bool zf_remote_cache_clear(const char *dir, uint64_t *bytes_out, struct zf_err *err) ZF_CHECKED;

/* The file that stands for a listing where a web server gives none. */
#define ZF_REMOTE_INDEX "zerofs.index.json"

/* Adds such a file to *out: all files in st and below it, at most `most`; with `sha256` their content is
 * read.  Links lead nowhere else.  Errors: those of the store; ZF_E_STALE it was being written;
 * ZF_E_LIMIT; ZF_E_UNSUPPORTED a name that is no UTF-8. */
bool zf_remote_index(struct zf_store *st, bool sha256, uint64_t most, struct zf_out *out,
                     struct zf_err *err) ZF_CHECKED;

#endif
