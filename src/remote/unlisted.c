/* SPDX-License-Identifier: Apache-2.0 */
#include "unlisted.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/thread.h>

#include "index_file.h"

enum { UNLISTED_INDEX = 256 << 20 }; /* bytes of a list */
/* After this many files were requested one by one, `zerofs index` is recommended to the user. */
#define UNLISTED_MANY 200

struct unlisted {
    struct place *place;
    const struct zf_limits *lim;
    struct names *names;
    pthread_mutex_t count_lock; /* guards `told`, `found` and `asked` */
    pthread_mutex_t lock; /* guards `sought`, `has` and `index`; held while the list is fetched */
    bool sought, has;     /* the list was requested; it exists */
    bool told;            /* `zerofs index` was recommended */
    bool found; /* a file was found; without any, the error message already names `zerofs index` */
    uint64_t asked; /* number of files requested */
    struct index_file index;
};

/* ---- requests -------------------------------------------------------------------------------- */

bool unlisted_missing(const struct http_reply *r)
{
    return r->status == 404 || r->status == 410 || r->status == 403 || r->status == 405;
}

/* The files that unlisted_have requests. */
struct unlisted_asked {
    struct unlisted *u;
    const char *const *path;
    struct names_found *out;
};

static void unlisted_met(struct unlisted *u)
{
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&u->count_lock);
    u->found = true;
}

static bool unlisted_ask(void *ctx, size_t i, struct zf_err *err)
{
    const struct unlisted_asked *a = ctx;
    struct names_found *out = &a->out[i];
    zf_auto(http_reply) struct http_reply r = {.status = 0};

    out->is = place_head(a->u->place, a->path[i], &r, err);
    out->size = r.object.size == HTTP_SIZE_UNKNOWN ? NAMES_UNSIZED : r.object.size;
    if (out->is)
        unlisted_met(a->u);
    return out->is || unlisted_missing(&r);
}

static bool unlisted_count(struct unlisted *u, size_t n, struct zf_err *err)
{
    char line[600];

    (void)pthread_mutex_lock(&u->count_lock);
    u->asked += n;
    const bool tell = !u->told && u->found && u->asked >= UNLISTED_MANY;
    u->told = u->told || tell;
    (void)pthread_mutex_unlock(&u->count_lock);
    if (tell) {
        (void)snprintf(
            line, sizeof line,
            "note: %.300s has no listing, so hundreds of names are requested one by one. To write "
            "a list that is read instead, run where the files are: zerofs index DIR",
            u->place->shown);
        http_advise(u->place->http, line);
    }
    return place_may_ask(n, u->lim->head_requests, err);
}

bool unlisted_have(struct unlisted *u, const char *const *path, size_t n, struct names_found *out,
                   struct zf_err *err)
{
    struct unlisted_asked a = {u, path, out};
    const struct http_many heads = {.ask = unlisted_ask, .ctx = &a};
    size_t bad;

    return unlisted_count(u, n, err) && http_each(u->place->http, &heads, n, &bad, err);
}

/* Fetches a whole file into r->body. */
static bool unlisted_get(struct unlisted *u, const char *path, uint64_t max_bytes,
                         struct http_reply *r, struct zf_err *err)
{
    zf_auto(place_at) struct place_at at = {.url = NULL};

    if (!u->place->ops->at(u->place, path, &at, err))
        return false;
    struct http_ask ask = place_ask(&at);
    ask.max_body = max_bytes;
    return http_do(u->place->http, &ask, r, err);
}

static bool unlisted_op_have(void *ctx, const char *const *path, size_t n, struct names_found *out,
                             struct zf_err *err)
{
    return unlisted_have(ctx, path, n, out, err);
}

static char *unlisted_op_get(void *ctx, const char *path, uint64_t max_bytes, uint64_t *n_out,
                             struct zf_err *err)
{
    zf_auto(http_reply) struct http_reply r = {.status = 0};

    if (!unlisted_get(ctx, path, max_bytes, &r, err))
        return NULL;
    char *text = (char *)r.body;
    *n_out = r.n_body;
    r.body = NULL;
    return text ? text : strdup("");
}

static const struct names_ops unlisted_names = {.have = unlisted_op_have, .get = unlisted_op_get};

/* ---- the list -------------------------------------------------------------------------------- */

/* Fetches the list when first needed, unless the server has listed a directory.  The caller holds the lock. */
static bool unlisted_seek(struct unlisted *u, struct zf_err *err)
{
    zf_auto(http_reply) struct http_reply r = {.status = 0};

    if (u->sought || atomic_load_explicit(&u->place->lists_all, memory_order_relaxed))
        return true;
    if (!unlisted_get(u, INDEX_FILE_NAME, UNLISTED_INDEX, &r, err)) {
        u->sought = unlisted_missing(&r);
        return u->sought;
    }
    if (!index_file_read((const char *)r.body, r.n_body, u->lim, &u->index, err))
        return zf_err_in(err, "%s/%s", u->place->shown, INDEX_FILE_NAME);
    u->sought = u->has = true;
    atomic_store_explicit(&u->place->lists_all, true, memory_order_relaxed);
    return true;
}

bool unlisted_known(struct unlisted *u)
{
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&u->lock);
    return u->has;
}

bool unlisted_list(struct unlisted *u, const char *dir, struct entries *out, struct zf_err *err)
{
    (void)pthread_mutex_lock(&u->lock);
    bool ok = unlisted_seek(u, err), has = u->has;
    (void)pthread_mutex_unlock(&u->lock);

    if (!ok)
        return false;
    zf_err_clear(err);
    if (has)
        return index_file_list(&u->index, dir, out, err);
    return names_list(u->names, dir, u->place->focus, out, err);
}

/* ---- life ------------------------------------------------------------------------------------ */

struct unlisted *unlisted_new(struct place *p, const struct zf_limits *lim, struct zf_err *err)
{
    struct unlisted *u = calloc(1, sizeof *u);

    if (!u)
        return zf_null(zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory"));
    (void)pthread_mutex_init(&u->lock, NULL);
    (void)pthread_mutex_init(&u->count_lock, NULL);
    u->place = p;
    u->lim = lim;
    u->names = names_new(&unlisted_names, u, lim, err);
    if (!u->names) {
        unlisted_free(u);
        return NULL;
    }
    return u;
}

void unlisted_free(struct unlisted *u)
{
    if (!u)
        return;
    names_free(u->names);
    index_file_fini(&u->index);
    (void)pthread_mutex_destroy(&u->lock);
    (void)pthread_mutex_destroy(&u->count_lock);
    free(u);
}
