/* SPDX-License-Identifier: Apache-2.0 */
#include "http_host.h"

#include <stdlib.h>
#include <string.h>

#include "url.h"

static struct http_host *http_host_new(const char *origin, const char *url)
{
    struct http_host *h = calloc(1, sizeof *h);

    if (!h || !(h->origin = strdup(origin)) || !(h->name = url_host(url))) {
        free(h ? h->origin : NULL);
        free(h);
        return NULL;
    }
    return h;
}

struct http_host *http_host_of(struct http_hosts *all, const char *url)
{
    zf_auto(mem) char *origin = url_origin(url);
    struct http_host **at = &all->first;

    if (!origin) {
        return NULL;
    }
    while (*at && strcmp((*at)->origin, origin) != 0) {
        at = &(*at)->next;
    }
    if (!*at) {
        *at = http_host_new(origin, url);
    }
    return *at;
}

void http_hosts_each(const struct http_hosts *all, zf_host_stats_fn *fn, void *ctx)
{
    for (const struct http_host *h = all->first; h; h = h->next) {
        const struct zf_host_stats s = {
            .host = h->name,
            .requests = atomic_load(&h->requests),
            .retries = atomic_load(&h->retries),
            .bytes = atomic_load(&h->bytes),
            .errors = atomic_load(&h->errors),
            .hits = atomic_load(&h->hits),
        };

        fn(ctx, &s);
    }
}

void http_hosts_fini(struct http_hosts *all)
{
    for (struct http_host *h = all->first, *next; h; h = next) {
        next = h->next;
        free(h->origin);
        free(h->name);
        free(h);
    }
    all->first = NULL;
}
