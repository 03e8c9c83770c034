/* SPDX-License-Identifier: Apache-2.0 */
/* The walk takes the units in the order of the buffer, and keeps the set of all ends (positions up to
 * which the buffer is filled) that the units chosen so far can have.  A unit that matches after an end
 * adds a new end; skipping the unit keeps the old one.  Two ways to the same end are counted, not
 * followed separately, so the work is ends times units, however many choices there are. */
#include "bucket_walk.h"

#include <zf/base/auto.h>
#include <zf/base/hash.h>
#include <zf/base/table.h>
#include <zf/base/vec.h>

/* Most open ends at once, nodes in total, and comparisons: more than any valid buffer needs. */
#define WALK_ENDS 4096u
#define WALK_NODES (1u << 20)
#define WALK_SAME (1u << 23)

/* An end: the buffer is filled up to it. */
struct walk_node {
    uint64_t pos, base; /* element of the bucket; the element from which alignment is counted */
    uint64_t first;     /* first element of the piece that ends here */
    uint32_t bucket;    /* n_buckets: everything is filled */
    uint32_t piece, parent;
    uint32_t ways; /* ways to reach this end: 1, or 2 = several */
};

/* Two ends with equal keys are the same state of the search. */
struct walk_key {
    uint64_t pos, base, bucket;
};

struct walk_number {
    UT_hash_handle hh; /* key: of the node */
    uint32_t node;
};

/* A set of ends: indices of nodes. */
struct walk_ends {
    zf_vec(uint32_t);
    struct walk_number *table; /* uthash */
};

static void walk_ends_fini(struct walk_ends *e)
{
    zf_vec_fini(e);
    zf_table_free(e->table);
}

struct walk {
    const struct walk_in *in;
    zf_vec(struct walk_node) node;
    struct walk_ends free;         /* between units */
    struct walk_ends inside, next; /* ends within the current unit, after its last piece tried */
    struct walk_node far;          /* the farthest end */
    uint32_t compared;
    bool many;
};

static void zf_auto_walk(struct walk *w)
{
    zf_vec_fini(&w->node);
    walk_ends_fini(&w->free);
    walk_ends_fini(&w->inside);
    walk_ends_fini(&w->next);
}

/* Moves an end at the end of a bucket to the beginning of the next one. */
static void walk_next_bucket(const struct walk_in *in, struct walk_node *e)
{
    while (e->bucket < in->n_buckets && e->pos == in->len[e->bucket]) {
        e->bucket++;
        e->pos = e->base = 0;
    }
    e->base = e->pos - (e->pos - e->base) % in->align;
}

static struct walk_key walk_key(const struct walk_node *e)
{
    return (struct walk_key){.pos = e->pos, .base = e->base, .bucket = e->bucket};
}

/* The same end in a set, or NULL. */
static struct walk_node *walk_find(const struct walk *w, const struct walk_ends *in,
                                   const struct walk_node *e)
{
    const struct walk_key key = walk_key(e);
    const struct walk_number *found = zf_table_find(in->table, &key, sizeof key);

    return found ? &w->node.at[found->node] : NULL;
}

/* Adds a node to a set that does not contain an equal one. */
static bool walk_enter(struct walk *w, struct walk_ends *to, uint32_t node, struct zf_err *err)
{
    const struct walk_key key = walk_key(&w->node.at[node]);
    struct walk_number *number = zf_table_make(to->table, &key, sizeof key, err);
    uint32_t *at = number ? zf_vec_push(to, err) : NULL;

    if (at)
        *at = number->node = node;
    return at != NULL;
}

static bool walk_add(struct walk *w, struct walk_ends *to, struct walk_node e, struct zf_err *err)
{
    struct walk_node *old = walk_find(w, to, &e), *node;

    if (old) {
        old->ways = 2;
        return true;
    }
    if (to->n >= WALK_ENDS || w->node.n >= WALK_NODES) {
        w->many = true;
        return true;
    }
    node = zf_vec_push(&w->node, err);
    if (!node)
        return false;
    *node = e;
    if (e.bucket > w->far.bucket || (e.bucket == w->far.bucket && e.pos > w->far.pos))
        w->far = e;
    return walk_enter(w, to, (uint32_t)(w->node.n - 1), err);
}

/* Tries the piece `gap` elements after the end `parent`; if it matches, adds the new end. */
static bool walk_put(struct walk *w, uint32_t piece, uint32_t parent, uint64_t gap, uint64_t base,
                     struct zf_err *err)
{
    const struct walk_in *in = w->in;
    struct walk_node e = w->node.at[parent];
    uint64_t left = in->len[e.bucket] - e.pos, n = in->piece[piece].n;
    bool same = false;

    if (gap > left || n > left - gap)
        return true;
    if (w->compared >= (in->most && in->most < WALK_SAME ? in->most : WALK_SAME)) {
        w->many = true;
        return true;
    }
    w->compared++;
    if (!in->same(in->ctx, piece, e.bucket, e.pos + gap, &same, err))
        return false;
    if (!same)
        return true;
    e.first = e.pos + gap;
    e.pos = e.first + n;
    e.base = base;
    e.piece = piece;
    e.parent = parent;
    walk_next_bucket(in, &e);
    return walk_add(w, &w->next, e, err);
}

static bool walk_step(struct walk *w, uint32_t piece, uint32_t parent, struct zf_err *err)
{
    const struct walk_in *in = w->in;
    const struct walk_node e = w->node.at[parent];

    if (e.bucket == in->n_buckets)
        return true;
    uint64_t over = (e.pos - e.base) % in->align, gap = over ? in->align - over : 0;
    if (!walk_put(w, piece, parent, gap, e.base, err))
        return false;
    /* With joined buckets, the next one may begin after any piece. */
    return !in->joined || gap == 0 || walk_put(w, piece, parent, 0, e.pos, err);
}

/* Closes the unit: the ends after its last piece become ends between units. */
static bool walk_close_unit(struct walk *w, struct zf_err *err)
{
    for (size_t i = 0; i < w->inside.n; i++) {
        uint32_t node = w->inside.at[i];
        struct walk_node *old = walk_find(w, &w->free, &w->node.at[node]);

        if (old)
            old->ways = 2;
        else if (w->free.n >= WALK_ENDS)
            w->many = true;
        else if (!walk_enter(w, &w->free, node, err))
            return false;
    }
    w->inside.n = 0;
    return true;
}

static bool walk_piece(struct walk *w, uint32_t piece, struct zf_err *err)
{
    const struct walk_piece *p = w->in->piece;
    bool opens = piece == 0 || p[piece].unit != p[piece - 1].unit;

    if (opens && !walk_close_unit(w, err))
        return false;
    const struct walk_ends *from = opens ? &w->free : &w->inside;
    w->next.n = 0;
    zf_table_free(w->next.table);
    for (size_t i = 0; i < from->n && !w->many; i++)
        if (!walk_step(w, piece, from->at[i], err))
            return false;
    struct walk_ends done = w->inside;
    w->inside = w->next;
    w->next = done;
    return true;
}

static void walk_trace(const struct walk *w, uint32_t end, struct walk_place *place)
{
    for (uint32_t i = 0; i < w->in->n_pieces; i++)
        place[i] = (struct walk_place){.there = false};
    while (end != 0) {
        const struct walk_node *e = &w->node.at[end];
        uint32_t bucket = w->node.at[e->parent].bucket;

        place[e->piece] = (struct walk_place){true, bucket, e->first};
        end = e->parent;
    }
}

bool bucket_walk(const struct walk_in *in, struct walk_place *place, struct walk_result *out,
                 struct zf_err *err)
{
    zf_auto(walk) struct walk w = {.in = in};
    struct walk_node start = {.ways = 1};

    walk_next_bucket(in, &start);
    w.far = start;
    if (!walk_add(&w, &w.free, start, err))
        return false;
    for (uint32_t i = 0; i < in->n_pieces && !w.many; i++)
        if (!walk_piece(&w, i, err))
            return false;
    if (!walk_close_unit(&w, err))
        return false;
    *out = (struct walk_result){.kind = w.many ? WALK_MANY : WALK_NONE,
                                .compared = w.compared,
                                .bucket = w.far.bucket,
                                .end = w.far.pos};
    for (size_t i = 0; i < w.free.n && !w.many; i++) {
        const struct walk_node *e = &w.node.at[w.free.at[i]];

        if (e->bucket == in->n_buckets) {
            out->kind = e->ways == 1 ? WALK_ONE : WALK_SEVERAL;
            if (e->ways == 1)
                walk_trace(&w, w.free.at[i], place);
        }
    }
    return true;
}
