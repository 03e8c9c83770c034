/* SPDX-License-Identifier: Apache-2.0 */
#include "place.h"

#include <stdlib.h>
#include <string.h>

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

    if (!p->ops->at(p, path, &at, err)) {
        return false;
    }
    struct http_ask ask = place_ask(&at);
    ask.method = "HEAD";
    return http_do(p->http, &ask, out, err);
}

bool place_may_ask(size_t n, uint64_t most, struct zf_err *err)
{
    return n <= most ||
           zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE,
                   "%zu files would have to be asked for one by one, more than %llu (limit "
                   "head_requests); serve a list with them, which `zerofs index DIR` makes",
                   n, (unsigned long long)most);
}

bool place_give(const struct entries *e, place_add_fn *add, void *ctx, struct zf_err *err)
{
    for (size_t i = 0; i < e->n; i++) {
        struct place_entry out = {
            .name = e->at[i].name, .dir = e->at[i].dir, .object = HTTP_OBJECT_UNKNOWN};

        if (e->at[i].sized) {
            out.object.size = e->at[i].size;
            out.object.mtime.tv_sec = e->at[i].mtime;
            out.object.date = e->date;
        }
        if (!add(ctx, &out, err)) {
            return false;
        }
    }
    return true;
}
