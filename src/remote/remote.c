/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <zf/base/thread.h>
#include <zf/remote.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "blockcache.h"
#include "object.h"
#include "url.h"

/* The schemes of all builds, so that a scheme left out of this build is reported as such and not as unknown. */
static const char *const remote_scheme[] = {"http", "https", "s3", "r2",
                                            "weka", "gs",    "hf", "file"};

bool zf_remote_knows(const char *where, bool *address_out)
{
    struct url u;
    const bool address = url_split(where, &u);

    if (address_out)
        *address_out = u.scheme.n > 1;
    for (size_t i = 0; address && i < sizeof remote_scheme / sizeof remote_scheme[0]; i++)
        if (url_part_is(u.scheme, remote_scheme[i]))
            return true;
    return false;
}

/* Opens file:///a%20b, a path of this machine. */
static struct zf_store *remote_open_file(const char *address, const struct zf_limits *lim,
                                         struct zf_err *err)
{
    zf_auto(out) struct zf_out local = {.p = NULL};
    struct url u;

    if (!url_split(address, &u) || u.user.p || u.port.n ||
        (u.host.n && !url_part_is(u.host, "localhost")) || !u.path.n ||
        !url_decode(&local, u.path.p, strlen(u.path.p), false)) {
        (void)zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                      "expected file:///PATH, with %%XX for special bytes");
        return zf_null(zf_err_in(err, "%s", address));
    }
    return zf_out_ok(&local, err) ? zf_store_dir(zf_out_text(&local), lim, err) : NULL;
}

struct zf_remote {
    struct zf_remote_opts opts;
    pthread_mutex_t lock; /* guards the members below, which are created with the first URL */
    struct http *http;
    struct blockcache *cache;
    struct diskcache *disk;
};

#define REMOTE_CACHE (256ull << 20)

/* Replaces *text by a copy. */
static bool remote_keep(const char **text)
{
    const char *was = *text;

    *text = was ? strdup(was) : NULL;
    return !was || *text;
}

struct zf_remote *zf_remote_new(const struct zf_remote_opts *o, struct zf_err *err)
{
    struct zf_remote *r = calloc(1, sizeof *r);

    if (!r)
        return zf_null(zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory"));
    r->opts = *o;
    (void)pthread_mutex_init(&r->lock, NULL);
    bool kept = remote_keep(&r->opts.cacert);
    kept = remote_keep(&r->opts.cache_dir) && kept;
    kept = remote_keep(&r->opts.local_cache) && kept;
    if (!kept) {
        zf_remote_free(r);
        return zf_null(zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory"));
    }
    return r;
}

void zf_remote_free(struct zf_remote *r)
{
    if (!r)
        return;
    http_free(r->http);
    diskcache_free(r->disk);
    blockcache_free(r->cache);
    free((char *)(uintptr_t)r->opts.cacert);
    free((char *)(uintptr_t)r->opts.cache_dir);
    free((char *)(uintptr_t)r->opts.local_cache);
    (void)pthread_mutex_destroy(&r->lock);
    free(r);
}

/* Creates client and caches with the first URL. */
static bool remote_begin(struct zf_remote *r, struct zf_err *err)
{
    uint64_t bytes = r->opts.cache_mem ? r->opts.cache_mem : REMOTE_CACHE;

    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&r->lock);
    r->cache = r->cache ? r->cache : blockcache_new(bytes, err);
    r->http = r->cache && !r->http ? http_new(&r->opts, err) : r->http;
    if (r->http && r->opts.cache_dir && !r->disk)
        r->disk = diskcache_new(r->opts.cache_dir, r->opts.cache_size, err);
    return r->cache && r->http && (r->disk || !r->opts.cache_dir);
}

/* ---- places ---------------------------------------------------------------------------------- */

static struct place *remote_place(struct zf_remote *r, const char *address,
                                  const struct zf_limits *lim, struct zf_err *err)
{
    const struct place_new n = {.http = r->http, .lim = lim, .address = address};

#define SCHEME(name, kind)                                                                         \
    if (url_is(address, #name))                                                                    \
        return place_open_##kind(&n, err);
#include "table.def"
#undef SCHEME
    return zf_null(zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                           "this build of zerofs does not read %.*s://", (int)strcspn(address, ":"),
                           address));
}

static struct zf_store *remote_store(struct zf_remote *r, const char *address, const char *focus,
                                     const struct zf_limits *lim, struct zf_err *err)
{
    struct place *p = remote_place(r, address, lim, err);

    const struct store_config w = {
        .focus = focus, .cache = r->cache, .disk = r->disk, .local = r->opts.local_cache};

    return p ? store_of_place(p, &w, lim, err) : NULL;
}

static struct zf_store *remote_open_dir(struct zf_remote *r, const char *address,
                                        const struct zf_limits *lim, struct zf_err *err)
{
    struct zf_store *st = remote_store(r, address, NULL, lim, err);
    const struct zf_entry *e;
    size_t n = 0;

    /* Without listings, files may still be requested by name. */
    if (st && !zf_store_list(st, "", &e, &n, err) && err->code != ZF_E_UNSUPPORTED)
        zf_store_unref(&st);
    return st;
}

/* Does the name look like a file?  Most URLs are directories, even without a trailing slash; one with such a name is tried
 * as a file first. */
static bool remote_is_file_name(const char *name)
{
    static const char *const suffix[] = {".safetensors", ".pt",   ".pth", ".bin",
                                         ".ckpt",        ".json", ".tar", ".nemo"};
    size_t n = strlen(name);

    for (size_t i = 0; i < sizeof suffix / sizeof suffix[0]; i++) {
        size_t s = strlen(suffix[i]);

        if (n > s && strcasecmp(name + n - s, suffix[i]) == 0)
            return true;
    }
    return false;
}

/* Opens the directory of a single file.  NULL also if the file does not exist. */
static struct zf_store *remote_open_one(struct zf_remote *r, const char *address, const char *slash,
                                        const struct zf_limits *lim, struct zf_err *err)
{
    zf_auto(mem) char *dir = strndup(address, (size_t)(slash - address));
    zf_auto(out) struct zf_out name = {.p = NULL};

    /* Only http and https URLs are percent-encoded. */
    if (!url_is_web(address) || !url_decode(&name, slash + 1, strlen(slash + 1), false)) {
        zf_out_cut(&name, 0);
        zf_out_str(&name, slash + 1);
    }
    if (!dir || name.bad)
        return zf_null(zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory"));
    struct zf_store *st = remote_store(r, dir, zf_out_text(&name), lim, err);
    struct zf_source *src = st ? zf_store_open(st, zf_out_text(&name), err) : NULL;
    if (st && !src)
        zf_store_unref(&st);
    zf_source_unref(&src);
    return st;
}

static struct zf_store *remote_open_url(struct zf_remote *r, const char *address,
                                        const struct zf_limits *lim, struct zf_err *err)
{
    struct zf_err why = {.code = ZF_OK};
    struct url u;
    const char *slash = url_split(address, &u) ? strrchr(u.path.p, '/') : NULL;
    bool inner = slash && slash[1] && slash > u.path.p; /* the last part is not all of the path */

    if (slash && slash[1] && remote_is_file_name(slash + 1)) {
        struct zf_store *st = remote_open_one(r, address, slash, lim, err);
        if (st || err->code != ZF_E_NOENT)
            return st;
    }
    struct zf_store *st = remote_open_dir(r, address, lim, err);
    if (!st && err->code == ZF_E_NOENT && inner && !remote_is_file_name(slash + 1))
        st = remote_open_one(r, address, slash, lim, &why);
    return st;
}

/* Refuses credentials and queries in the URL: it is visible in the process list and in /proc/mounts. */
static bool remote_check(const char *address, struct zf_err *err)
{
    struct url u;

    if (url_split(address, &u) && u.user.p && !url_part_is(u.scheme, "hf")) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                       "the address contains a user or password, which other users of this machine "
                       "could see. Put them into ~/.netrc or the environment");
    }
    if (url_is_web(address) && strpbrk(address, "?#")) {
        return zf_fail(
            err, ZF_E_USAGE, ZF_OFF_NONE,
            "the address has a query or fragment, so it does not name a directory or file");
    }
    return true;
}

struct zf_store *zf_remote_open(struct zf_remote *r, const char *address,
                                const struct zf_limits *lim, struct zf_err *err)
{
    zf_auto(mem) char *plain = strdup(address);
    size_t n = plain ? strlen(plain) : 0, least = strcspn(address, ":") + 3;
    struct zf_store *st = NULL;

    if (url_is(address, "file"))
        return remote_open_file(address, lim, err);
    while (n > least && plain[n - 1] == '/')
        plain[--n] = '\0';
    if (!plain)
        (void)zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    else if (remote_check(address, err) && remote_begin(r, err))
        st = remote_open_url(r, plain, lim, err);
    if (!st && !err->path[0]) {
        zf_auto(mem) char *shown = url_shown(address);
        (void)zf_err_in(err, "%s", shown ? shown : "the address");
    }
    return st;
}
