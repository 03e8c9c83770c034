/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include <zf/base/name.h>

#include "map_strided.h"
#include "model_sealed.h"

const struct zf_set *zf_checkpoint_set(const struct zf_checkpoint *c, const char *path)
{
    for (uint32_t i = 0; i < c->n_sets; i++)
        if (strcmp(c->set[i].path, path) == 0)
            return &c->set[i];
    return NULL;
}

int path_order(const char *a, const char *b)
{
    while (*a && *a == *b) {
        a++;
        b++;
    }
    int x = *a == '/' ? 1 : *a ? (unsigned char)*a + 1 : 0;
    int y = *b == '/' ? 1 : *b ? (unsigned char)*b + 1 : 0;
    return x - y;
}

static int model_cmp_blob(const void *path, const void *blob)
{
    return path_order(path, ((const struct zf_blob *)blob)->path);
}

const struct zf_blob *zf_checkpoint_blob(const struct zf_checkpoint *c, const char *path)
{
    return bsearch(path, c->blob, c->n_blobs, sizeof *c->blob, model_cmp_blob);
}

struct model_name {
    const char *at;
    size_t n;
};

static int model_cmp_tensor(const void *name, const void *tensor)
{
    const struct model_name *a = name;
    const struct zf_tensor *t = tensor;

    return zf_name_cmp(a->at, a->n, t->name, t->name_len);
}

const struct zf_tensor *zf_set_find(const struct zf_set *s, const char *name, size_t n)
{
    const struct model_name key = {name, n};

    return s->n ? bsearch(&key, s->tensor, s->n, sizeof *s->tensor, model_cmp_tensor) : NULL;
}

struct zf_checkpoint *zf_checkpoint_over(const struct zf_checkpoint *c, uint64_t memory,
                                         struct zf_err *err)
{
    struct zf_arena *a = zf_arena_new(memory, err);
    struct sealed *s = a ? zf_arena_get(a, 1, sizeof *s, err) : NULL;

    if (!s) {
        zf_arena_free(a);
        return NULL;
    }
    *s = (struct sealed){.c = *c};
    s->c.store = NULL;
    s->c.arena = a;
    return &s->c;
}

struct zf_map *zf_checkpoint_strided(struct zf_checkpoint *c, const struct zf_map *in,
                                     const struct zf_strided *how, const struct zf_limits *lim,
                                     struct zf_err *err)
{
    struct sealed *s = (struct sealed *)(void *)c;
    struct zf_map *m = zf_map_strided(c->arena, in, how, err);

    if (m && !s->sources) {
        s->sources = calloc(1, sizeof *s->sources);
        if (!s->sources)
            return zf_null(zf_fail_sys(err, "store blocks of tensors"));
        if (!sources_init(s->sources, err))
            return NULL;
    }
    return m && map_strided_keep(m, s->sources, lim, err) ? m : NULL;
}

void zf_checkpoint_free(struct zf_checkpoint *c)
{
    if (!c)
        return;
    struct sealed *s = (struct sealed *)(void *)c;
    struct zf_arena *arena = c->arena;

    if (s->sources)
        sources_fini(s->sources);
    free(s->sources);
    zf_store_unref(&c->store);
    zf_arena_free(arena);
}
