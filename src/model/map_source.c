/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of a map as a source: for cached blocks of a tensor that lies in several files. */
#include "map_strided.h"

#include <stdlib.h>

struct map_source {
    struct zf_source src;
    const struct zf_map *map;
    struct zf_source *one; /* one of the map's sources; NULL = none */
};

static bool map_source_pread(struct zf_source *s, void *buf, size_t n, uint64_t off,
                             struct zf_err *err)
{
    return zf_map_read(((const struct map_source *)s)->map, buf, n, off, err);
}

static struct zf_shared map_source_shared(const struct zf_source *s)
{
    struct zf_source *one = ((const struct map_source *)s)->one;

    return one ? zf_source_shared(one) : (struct zf_shared){.gate = NULL};
}

static void map_source_fini(struct zf_source *s)
{
    zf_source_unref(&((struct map_source *)s)->one);
    zf_source_fini(s);
    free(s);
}

static const struct zf_source_ops map_source_ops = {
    .kind = "map",
    .pread = map_source_pread,
    .shared = map_source_shared,
    .fini = map_source_fini,
};

static bool map_source_first(void *ctx, struct zf_source *s, uint64_t off, uint64_t len)
{
    (void)off, (void)len;
    *(struct zf_source **)ctx = s;
    return false;
}

struct zf_source *map_source_new(const struct zf_map *m, struct zf_err *err)
{
    struct zf_source *one = NULL;

    (void)zf_map_each_source(m, map_source_first, &one);
    struct map_source *s =
        zf_source_new(sizeof *s, &map_source_ops, one ? one->name : "", zf_map_size(m), err);
    if (!s)
        return NULL;
    s->map = m;
    s->one = one ? zf_source_ref(one) : NULL;
    return &s->src;
}
