/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include <zf/base/name.h>

#include "build_kind.h"

const struct zf_set *zf_checkpoint_set(const struct zf_checkpoint *c, const char *path)
{
    for (uint32_t i = 0; i < c->n_sets; i++) {
        if (strcmp(c->set[i].path, path) == 0) {
            return &c->set[i];
        }
    }
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

const struct zf_blob *zf_checkpoint_blob(const struct zf_checkpoint *c, const char *path)
{
    uint32_t lo = 0, hi = c->n_blobs;

    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        int cmp = path_order(c->blob[mid].path, path);

        if (cmp == 0) {
            return &c->blob[mid];
        }
        if (cmp < 0) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return NULL;
}

const struct zf_tensor *zf_set_find(const struct zf_set *s, const char *name, size_t n)
{
    uint32_t lo = 0, hi = s->n;

    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        const struct zf_tensor *t = &s->tensor[mid];
        int cmp = zf_name_cmp(t->name, t->name_len, name, n);

        if (cmp == 0) {
            return t;
        }
        if (cmp < 0) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return NULL;
}

void zf_checkpoint_free(struct zf_checkpoint *c)
{
    if (!c) {
        return;
    }
    struct sealed *s = (struct sealed *)(void *)c;
    struct zf_arena *arena = c->arena;

    sources_fini(s->sources);
    free(s->sources);
    zf_store_unref(&c->store);
    zf_arena_free(arena);
}
