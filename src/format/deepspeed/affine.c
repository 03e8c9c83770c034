/* SPDX-License-Identifier: Apache-2.0 */
/* A piece is a block of elements: its shape, and for the whole tensor (source) and the shard (dest) the first
 * element and a stride for each of its dimensions.  Dimensions that step as one of the tensor's does, in
 * both, are sides of a box; along any other the piece is one box after the other.
 * Source: deepspeed/checkpoint/autotp_universal.py (affine_map version 1), 0.18.9 … 0.19.8. */
#include "affine.h"

#include <stdlib.h>
#include <string.h>

#include <zf/base/num.h>

#define DIMS 16
#define BOXES 4096 /* of one parameter on one rank */

/* One dimension of a piece: extent, and steps in the whole and in the shard. */
struct affine_dim {
    uint64_t n, step[2];
};

struct affine_piece {
    struct affine_dim dim[2 * DIMS];
    uint32_t n_dims;
    uint64_t first[2];
};

/* A tensor in which pieces are: [0] the whole, [1] the shard. */
struct affine_space {
    uint32_t ndim;
    const uint64_t *shape[2];
    uint64_t step[2][DIMS], elems[2]; /* C order */
};

static bool affine_numbers(struct zf_arena *a, const struct zf_pv *v, const char *what,
                           const uint64_t **out, uint32_t *n_out, struct zf_err *err)
{
    uint64_t n = zf_pv_len(v);
    uint64_t *p = n <= DIMS ? zf_arena_get(a, n + 1, sizeof *p, err) : NULL;

    if (n > DIMS || !zf_pv_is_seq(v)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "its %s is not a list of at most %d numbers",
                       what, DIMS);
    }
    for (uint64_t i = 0; p && i < n; i++) {
        if (!zf_pv_u64(zf_pv_item(v, i), &p[i])) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "its %s holds something that is no number", what);
        }
    }
    *out = p;
    *n_out = (uint32_t)n;
    return p != NULL;
}

static bool affine_space(struct affine_space *s, int k, const uint64_t *shape, struct zf_err *err)
{
    uint64_t step = 1;

    s->shape[k] = shape;
    if (!zf_elems(s->ndim, shape, &s->elems[k])) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "its shape multiplies beyond 64 bits");
    }
    for (uint32_t d = s->ndim; d-- > 0;) {
        s->step[k][d] = step;
        step *= shape[d];
    }
    return true;
}

/* [first element, [steps]] of a piece with n dimensions. */
static bool affine_side(struct zf_arena *a, const struct zf_pv *v, int k, uint32_t n,
                        struct affine_piece *p, struct zf_err *err)
{
    const uint64_t *step;
    uint32_t n_steps;

    if (!zf_pv_is_seq(v) || zf_pv_len(v) != 2 || !zf_pv_u64(zf_pv_item(v, 0), &p->first[k])) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "a piece has no first element and strides");
    }
    if (!affine_numbers(a, zf_pv_item(v, 1), "stride", &step, &n_steps, err)) {
        return false;
    }
    if (n_steps != n) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "a piece of %u dimensions has %u strides", n,
                       n_steps);
    }
    for (uint32_t d = 0; d < n; d++) {
        p->dim[d].step[k] = step[d];
    }
    return true;
}

/* The dimension of the tensor along which both steps go, or ndim. */
static uint32_t affine_along(const struct affine_space *s, const struct affine_dim *d)
{
    uint32_t k = 0;

    while (k < s->ndim &&
           (s->shape[0][k] == 1 || s->step[0][k] != d->step[0] || s->step[1][k] != d->step[1])) {
        k++;
    }
    return k;
}

/* Drops dimensions of 1, and cuts those in two that go on in the next row of the tensor.
 * False: the piece has no elements. */
static bool affine_normalize(const struct affine_space *s, struct affine_piece *p)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->n_dims; i++) {
        if (p->dim[i].n == 0) {
            return false;
        }
        if (p->dim[i].n > 1) {
            p->dim[n++] = p->dim[i];
        }
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

/* The box [at, at + size) with its first element there. */
static bool affine_box(const struct affine_space *s, const uint64_t first[2], const uint64_t *size,
                       uint64_t *at, struct zf_err *err)
{
    for (int k = 0; k < 2; k++) {
        uint64_t left = first[k];

        for (uint32_t d = 0; d < s->ndim && first[k] < s->elems[k]; d++) {
            at[(uint32_t)k * s->ndim + d] = left / s->step[k][d];
            left %= s->step[k][d];
            if (!zf_within(at[(uint32_t)k * s->ndim + d], size[d], s->shape[k][d])) {
                left = UINT64_MAX;
                break;
            }
        }
        if (first[k] >= s->elems[k] || left == UINT64_MAX) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "a piece leaves the %s",
                           k ? "shard" : "whole tensor");
        }
    }
    return true;
}

struct affine_boxes {
    struct zf_arena *a;
    struct zf_cut_box *box; /* [BOXES] */
    uint32_t n;
};

static bool affine_add_box(const struct affine_space *s, struct affine_boxes *out,
                           const uint64_t first[2], const uint64_t *size, struct zf_err *err)
{
    uint64_t *p = zf_arena_get(out->a, 3 * (uint64_t)s->ndim + 1, sizeof *p, err);

    if (!p || !affine_box(s, first, size, p, err)) {
        return false;
    }
    memcpy(p + 2 * (size_t)s->ndim, size, s->ndim * sizeof *size);
    if (out->n == BOXES) {
        return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE, "it has more than %d pieces on a rank",
                       BOXES);
    }
    out->box[out->n++] = (struct zf_cut_box){p + s->ndim, p, p + 2 * (size_t)s->ndim};
    return true;
}

/* Where position i of the loop dimensions begins, in both. */
static bool affine_first(const struct affine_piece *p, const struct affine_dim *loop, uint32_t n,
                         uint64_t i, uint64_t first[2], struct zf_err *err)
{
    for (int k = 0; k < 2; k++) {
        first[k] = p->first[k];
    }
    for (uint32_t d = 0; d < n; d++, i /= loop[d - 1].n) {
        for (int k = 0; k < 2; k++) {
            if (!zf_mul_add(i % loop[d].n, loop[d].step[k], first[k], &first[k])) {
                return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "a piece reaches beyond 64 bits");
            }
        }
    }
    return true;
}

static bool affine_add_piece(const struct affine_space *s, struct affine_piece *p,
                             struct affine_boxes *out, struct zf_err *err)
{
    struct affine_dim loop[2 * DIMS];
    uint64_t size[DIMS], first[2], n = 1;
    bool used[DIMS + 1] = {false};
    uint32_t n_loop = 0;

    if (!affine_normalize(s, p)) {
        return true;
    }
    for (uint32_t d = 0; d < s->ndim; d++) {
        size[d] = 1;
    }
    used[s->ndim] = true;
    for (uint32_t i = 0; i < p->n_dims; i++) {
        uint32_t k = affine_along(s, &p->dim[i]);

        if (!used[k]) {
            used[k] = true;
            size[k] = p->dim[i].n;
            continue;
        }
        loop[n_loop++] = p->dim[i];
        if (!zf_mul(n, p->dim[i].n, &n) || n > BOXES) {
            return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                           "it has more than %d pieces on a rank", BOXES);
        }
    }
    for (uint64_t i = 0; i < n; i++) {
        if (!affine_first(p, loop, n_loop, i, first, err) ||
            !affine_add_box(s, out, first, size, err)) {
            return false;
        }
    }
    return true;
}

static bool affine_read_piece(const struct affine_space *s, const struct zf_pv *v,
                              struct affine_boxes *out, struct zf_err *err)
{
    struct affine_piece p = {0};
    const uint64_t *shape;

    if (!affine_numbers(out->a, zf_pv_get(v, "shape"), "piece's shape", &shape, &p.n_dims, err) ||
        !affine_side(out->a, zf_pv_get(v, "source"), 0, p.n_dims, &p, err) ||
        !affine_side(out->a, zf_pv_get(v, "dest"), 1, p.n_dims, &p, err)) {
        return false;
    }
    for (uint32_t d = 0; d < p.n_dims; d++) {
        p.dim[d].n = shape[d];
    }
    return affine_add_piece(s, &p, out, err);
}

/* Every element of the shard is in one piece: the proof that the pieces are the whole tensor says nothing of
 * one that is put there twice. */
static bool affine_prove_shard(struct zf_arena *a, const struct affine_space *s,
                               const struct affine_boxes *boxes, struct zf_err *err)
{
    struct zf_cut_box *turned = zf_arena_get(a, boxes->n, sizeof *turned, err);
    const struct zf_cut_part part = {turned, boxes->n};
    const struct zf_cut shard = {
        .ndim = s->ndim, .n_ranks = 1, .shape = s->shape[1], .part = &part};
    uint64_t elems = 0;

    for (uint32_t i = 0; turned && i < boxes->n; i++) {
        const struct zf_cut_box *b = &boxes->box[i];
        uint64_t n = 1;

        for (uint32_t d = 0; d < s->ndim; d++) {
            n *= b->size[d];
        }
        elems += n; /* wraps only where the proof fails */
        turned[i] = (struct zf_cut_box){b->in_whole, b->in_shard, b->size};
    }
    if (!turned) {
        return false;
    }
    bool apart = zf_cut_prove(&shard, err);
    if (!apart && err->code != ZF_E_FORMAT) {
        return false;
    }
    if (apart && elems == s->elems[1]) {
        return true;
    }
    zf_err_clear(err);
    return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "the pieces of a shard do not have each of its elements once");
}

/* Reads one rank's pieces; its shard's shape goes to *shape. */
static bool affine_read_rank(struct zf_arena *a, const struct zf_pv *v, struct affine_space *s,
                             struct zf_cut_box *room, struct zf_cut_part *part,
                             const uint64_t **shape, struct zf_err *err)
{
    const struct zf_pv *pieces = zf_pv_get(v, "pieces");
    struct affine_boxes out = {a, room, 0};
    uint32_t ndim;

    if (!affine_numbers(a, zf_pv_get(v, "shard_shape"), "shard_shape", shape, &ndim, err)) {
        return false;
    }
    if (ndim != s->ndim) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "its shard has %u dimensions, the whole tensor %u", ndim, s->ndim);
    }
    if (!affine_space(s, 1, *shape, err)) {
        return false;
    }
    for (uint64_t i = 0; i < zf_pv_len(pieces); i++) {
        if (!affine_read_piece(s, zf_pv_item(pieces, i), &out, err)) {
            return false;
        }
    }
    if (!affine_prove_shard(a, s, &out, err)) {
        return false;
    }
    struct zf_cut_box *box = zf_arena_copy(a, room, out.n, sizeof *box, err);
    *part = (struct zf_cut_part){box, out.n};
    return box != NULL;
}

bool affine_read(struct zf_arena *a, const struct zf_pv *v, uint32_t n_ranks, struct tp_affine *out,
                 struct zf_err *err)
{
    const struct zf_pv *ranks = zf_pv_get(v, "ranks");
    struct zf_cut_part *part = zf_arena_get(a, n_ranks, sizeof *part, err);
    const uint64_t **shard = zf_arena_get(a, n_ranks, sizeof(*shard), err);
    zf_auto(mem) struct zf_cut_box *room = malloc(BOXES * sizeof *room);
    struct affine_space s = {0};

    if (!part || !shard || !room) {
        return room ? false : zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    }
    if (!affine_numbers(a, zf_pv_get(v, "logical_shape"), "logical_shape", &out->cut.shape, &s.ndim,
                        err) ||
        !affine_space(&s, 0, out->cut.shape, err)) {
        return false;
    }
    if (!zf_pv_is_map(ranks) || zf_pv_len(ranks) != n_ranks) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "it is mapped on %llu tensor-parallel ranks, but %u have files",
                       (unsigned long long)zf_pv_len(ranks), n_ranks);
    }
    for (uint32_t r = 0; r < n_ranks; r++) {
        const struct zf_pv *one = zf_pv_get_id(ranks, r);

        if (!one) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "it says nothing of tensor-parallel rank %u", r);
        }
        if (!affine_read_rank(a, one, &s, room, &part[r], &shard[r], err)) {
            return false;
        }
    }
    out->cut.ndim = s.ndim;
    out->cut.n_ranks = n_ranks;
    out->cut.part = part;
    out->shard = shard;
    return true;
}
