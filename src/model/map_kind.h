/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by every kind of map.  A kind is one file: its struct begins with
 * struct zf_map. */
#ifndef MODEL_MAP_KIND_H
#define MODEL_MAP_KIND_H

#include <zf/base/search.h>
#include <zf/model/map.h>

typedef bool map_each_fn(void *ctx, struct zf_source *s, uint64_t off, uint64_t len);

/* All but `at` may be NULL: then it is done run by run, as `at` says (map.c). */
struct map_ops {
    struct zf_run (*at)(const struct zf_map *m, uint64_t off);
    bool (*read)(const struct zf_map *m, void *buf, size_t n, uint64_t off, struct zf_err *err);
    bool (*each)(const struct zf_map *m, map_each_fn *fn, void *ctx);
    bool (*extents)(const struct zf_map *m, zf_map_extent_fn *fn, void *ctx);
    /* As zf_map_each_range, inside the map and without joining. */
    bool (*ranges)(const struct zf_map *m, uint64_t off, uint64_t n, map_each_fn *fn, void *ctx);
};

struct zf_map {
    const struct map_ops *ops;
    uint64_t size;
};

/* Which of the sorted `first[n]` (first[0] <= off) is the last one <= off. */
static inline uint64_t map_search(const uint64_t *first, uint64_t n, uint64_t off)
{
    size_t next;

    ZF_SEARCH(next, n, first[next] > off);
    return next ? next - 1 : 0;
}

/* The ranges of a map inside another one. */
bool map_ranges(const struct zf_map *m, uint64_t off, uint64_t n, map_each_fn *fn, void *ctx);

/* n zeros: pieces without a source, empty tensors. */
struct zf_map *map_of_zeros(struct zf_arena *a, uint64_t n, struct zf_err *err) ZF_CHECKED;

#endif
