/* SPDX-License-Identifier: Apache-2.0 */
/* A bulk file is planned twice: first, for stat, only sizes are counted; then, at the first read, the
 * parts become a map.  Both use the same plan function, so they cannot disagree. */
#include "bulk.h"

#include <string.h>
#include <unistd.h>

#include <zf/base/num.h>

/* Memory limit for the headers and parts of one bulk file. */
#define BUDGET (4ull << 30)

void bulk_init(struct bulk *b, const struct bulk_kind *kind, const struct shelf_set *of,
               enum zf_dtype cast, const void *shard)
{
    memset(b, 0, sizeof *b);
    b->kind = kind;
    b->of = of;
    b->cast = cast;
    b->shard = shard;
    (void)pthread_mutex_init(&b->lock, NULL);
    atomic_init(&b->size, UINT64_MAX);
    atomic_init(&b->map, NULL);
}

uint64_t bulk_page_end(uint64_t n)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

    return (n + page - 1) / page * page;
}

void bulk_fini(struct bulk *b)
{
    (void)pthread_mutex_destroy(&b->lock);
    zf_vec_fini(&b->hurt);
    zf_arena_free(b->arena);
}

/* Counts n more bytes of the file. */
static bool bulk_count(struct bulk_plan *p, uint64_t n, struct zf_err *err)
{
    return (zf_add(p->size, n, &p->size) && p->size <= INT64_MAX) ||
           zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "more bytes than a file can hold");
}

static bool bulk_add(struct bulk_plan *p, const struct zf_map *map, struct zf_err *err)
{
    const struct zf_map **part = map ? zf_vec_push(&p->part, err) : NULL;

    return part && (*part = map);
}

bool bulk_add_mem(struct bulk_plan *p, const void *bytes, uint64_t n, struct zf_err *err)
{
    if (!bulk_count(p, n, err))
        return false;
    if (n == 0 || p->only_size)
        return true;
    const void *own = zf_arena_copy(p->arena, bytes, n, 1, err);
    return own && bulk_add(p, zf_map_of_mem(p->arena, own, n, err), err);
}

bool bulk_add_map(struct bulk_plan *p, const struct zf_map *map, struct zf_err *err)
{
    uint64_t n = zf_map_size(map);

    return bulk_count(p, n, err) && (n == 0 || p->only_size || bulk_add(p, map, err));
}

bool bulk_add_tensor(struct bulk_plan *p, const struct shelf_set *ss, uint32_t i,
                     enum zf_dtype cast, struct zf_err *err)
{
    const struct zf_tensor *t = &ss->set->tensor[i];
    enum zf_dtype served = shelf_set_dtype(ss, i, cast);
    const struct zf_map *m = t->data;
    const uint64_t n = shelf_set_bytes(ss, i, cast), first = p->size;

    if (!bulk_count(p, n, err))
        return false;
    p->lost = p->lost || (t->lost && !t->filled && n > 0);
    if (n == 0 || p->only_size)
        return true;
    if (t->lost) {
        struct bulk_hurt *h = zf_vec_push(&p->hurt, err);

        if (!h)
            return false;
        *h = (struct bulk_hurt){first, i, zf_dtype_info(served)->bytes};
    }
    if (served != t->dtype)
        m = zf_map_of_cast(p->arena, t->data, t->dtype, served, err);
    return bulk_add(p, m, err);
}

static bool bulk_plan(const struct bulk *b, struct bulk_plan *p, struct zf_err *err)
{
    p->arena = zf_arena_new(BUDGET, err);
    return p->arena && b->kind->plan(b, p, err);
}

/* Under the lock. */
static bool bulk_measure(struct bulk *b, uint64_t *out, struct zf_err *err)
{
    struct bulk_plan p = {.only_size = true};
    bool ok = bulk_plan(b, &p, err);

    zf_arena_free(p.arena);
    *out = p.size;
    b->lost = p.lost;
    return ok || zf_err_in(err, "%s", b->kind->name);
}

bool bulk_sums(struct bulk *b, zf_sums *out, struct zf_err *err)
{
    struct bulk_plan p = {.only_size = true, .sums = out};
    const bool ok = bulk_plan(b, &p, err);

    zf_arena_free(p.arena);
    return ok || zf_err_in(err, "%s", b->kind->name);
}

bool bulk_size(struct bulk *b, uint64_t *out, struct zf_err *err)
{
    bool ok = true;

    *out = atomic_load_explicit(&b->size, memory_order_acquire);
    if (*out != UINT64_MAX)
        return true;
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&b->lock);
    *out = atomic_load_explicit(&b->size, memory_order_relaxed);
    if (*out == UINT64_MAX) {
        ok = bulk_measure(b, out, err);
        if (ok)
            atomic_store_explicit(&b->size, *out, memory_order_release);
    }
    return ok;
}

/* Under the lock. */
static struct zf_map *bulk_build(struct bulk *b, struct zf_err *err)
{
    struct bulk_plan p = {0};
    struct zf_map *m =
        bulk_plan(b, &p, err) ? zf_map_of_parts(p.arena, p.part.at, p.part.n, err) : NULL;

    zf_vec_fini(&p.part);
    if (!m) {
        zf_vec_fini(&p.hurt);
        zf_arena_free(p.arena);
        return zf_null(zf_err_in(err, "%s", b->kind->name));
    }
    b->arena = p.arena;
    b->hurt = p.hurt;
    return m;
}

const struct zf_map *bulk_map(struct bulk *b, struct zf_err *err)
{
    struct zf_map *m = atomic_load_explicit(&b->map, memory_order_acquire);

    if (m)
        return m;
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&b->lock);
    m = atomic_load_explicit(&b->map, memory_order_relaxed);
    if (!m) {
        m = bulk_build(b, err);
        atomic_store_explicit(&b->map, m, memory_order_release);
    }
    return m;
}

const struct zf_map *bulk_map_if_made(struct bulk *b)
{
    return atomic_load_explicit(&b->map, memory_order_acquire);
}
