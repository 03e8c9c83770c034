/* SPDX-License-Identifier: Apache-2.0 */
/* http://host/dir/ and https://: a directory is what the server lists of it. */
#include <stdlib.h>
#include <string.h>

#include "place.h"
#include "url.h"

struct http_place {
    struct place place;
    char *base; /* the URL, with a '/' at its end */
};

static bool http_place_at(struct place *p, const char *path, struct place_at *out,
                          struct zf_err *err)
{
    const struct http_place *h = (const struct http_place *)p;
    struct zf_out o = {0};

    zf_out_str(&o, h->base);
    url_quote(&o, path, "");
    *out = (struct place_at){.url = o.p};
    return zf_out_ok(&o, err);
}

/* The name that a link to something in the same directory means: "name" or "name/". */
static bool http_place_link(const char *href, size_t n, place_add_fn *add, void *ctx,
                            struct zf_err *err)
{
    char name[1024];
    bool dir = n && href[n - 1] == '/';

    n -= dir;
    if (!n || memchr(href, '/', n) || memchr(href, '?', n) || memchr(href, '#', n) ||
        !url_unquote(href, n, name, sizeof name) || strcmp(name, ".") == 0 ||
        strcmp(name, "..") == 0 || strchr(name, '/')) {
        return true;
    }
    return add(ctx,
               &(struct place_entry){.name = name, .dir = dir, .object = HTTP_OBJECT_UNKNOWN},
               err);
}

static bool http_place_links(const char *html, place_add_fn *add, void *ctx, struct zf_err *err)
{
    for (const char *at = html; (at = strstr(at, "href=\""));) {
        size_t n = strcspn(at += 6, "\"");

        if (!http_place_link(at, n, add, ctx, err)) {
            return false;
        }
        at += n;
    }
    return true;
}

static bool http_place_list(struct place *p, const char *dir, place_add_fn *add, void *ctx,
                            struct zf_err *err)
{
    zf_auto(place_at) struct place_at at = {.url = NULL};
    zf_auto(http_reply) struct http_reply r = {.status = 0};
    zf_auto(mem) char *url = NULL;

    if (!http_place_at(p, dir, &at, err)) {
        return false;
    }
    struct zf_out o = {0};
    zf_out_str(&o, at.url);
    zf_out_str(&o, dir[0] ? "/" : "");
    url = o.p;
    struct http_ask ask = place_ask(&at);
    ask.url = url;
    ask.max_body = 64u << 20;
    return zf_out_ok(&o, err) && http_do(p->http, &ask, &r, err) &&
           http_place_links((const char *)r.body, add, ctx, err);
}

static void http_place_fini(struct place *p)
{
    struct http_place *h = (struct http_place *)p;

    free(h->base);
    place_fini(p);
    free(h);
}

static const struct place_ops http_place_ops = {
    .kind = "http",
    .list = http_place_list,
    .at = http_place_at,
    .fini = http_place_fini,
};

struct place *place_open_http(const struct place_new *n, struct zf_err *err)
{
    struct http_place *h = url_check(n->address, err) ? calloc(1, sizeof *h) : NULL;
    struct zf_out o = {0};

    if (!h || !place_init(&h->place, &http_place_ops, n, err)) {
        (void)(h || err->code || zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory"));
        free(h);
        return NULL;
    }
    zf_out_str(&o, n->address);
    zf_out_str(&o, "/");
    h->base = o.p;
    if (!zf_out_ok(&o, err)) {
        http_place_fini(&h->place);
        return NULL;
    }
    return &h->place;
}
