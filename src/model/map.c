/* SPDX-License-Identifier: Apache-2.0 */
#include "map_kind.h"

#include <string.h>

#include <zf/base/num.h>
#include <zf/source/want.h>

uint64_t zf_map_size(const struct zf_map *m)
{
    return m->size;
}

struct zf_run zf_map_at(const struct zf_map *m, uint64_t off)
{
    return m->ops->at(m, off);
}

/* ---- run by run ------------------------------------------------------------------------------ */

static bool map_read_runs(const struct zf_map *m, unsigned char *out, size_t n, uint64_t off,
                          struct zf_err *err)
{
    for (size_t k; n > 0; out += k, off += k, n -= k) {
        const struct zf_run run = zf_map_at(m, off);

        k = run.len < n ? (size_t)run.len : n;
        if (run.kind == ZF_RUN_SRC && !zf_source_pread(run.src, out, k, run.off, err))
            return false;
        if (run.kind == ZF_RUN_MEM)
            memcpy(out, run.mem, k);
        else if (run.kind == ZF_RUN_ZERO)
            memset(out, 0, k);
    }
    return true;
}

static bool map_runs_ranges(const struct zf_map *m, uint64_t off, uint64_t n, map_each_fn *fn,
                            void *ctx)
{
    for (uint64_t k; n > 0; off += k, n -= k) {
        const struct zf_run run = zf_map_at(m, off);

        k = run.len < n ? run.len : n;
        if (run.kind == ZF_RUN_SRC && !fn(ctx, run.src, run.off, k))
            return false;
    }
    return true;
}

static bool map_runs_extents(const struct zf_map *m, zf_map_extent_fn *fn, void *ctx)
{
    struct zf_run run;

    for (uint64_t at = 0; at < m->size; at += run.len) {
        run = zf_map_at(m, at);
        struct zf_extent e = {.nd = 1, .shape = &m->size, .start = &at, .size = &run.len};

        e.src = run.kind == ZF_RUN_SRC ? run.src : NULL;
        e.mem = run.kind == ZF_RUN_MEM ? run.mem : NULL;
        e.off = run.off;
        if (run.kind != ZF_RUN_MADE && !fn(ctx, &e))
            return false;
    }
    return true;
}

/* ---- any kind -------------------------------------------------------------------------------- */

bool zf_map_read(const struct zf_map *m, void *buf, size_t n, uint64_t off, struct zf_err *err)
{
    if (!zf_within(off, n, m->size)) {
        return zf_fail(err, ZF_E_IO, off, "%llu bytes are needed, but there are only %llu",
                       (unsigned long long)n,
                       (unsigned long long)(off < m->size ? m->size - off : 0));
    }
    return m->ops->read ? n == 0 || m->ops->read(m, buf, n, off, err)
                        : map_read_runs(m, buf, n, off, err);
}

bool map_ranges(const struct zf_map *m, uint64_t off, uint64_t n, map_each_fn *fn, void *ctx)
{
    return (m->ops->ranges ? m->ops->ranges : map_runs_ranges)(m, off, n, fn, ctx);
}

bool zf_map_each_source(const struct zf_map *m,
                        bool (*fn)(void *ctx, struct zf_source *s, uint64_t off, uint64_t len),
                        void *ctx)
{
    return m->ops->each ? m->ops->each(m, fn, ctx) : map_runs_ranges(m, 0, m->size, fn, ctx);
}

bool zf_map_each_extent(const struct zf_map *m, zf_map_extent_fn *fn, void *ctx)
{
    return m->size == 0 || (m->ops->extents ? m->ops->extents : map_runs_extents)(m, fn, ctx);
}

/* ---- what a read needs -------------------------------------------------------------------- */

/* A range is held back as long as the next one may extend it. */
struct map_joined {
    map_each_fn *fn;
    void *ctx;
    struct zf_source *src;
    uint64_t off, len;
};

static bool map_joined_flush(struct map_joined *j)
{
    return j->len == 0 || j->fn(j->ctx, j->src, j->off, j->len);
}

static bool map_join(void *ctx, struct zf_source *s, uint64_t off, uint64_t len)
{
    struct map_joined *j = ctx;

    if (j->len > 0 && j->src == s && j->off + j->len == off) {
        j->len += len;
        return true;
    }
    bool go_on = map_joined_flush(j);
    j->src = s;
    j->off = off;
    j->len = len;
    return go_on;
}

bool zf_map_each_range(const struct zf_map *m, uint64_t off, uint64_t n,
                       bool (*fn)(void *ctx, struct zf_source *s, uint64_t off, uint64_t len),
                       void *ctx)
{
    struct map_joined j = {.fn = fn, .ctx = ctx};

    if (off >= m->size || n == 0)
        return true;
    n = n < m->size - off ? n : m->size - off;
    return map_ranges(m, off, n, map_join, &j) && map_joined_flush(&j);
}

static bool map_want_range(void *ctx, struct zf_source *s, uint64_t off, uint64_t len)
{
    zf_source_want(s, off, len, *(const enum zf_prefetch *)ctx);
    return true;
}

void zf_map_want(const struct zf_map *m, uint64_t off, uint64_t n, enum zf_prefetch how)
{
    (void)zf_map_each_range(m, off, n, map_want_range, &how);
}

bool zf_map_clone(const struct zf_map *m, uint64_t off, struct zf_clone *c, struct zf_err *err)
{
    struct zf_run run = zf_map_at(m, off);

    c->off = run.off;
    c->n = run.len;
    c->done = 0;
    return run.kind != ZF_RUN_SRC || zf_source_clone(run.src, c, err);
}

/* ---- zeros -------------------------------------------------------------------------------- */

static struct zf_run map_zeros_at(const struct zf_map *m, uint64_t off)
{
    return (struct zf_run){.kind = ZF_RUN_ZERO, .len = m->size - off};
}

static const struct map_ops zeros_ops = {.at = map_zeros_at};

struct zf_map *map_of_zeros(struct zf_arena *a, uint64_t n, struct zf_err *err)
{
    struct zf_map *m = zf_arena_get(a, 1, sizeof *m, err);

    if (m)
        *m = (struct zf_map){.ops = &zeros_ops, .size = n};
    return m;
}

/* ---- memory ------------------------------------------------------------------------------- */

struct mem_map {
    struct zf_map map;
    const unsigned char *p;
};

static struct zf_run map_mem_at(const struct zf_map *m, uint64_t off)
{
    const struct mem_map *mm = (const struct mem_map *)m;

    return (struct zf_run){.kind = ZF_RUN_MEM, .len = m->size - off, .mem = mm->p + off};
}

static const struct map_ops mem_ops = {.at = map_mem_at};

struct zf_map *zf_map_of_mem(struct zf_arena *a, const void *p, uint64_t n, struct zf_err *err)
{
    struct mem_map *m = zf_arena_get(a, 1, sizeof *m, err);

    if (!m)
        return NULL;
    *m = (struct mem_map){.map = {.ops = &mem_ops, .size = n}, .p = p};
    return &m->map;
}

/* ---- one piece of one source -------------------------------------------------------------- */

struct source_map {
    struct zf_map map;
    struct zf_source *src;
    uint64_t off;
};

static struct zf_run map_source_at(const struct zf_map *m, uint64_t off)
{
    const struct source_map *sm = (const struct source_map *)m;

    return (struct zf_run){
        .kind = ZF_RUN_SRC, .len = m->size - off, .src = sm->src, .off = sm->off + off};
}

static const struct map_ops source_ops = {.at = map_source_at};

struct zf_map *zf_map_of_source(struct zf_arena *a, struct zf_source *src, uint64_t off, uint64_t n,
                                struct zf_err *err)
{
    struct source_map *m = zf_arena_get(a, 1, sizeof *m, err);

    if (!m)
        return NULL;
    *m = (struct source_map){.map = {.ops = &source_ops, .size = n}, .src = src, .off = off};
    return &m->map;
}
