/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/assemble/torch_ahead.h>

#include <string.h>

static struct zf_torch *ahead_open(const struct zf_torch_ahead *a, const char *path,
                                   struct zf_torch_known *known, struct zf_err *err)
{
    zf_auto(source) struct zf_source *src = zf_store_open(a->st, path, err);
    struct zf_torch *t = src ? zf_torch_open_among(src, a->lim, known, err) : NULL;

    if (!t && !err->path[0])
        (void)zf_err_in(err, "%s", path);
    return t;
}

static void *ahead_make(void *ctx, uint64_t i, struct zf_err *err)
{
    const struct zf_torch_ahead *a = ctx;

    struct zf_torch *t = ahead_open(a, a->path[i], a->alike ? a->known : NULL, err);

    if (t && !zf_torch_is_known(t))
        zf_torch_read_ahead(t);
    return t;
}

static uint64_t ahead_weigh(const void *made)
{
    return zf_torch_weight(made);
}

static void ahead_drop(void *made)
{
    zf_torch_free(made);
}

static bool torch_ahead_start(struct zf_torch_ahead *a, const char *const *path, uint64_t n,
                              struct zf_err *err)
{
    zf_store_announce(a->st, path, n);
    a->path = path;
    a->n = n;
    a->made = zf_ahead_new((struct zf_ahead_work){.make = ahead_make,
                                                  .drop = ahead_drop,
                                                  .ctx = a,
                                                  .weigh = ahead_weigh,
                                                  .likely = a->alike ? a->likely : 0,
                                                  .most = zf_store_ahead(a->st),
                                                  .few = zf_store_is_far(a->st) ? ZF_AHEAD_FAR : 0,
                                                  .slow = zf_store_is_slow(a->st)},
                           n, err);
    return a->made != NULL;
}

/* Drops the files opened ahead; the known pickles are kept. */
static void torch_ahead_stop(struct zf_torch_ahead *a)
{
    zf_ahead_free(a->made);
    a->made = NULL;
    a->path = NULL;
    a->n = a->next = 0;
    a->alike = false;
}

bool zf_torch_ahead_begin(struct zf_torch_ahead *a, const char *const *path, uint64_t n,
                          struct zf_err *err)
{
    torch_ahead_stop(a);
    return torch_ahead_start(a, path, n, err);
}

static bool torch_ahead_new_known(struct zf_torch_ahead *a, const char *first, struct zf_err *err)
{
    zf_torch_known_free(a->known);
    a->first = first;
    a->known = zf_torch_known_new(err);
    return a->known != NULL;
}

bool zf_torch_ahead_begin_alike(struct zf_torch_ahead *a, const char *first,
                                const char *const *path, uint64_t n, struct zf_err *err)
{
    const bool known = first && a->first && strcmp(first, a->first) == 0;

    torch_ahead_stop(a);
    if (!known && !torch_ahead_new_known(a, NULL, err))
        return false;
    a->alike = true;
    return torch_ahead_start(a, path, n, err);
}

struct zf_torch *zf_torch_ahead_open(struct zf_torch_ahead *a, const char *path, struct zf_err *err)
{
    if (a->next == a->n || strcmp(a->path[a->next], path) != 0)
        return ahead_open(a, path, a->alike ? a->known : NULL, err);
    a->next++;
    return zf_ahead_take(a->made, err);
}

struct zf_torch *zf_torch_ahead_open_first(struct zf_torch_ahead *a, const char *path,
                                           struct zf_err *err)
{
    torch_ahead_stop(a);
    return torch_ahead_new_known(a, path, err) ? ahead_open(a, path, a->known, err) : NULL;
}

void zf_torch_ahead_fini(struct zf_torch_ahead *a)
{
    torch_ahead_stop(a);
    zf_torch_known_free(a->known);
    a->known = NULL;
    a->first = NULL;
}
