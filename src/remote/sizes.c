/* SPDX-License-Identifier: Apache-2.0 */
#include "sizes.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/path.h>

/* Asked for at the same time at most; the client has fewer connections. */
#define SIZES_WINDOW 64

bool sizes_add(void *ctx, const struct place_entry *e, struct zf_err *err)
{
    const struct sizes_adding *a = ctx;

    if (!zf_relpath_ok(e->name) || strchr(e->name, '/')) {
        return true; /* "..", say: no way to a file */
    }
    if (a->all->n >= a->most) {
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE,
                       "the directory has more than %" PRIu64 " entries (limit dir_entries)",
                       a->most);
    }
    struct sizes_entry *to = zf_vec_push(a->all, err);
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

static struct http_call *sizes_ask(struct place *p, const char *dir, const struct sizes_entry *e,
                                   struct zf_err *err)
{
    zf_auto(mem) char *path = zf_relpath_join(dir, e->name, err);
    zf_auto(place_at) struct place_at at = {.url = NULL};

    if (!path || !p->ops->at(p, path, &at, err)) {
        return NULL;
    }
    struct http_ask ask = place_ask(&at);
    ask.method = "HEAD";
    return http_start(p->http, &ask, err);
}

/* What the server refuses is there, but cannot be read; that is said when it is opened. */
static bool sizes_take(struct http_call *c, struct sizes_entry *e, struct zf_err *err)
{
    zf_auto(http_reply) struct http_reply r = {.status = 0};
    bool ok = http_wait(c, &r, err);

    if (!ok && r.status < 300) {
        return false;
    }
    e->gone = !ok || r.object.size == HTTP_SIZE_UNKNOWN;
    if (ok) {
        e->object = r.object;
    }
    return true;
}

bool sizes_mark(struct sizes *all)
{
    for (size_t i = 0; i < all->n; i++) {
        struct sizes_entry *e = &all->at[i];

        e->asked = !e->dir && e->object.size == HTTP_SIZE_UNKNOWN;
    }
    return true;
}

bool sizes_complete(struct place *p, const char *dir, struct sizes *all, struct zf_err *err)
{
    struct http_call *call[SIZES_WINDOW];
    size_t at[SIZES_WINDOW], begun = 0, n_calls = 0, waited = 0;
    bool ok = sizes_mark(all);

    while (ok && (begun < all->n || waited < n_calls)) {
        if (begun < all->n && n_calls - waited < SIZES_WINDOW) {
            const struct sizes_entry *e = &all->at[begun];

            if (e->asked) {
                at[n_calls % SIZES_WINDOW] = begun;
                call[n_calls % SIZES_WINDOW] = sizes_ask(p, dir, e, err);
                ok = call[n_calls % SIZES_WINDOW] != NULL;
                n_calls += ok;
            }
            begun++;
            continue;
        }
        struct sizes_entry *e = &all->at[at[waited % SIZES_WINDOW]];
        ok = sizes_take(call[waited % SIZES_WINDOW], e, err);
        if (!ok) {
            err->path[0] = '\0';
            (void)zf_err_in(err, "%s", e->name);
        }
        waited++;
    }
    for (; waited < n_calls; waited++) {
        http_cancel(call[waited % SIZES_WINDOW]);
    }
    return ok;
}
