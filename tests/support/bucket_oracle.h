/* SPDX-License-Identifier: Apache-2.0 */
/* Flat buffers made from any bytes, walked and, beside that, tried out in every way: each choice of units, each
 * place where a piece may begin. */
#ifndef SUPPORT_BUCKET_ORACLE_H
#define SUPPORT_BUCKET_ORACLE_H

#include <stdlib.h>
#include <string.h>

#include "src/format/megatron/bucket_walk.h"

#define ORACLE_UNITS 6u
#define ORACLE_PIECES 18u
#define ORACLE_BUCKETS 4u
#define ORACLE_MOST 200u

struct oracle {
    const uint8_t *p; /* the input */
    size_t n;
    struct walk_piece piece[ORACLE_PIECES];
    uint8_t value[ORACLE_PIECES][8]; /* of a piece's weights */
    uint32_t n_pieces;
    uint64_t len[ORACLE_BUCKETS];
    uint8_t bucket[ORACLE_BUCKETS][ORACLE_MOST]; /* masters */
    struct walk_in in;
    /* all ways */
    uint32_t ways;
    struct walk_place place[ORACLE_PIECES], found[ORACLE_PIECES];
};

static inline uint32_t oracle_next(struct oracle *o, uint32_t below)
{
    if (o->n == 0)
        return 0;
    o->n--;
    return *o->p++ % below;
}

static inline bool oracle_same(const struct oracle *o, uint32_t piece, uint32_t bucket,
                               uint64_t first)
{
    uint64_t n = o->piece[piece].n;

    if (bucket >= o->in.n_buckets || first + n > o->len[bucket])
        abort();
    return memcmp(o->bucket[bucket] + first, o->value[piece], n) == 0;
}

static inline bool oracle_same_cb(void *ctx, uint32_t piece, uint32_t bucket, uint64_t first,
                                  bool *same, struct zf_err *err)
{
    (void)err;
    *same = oracle_same(ctx, piece, bucket, first);
    return true;
}

/* Pieces of few values, so that many are equal, and buckets filled by the rules with some of the units,
 * wrongly now and then. */
static inline void oracle_make(struct oracle *o, const uint8_t *data, size_t size)
{
    uint32_t units, k = 0;
    uint64_t base = 0, pos = 0;

    memset(o, 0, sizeof *o);
    o->p = data;
    o->n = size;
    units = 1 + oracle_next(o, ORACLE_UNITS);
    o->in.align = (uint64_t[]){1, 2, 4, 4}[oracle_next(o, 4)];
    o->in.joined = oracle_next(o, 2);
    for (uint32_t u = 0; u < units; u++) {
        uint32_t n = 1 + oracle_next(o, 3);

        for (uint32_t i = 0; i < n; i++, o->n_pieces++) {
            o->piece[o->n_pieces] = (struct walk_piece){1 + oracle_next(o, 6), u};
            for (uint32_t e = 0; e < 8; e++)
                o->value[o->n_pieces][e] = (uint8_t)oracle_next(o, 2);
        }
    }
    for (uint32_t i = 0; i < o->n_pieces;) {
        uint32_t u = o->piece[i].unit, there = oracle_next(o, 3);

        for (; i < o->n_pieces && o->piece[i].unit == u; i++) {
            bool opens = oracle_next(o, 4) == 0;

            if (!there)
                continue;
            if (opens && !o->in.joined && k + 1 < ORACLE_BUCKETS) {
                o->len[k++] = pos;
                pos = base = 0;
            } else if (opens && o->in.joined) {
                base = pos;
            }
            for (; (pos - base) % o->in.align; pos++)
                o->bucket[k][pos] = (uint8_t)oracle_next(o, 2);
            memcpy(o->bucket[k] + pos, o->value[i], o->piece[i].n);
            pos += o->piece[i].n;
        }
    }
    o->len[k] = pos;
    if (oracle_next(o, 4) == 1) {
        o->bucket[oracle_next(o, ORACLE_BUCKETS)][oracle_next(o, ORACLE_MOST / 4)] ^= 1;
        o->len[oracle_next(o, ORACLE_BUCKETS)] += oracle_next(o, 2);
    }
    o->in.piece = o->piece;
    o->in.n_pieces = o->n_pieces;
    o->in.len = o->len;
    o->in.n_buckets = k + 1 + (o->len[k] && k + 1 < ORACLE_BUCKETS ? oracle_next(o, 2) : 0);
    o->in.same = oracle_same_cb;
    o->in.ctx = o;
}

/* Goes on from an end before piece i; `inside` = the unit of piece i is being filled in. */
static inline void oracle_try(struct oracle *o, uint32_t i, bool inside, uint32_t bucket,
                              uint64_t pos, uint64_t base)
{
    while (bucket < o->in.n_buckets && pos == o->len[bucket]) {
        bucket++;
        pos = base = 0;
    }
    if (i == o->n_pieces) {
        if (bucket == o->in.n_buckets && o->ways++ == 0)
            memcpy(o->found, o->place, sizeof o->found);
        return;
    }
    bool opens = i == 0 || o->piece[i].unit != o->piece[i - 1].unit;
    if (opens) {
        uint32_t next = i;

        for (; next < o->n_pieces && o->piece[next].unit == o->piece[i].unit; next++)
            o->place[next].there = false;
        oracle_try(o, next, false, bucket, pos, base);
    } else if (!inside) {
        abort();
    }
    for (int tight = 0; bucket < o->in.n_buckets && tight < 1 + o->in.joined; tight++) {
        uint64_t first = pos;

        while (!tight && (first - base) % o->in.align)
            first++;
        if (first + o->piece[i].n > o->len[bucket] || (tight && (pos - base) % o->in.align == 0) ||
            !oracle_same(o, i, bucket, first))
            continue;
        o->place[i] = (struct walk_place){true, bucket, first};
        oracle_try(o, i + 1, true, bucket, first + o->piece[i].n, tight ? pos : base);
    }
}

/* True when the walk says what trying everything says. */
static inline bool oracle_agrees(struct oracle *o, enum walk_kind *kind_out)
{
    struct walk_place place[ORACLE_PIECES];
    struct walk_result r;
    struct zf_err err;

    oracle_try(o, 0, false, 0, 0, 0);
    if (!bucket_walk(&o->in, place, &r, &err))
        return false;
    *kind_out = r.kind;
    if (r.kind != (o->ways == 0 ? WALK_NONE : o->ways == 1 ? WALK_ONE : WALK_SEVERAL))
        return false;
    for (uint32_t i = 0; i < o->n_pieces && r.kind == WALK_ONE; i++) {
        const struct walk_place *a = &place[i], *b = &o->found[i];

        if (a->there != b->there || (a->there && (a->bucket != b->bucket || a->first != b->first)))
            return false;
    }
    return true;
}

#endif
