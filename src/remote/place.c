/* SPDX-License-Identifier: Apache-2.0 */
#include "place.h"

#include <stdlib.h>
#include <string.h>

#include <zf/base/path.h>
#include <zf/base/thread.h>

void *place_make(size_t each, const struct place_ops *ops, const struct place_new *n,
                 struct zf_err *err)
{
    struct place *p = calloc(1, each);
    char *shown = strdup(n->address);

    if (!p || !shown) {
        (void)zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
        free(p);
        free(shown);
        return NULL;
    }
    p->ops = ops;
    p->http = n->http;
    p->shown = shown;
    return p;
}

void place_free(struct place *p)
{
    free(p->shown);
    free(p->focus);
    free(p);
}

struct http_ask place_ask(const struct place_at *at)
{
    return (struct http_ask){.url = at->url,
                             .header = at->header,
                             .n_header = at->n_header,
                             .auth = at->auth,
                             .netrc = at->netrc};
}

bool place_head(struct place *p, const char *path, struct http_reply *out, struct zf_err *err)
{
    zf_auto(place_at) struct place_at at = {.url = NULL};

    if (!p->ops->at(p, path, &at, err))
        return false;
    struct http_ask ask = place_ask(&at);
    ask.method = "HEAD";
    return http_do(p->http, &ask, out, err);
}

bool place_may_ask(size_t n, uint64_t most, struct zf_err *err)
{
    return n <= most ||
           zf_fail_limit(err, ZF_LIMIT_head_requests, ZF_OFF_NONE,
                         "%zu files would have to be requested one by one, more than %llu (limit "
                         "head_requests). Write a list and serve it with them: zerofs index DIR",
                         n, (unsigned long long)most);
}

/* The entries of a directory whose sizes are requested. */
struct place_sizes {
    struct place *p;
    const char *dir;
    struct entries *all;
    pthread_mutex_t lock; /* guards *all */
};

static bool place_size_due(void *ctx, size_t i)
{
    return ((const struct place_sizes *)ctx)->all->at[i].asked;
}

/* Sends a HEAD for entry i.  A file whose HEAD is refused exists but cannot be read; opening it reports the reason. */
static bool place_size(void *ctx, size_t i, struct zf_err *err)
{
    struct place_sizes *a = ctx;
    const char *name = a->all->at[i].name;
    zf_auto(http_reply) struct http_reply r = {.status = 0};
    zf_auto(mem) char *path = zf_relpath_join(a->dir, name, err);
    bool ok = path && place_head(a->p, path, &r, err);

    if (!ok && r.status < 300) {
        err->path[0] = '\0';
        return zf_err_in(err, "%s", name);
    }
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&a->lock);
    a->all->at[i].gone = !ok || r.object.size == HTTP_SIZE_UNKNOWN;
    ok = !ok || entries_set(a->all, i, &r.object, err);
    return ok;
}

bool place_complete(struct place *p, const char *dir, struct entries *all, bool named,
                    uint64_t most, struct zf_err *err)
{
    struct place_sizes a = {p, dir, all, PTHREAD_MUTEX_INITIALIZER};
    const struct http_many heads = {.due = place_size_due, .ask = place_size, .ctx = &a};
    size_t bad, asked = 0;

    for (size_t i = 0; i < all->n; i++) {
        struct entry *e = &all->at[i];

        e->asked = !e->dir && !e->sized;
        asked += e->asked;
    }
    return named || !asked ||
           (place_may_ask(asked, most, err) && http_each(p->http, &heads, all->n, &bad, err));
}
