/* SPDX-License-Identifier: Apache-2.0 */
#include "sizes.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/path.h>

bool sizes_add(void *ctx, const struct place_entry *e, struct zf_err *err)
{
    struct sizes *all = ctx;

    if (!zf_relpath_ok(e->name) || strchr(e->name, '/')) {
        return true; /* "..", say: no way to a file */
    }
    if (all->n >= all->most) {
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE,
                       "the directory has more than %" PRIu64 " entries (limit dir_entries)",
                       all->most);
    }
    struct sizes_entry *to = zf_vec_push(all, err);
    if (!to) {
        return false;
    }
    *to = (struct sizes_entry){.name = strdup(e->name), .dir = e->dir, .object = e->object};
    return to->name || zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
}

void sizes_fini(struct sizes *all)
{
    for (size_t i = 0; i < all->n; i++) {
        free(all->at[i].name);
    }
    zf_vec_fini(all);
}

/* The entries of a directory whose sizes are asked for. */
struct sizes_asked {
    struct place *p;
    const char *dir;
    struct sizes *all;
};

static bool sizes_due(void *ctx, size_t i)
{
    return ((const struct sizes_asked *)ctx)->all->at[i].asked;
}

/* A refused file exists but cannot be read; opening it reports that. */
static bool sizes_ask(void *ctx, size_t i, struct zf_err *err)
{
    const struct sizes_asked *a = ctx;
    struct sizes_entry *e = &a->all->at[i];
    zf_auto(http_reply) struct http_reply r = {.status = 0};
    zf_auto(mem) char *path = zf_relpath_join(a->dir, e->name, err);
    bool ok = path && place_head(a->p, path, &r, err);

    if (!ok && r.status < 300) {
        err->path[0] = '\0';
        return zf_err_in(err, "%s", e->name);
    }
    e->gone = !ok || r.object.size == HTTP_SIZE_UNKNOWN;
    if (ok) {
        e->object = r.object;
    }
    return true;
}

void sizes_mark(struct sizes *all)
{
    for (size_t i = 0; i < all->n; i++) {
        struct sizes_entry *e = &all->at[i];

        e->asked = !e->dir && e->object.size == HTTP_SIZE_UNKNOWN;
    }
}

bool sizes_complete(struct place *p, const char *dir, struct sizes *all, struct zf_err *err)
{
    struct sizes_asked a = {p, dir, all};
    const struct http_many heads = {.due = sizes_due, .ask = sizes_ask, .ctx = &a};
    size_t bad, asked = 0;

    sizes_mark(all);
    for (size_t i = 0; i < all->n; i++) {
        asked += all->at[i].asked;
    }
    return place_may_ask(asked, all->most_asked, err) &&
           http_each(p->http, &heads, all->n, &bad, err);
}
