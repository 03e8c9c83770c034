/* SPDX-License-Identifier: Apache-2.0 */
/* A piece is a strided block of elements: a shape, and a first element and strides in the full tensor
 * (source) and in the shard (dest).  A dimension whose strides equal those of a tensor dimension in
 * both becomes a side of a box; for any other dimension, one box per index is made.
 * Source: deepspeed/checkpoint/autotp_universal.py (affine_map version 1), 0.18.9 … 0.19.8. */
#include "tp_info.h"

#include <stdlib.h>
#include <string.h>

#include <zf/base/num.h>

#define DIMS 16
#define BOXES 4096 /* of one parameter on one rank */

/* One dimension of a piece: its size, and its strides in the full tensor and in the shard. */
struct affine_dim {
    uint64_t n, step[2];
};

struct affine_piece {
    struct affine_dim dim[2 * DIMS];
    uint32_t n_dims;
    uint64_t first[2];
};

/* The two tensors that pieces are parts of: [0] the full tensor, [1] the shard. */
struct affine_space {
    uint32_t ndim;
    const uint64_t *shape[2];
    uint64_t step[2][DIMS], elems[2]; /* C order */
};

/* Takes a list of at most DIMS numbers. */
static const uint64_t *affine_numbers(const struct zf_take *x, uint32_t *n_out)
{
    const uint64_t *p = zf_take_sizes(x, n_out);

    if (!zf_take_must(x, *n_out <= DIMS, "expected at most %d numbers, found %u", DIMS, *n_out))
        *n_out = 0;
    return p;
}

static void affine_space(const struct zf_take *x, struct affine_space *s, int k,
                         const uint64_t *shape)
{
    uint64_t step = 1;

    s->shape[k] = shape;
    if (zf_take_must(x, zf_elems(s->ndim, shape, &s->elems[k]),
                     "the product of its sizes exceeds 64 bits"))
        for (uint32_t d = s->ndim; d-- > 0; step *= shape[d])
            s->step[k][d] = step;
}

/* Takes [first element, [strides]] of a piece, in the full tensor (k = 0) or the shard (k = 1). */
static void affine_side(const struct zf_take *x, int k, struct affine_piece *p)
{
    const struct zf_take first = zf_take_item(x, 0), steps = zf_take_item(x, 1);
    uint32_t n;
    const uint64_t *step = affine_numbers(&steps, &n);

    p->first[k] = zf_take_u64(&first);
    (void)zf_take_must(&steps, n == p->n_dims, "it has %u strides, but the piece has %u dimensions",
                       n, p->n_dims);
    for (uint32_t d = 0; d < n && d < p->n_dims; d++)
        p->dim[d].step[k] = step[d];
}

/* The dimension of the tensors that has both strides of d, or ndim. */
static uint32_t affine_along(const struct affine_space *s, const struct affine_dim *d)
{
    uint32_t k = 0;

    while (k < s->ndim &&
           (s->shape[0][k] == 1 || s->step[0][k] != d->step[0] || s->step[1][k] != d->step[1]))
        k++;
    return k;
}

/* Drops dimensions of size 1, and splits a dimension that spans several rows of the tensor in two.
 * False: the piece has no elements. */
static bool affine_normalize(const struct affine_space *s, struct affine_piece *p)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->n_dims; i++) {
        if (p->dim[i].n == 0)
            return false;
        if (p->dim[i].n > 1)
            p->dim[n++] = p->dim[i];
    }
    p->n_dims = n;
    for (uint32_t i = 0; i < p->n_dims && p->n_dims < 2 * DIMS; i++) {
        struct affine_dim *d = &p->dim[i];
        uint32_t k = affine_along(s, d);
        uint64_t row = k < s->ndim ? s->shape[0][k] : 0, over[2];

        if (row > 0 && d->n > row && d->n % row == 0 && s->shape[1][k] == row &&
            zf_mul(d->step[0], row, &over[0]) && zf_mul(d->step[1], row, &over[1])) {
            p->dim[p->n_dims++] = (struct affine_dim){d->n / row, {over[0], over[1]}};
            d->n = row;
        }
    }
    return true;
}

struct affine_boxes {
    const struct zf_take *piece; /* the current one */
    struct zf_cut_box *box;      /* [BOXES] */
    uint32_t n;
};

/* Turns the first elements into the coordinates `at` of a box, in the full tensor and in the shard;
 * the box must be inside both. */
static void affine_box(const struct affine_boxes *out, const struct affine_space *s,
                       const uint64_t first[2], const uint64_t *size, uint64_t *at)
{
    for (int k = 0; k < 2; k++) {
        uint64_t left = first[k];
        bool in = first[k] < s->elems[k];

        for (uint32_t d = 0; in && d < s->ndim; d++) {
            at[(uint32_t)k * s->ndim + d] = left / s->step[k][d];
            left %= s->step[k][d];
            in = zf_within(at[(uint32_t)k * s->ndim + d], size[d], s->shape[k][d]);
        }
        (void)zf_take_must(out->piece, in, "it reaches outside the %s",
                           k ? "shard" : "whole tensor");
    }
}

static void affine_add_box(const struct affine_space *s, struct affine_boxes *out,
                           const uint64_t first[2], const uint64_t *size)
{
    uint64_t *p = zf_take_room(out->piece->t, 3 * (uint64_t)s->ndim + 1, sizeof *p);

    if (p && zf_take_can(out->piece, out->n < BOXES, "a rank has more than %d pieces", BOXES)) {
        affine_box(out, s, first, size, p);
        memcpy(p + 2 * (size_t)s->ndim, size, s->ndim * sizeof *size);
        out->box[out->n++] = (struct zf_cut_box){p + s->ndim, p, p + 2 * (size_t)s->ndim};
    }
}

/* The first element of box i of the loop dimensions, in both tensors; false: beyond 64 bits. */
static bool affine_first(const struct affine_piece *p, const struct affine_dim *loop, uint32_t n,
                         uint64_t i, uint64_t first[2])
{
    bool fits = true;

    memcpy(first, p->first, sizeof p->first);
    for (uint32_t d = 0; d < n; i /= loop[d++].n)
        for (int k = 0; k < 2; k++)
            fits = fits && zf_mul_add(i % loop[d].n, loop[d].step[k], first[k], &first[k]);
    return fits;
}

static void affine_add_piece(const struct affine_space *s, struct affine_piece *p,
                             struct affine_boxes *out)
{
    struct affine_dim loop[2 * DIMS];
    uint64_t size[DIMS], first[2], n = 1;
    bool used[DIMS + 1] = {false};
    uint32_t n_loop = 0;

    if (!affine_normalize(s, p))
        return;
    for (uint32_t d = 0; d < s->ndim; d++)
        size[d] = 1;
    used[s->ndim] = true;
    for (uint32_t i = 0; i < p->n_dims; i++) {
        uint32_t k = affine_along(s, &p->dim[i]);

        if (!used[k]) {
            used[k] = true;
            size[k] = p->dim[i].n;
            continue;
        }
        loop[n_loop++] = p->dim[i];
        if (!zf_take_can(out->piece, zf_mul(n, p->dim[i].n, &n) && n <= BOXES,
                         "a rank has more than %d pieces", BOXES))
            return;
    }
    for (uint64_t i = 0; i < n && !out->piece->t->failed; i++)
        if (zf_take_must(out->piece, affine_first(p, loop, n_loop, i, first),
                         "its end exceeds 64 bits"))
            affine_add_box(s, out, first, size);
}

static void affine_take_piece(const struct affine_space *s, struct affine_boxes *out)
{
    const struct zf_take size = zf_take_key(out->piece, "shape");
    const struct zf_take from = zf_take_key(out->piece, "source");
    const struct zf_take to = zf_take_key(out->piece, "dest");
    struct affine_piece p = {0};
    const uint64_t *shape = affine_numbers(&size, &p.n_dims);

    for (uint32_t d = 0; d < p.n_dims; d++)
        p.dim[d].n = shape[d];
    affine_side(&from, 0, &p);
    affine_side(&to, 1, &p);
    if (!out->piece->t->failed)
        affine_add_piece(s, &p, out);
}

/* Proves that every element of the shard is in exactly one piece.  The proof that the pieces cover the
 * full tensor does not show that: two of them could be read from the same elements of the shard. */
static void affine_prove_shard(const struct zf_take *pieces, const struct affine_space *s,
                               const struct affine_boxes *boxes)
{
    struct zf_cut_box *turned = zf_take_room(pieces->t, boxes->n, sizeof *turned);
    const struct zf_cut_part part = {turned, boxes->n};
    const struct zf_cut shard = {
        .ndim = s->ndim, .n_ranks = 1, .shape = s->shape[1], .part = &part};
    struct zf_err err;
    uint64_t elems = 0;

    for (uint32_t i = 0; turned && i < boxes->n; i++) {
        const struct zf_cut_box *b = &boxes->box[i];
        uint64_t n = 1;

        for (uint32_t d = 0; d < s->ndim; d++)
            n *= b->size[d];
        elems += n; /* wraps only where the proof fails */
        turned[i] = (struct zf_cut_box){b->in_whole, b->in_shard, b->size};
    }
    if (!turned)
        return;
    bool disjoint = zf_cut_prove(&shard, &err);
    if (!disjoint && err.code != ZF_E_FORMAT)
        (void)zf_take_fail(pieces, &err);
    (void)zf_take_must(pieces, disjoint && elems == s->elems[1],
                       "they do not cover each element of the shard exactly once");
}

/* Reads one rank's pieces, into `room` and then *part.  Returns the shape of its shard. */
static const uint64_t *affine_take_rank(const struct zf_take *rank, struct affine_space *s,
                                        struct zf_cut_box *room, struct zf_cut_part *part)
{
    const struct zf_take size = zf_take_key(rank, "shard_shape"),
                         pieces = zf_take_key(rank, "pieces");
    struct affine_boxes out = {.box = room};
    uint32_t ndim;
    const uint64_t *shape = affine_numbers(&size, &ndim);

    if (!zf_take_must(&size, ndim == s->ndim, "the shard has %u dimensions, the whole tensor %u",
                      ndim, s->ndim))
        return NULL;
    affine_space(&size, s, 1, shape);
    for (uint64_t i = 0, n = zf_take_list(&pieces); i < n && !rank->t->failed; i++) {
        const struct zf_take piece = zf_take_item(&pieces, i);

        out.piece = &piece;
        affine_take_piece(s, &out);
    }
    affine_prove_shard(&pieces, s, &out);
    struct zf_cut_box *box = zf_take_room(rank->t, out.n, sizeof *box);
    if (box) {
        memcpy(box, room, out.n * sizeof *box);
        *part = (struct zf_cut_part){box, out.n};
    }
    return shape;
}

void affine_take(const struct zf_take *map, uint32_t n_ranks, struct tp_affine *out)
{
    const struct zf_take shape = zf_take_key(map, "logical_shape"),
                         ranks = zf_take_key(map, "ranks");
    struct zf_cut_part *part = zf_take_room(map->t, n_ranks, sizeof *part);
    const uint64_t **shard = zf_take_room(map->t, n_ranks, sizeof *shard);
    zf_auto(mem) struct zf_cut_box *room = malloc(BOXES * sizeof *room);
    struct affine_space s = {0};
    struct zf_err err;
    uint64_t n = zf_take_map(&ranks);

    if (!room && !zf_fail(&err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory"))
        (void)zf_take_fail(map, &err);
    out->cut.shape = affine_numbers(&shape, &s.ndim);
    affine_space(&shape, &s, 0, out->cut.shape);
    (void)zf_take_must(&ranks, n == n_ranks, "it has %llu ranks, but %u have files",
                       (unsigned long long)n, n_ranks);
    for (uint32_t r = 0; r < n_ranks && !map->t->failed; r++) {
        const struct zf_take one = zf_take_id(&ranks, r);

        shard[r] = affine_take_rank(&one, &s, room, &part[r]);
    }
    out->cut.ndim = s.ndim;
    out->cut.n_ranks = n_ranks;
    out->cut.part = part;
    out->shard = shard;
}
