/* SPDX-License-Identifier: Apache-2.0 */
/* All ranks must have the same states of a group; each state is one flat buffer, whose pieces are drafted
 * for all ranks that are not lost. */
#include "vectors.h"

#include <stdio.h>
#include <string.h>

#include <zf/base/num.h>

const struct ds_part *ds_group_first(const struct ds_group *g)
{
    uint32_t r = 0;

    while (g->part[r]->lost)
        r++;
    return g->part[r];
}

static const struct ds_state *vector_find_state(const struct ds_part *p, struct ds_name key)
{
    for (uint32_t i = 0; i < p->n_states; i++)
        if (ds_name_eq(p->state[i].key, key))
            return &p->state[i];
    return NULL;
}

/* State `want` of the group on rank r; it must be of the same kind there. */
static const struct ds_state *vector_same_state(const struct ds_group *g, uint32_t r,
                                                const struct ds_state *want, struct zf_err *err)
{
    const struct ds_state *s = vector_find_state(g->part[r], want->key);

    if (!s || s->kind != want->kind || s->flat.dtype != want->flat.dtype) {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "the state \"%.*s\" of group %u is %s in \"%s\"",
                (int)want->key.n, want->key.p, g->index,
                s ? "of another dtype than" : "missing, unlike", ds_group_first(g)->path);
        return zf_err_in(err, "%s", g->part[r]->path), NULL;
    }
    if (s->kind == ZF_DS_INT && s->i != want->i) {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                "\"%.*s\" of group %u is %lld, but %lld in \"%s\": two saves are mixed",
                (int)want->key.n, want->key.p, g->index, (long long)s->i, (long long)want->i,
                ds_group_first(g)->path);
        return zf_err_in(err, "%s", g->part[r]->path), NULL;
    }
    return s;
}

/* Drafts a scalar state of the group: one tensor of one element per parameter. */
static bool vector_draft_scalar(struct ds_save *ds, const struct ds_vector *v,
                                const struct ds_state *s, struct zf_err *err)
{
    const struct zf_from from = {.src = s->flat.src, .off = s->flat.off};

    for (uint32_t i = 0; i < v->group->n; i++) {
        const struct zf_spot spot = ds_spot(v->set, v->group->param[i].name);
        struct zf_draft *d;
        bool ok;

        if (v->group->param[i].whole && zf_build_find(ds->b, spot))
            continue; /* drafted with a shard on other ranks; agree.c compares the values */
        if (s->kind == ZF_DS_INT) {
            ok = zf_build_scalar(ds->b, spot, ZF_DT_I64, &s->i, err);
        } else if (s->kind == ZF_DS_FLOAT) {
            ok = zf_build_scalar(ds->b, spot, ZF_DT_F64, &s->f, err);
        } else {
            d = zf_build_tensor(ds->b, spot, (struct zf_type){s->flat.dtype, 0, NULL}, err);
            ok = d && zf_draft_flat(d, 0, 1, from, err);
        }
        if (!ok)
            return false;
    }
    return true;
}

/* Is the number on rank r equal to s? */
static bool vector_same_number(const struct ds_vector *v, uint32_t r, const struct ds_state *s,
                               bool *same, struct zf_err *err)
{
    const struct ds_state *mine = vector_find_state(v->group->part[r], s->key);
    const size_t n = zf_dtype_info(v->dtype)->bytes;
    unsigned char a[16], b[16];

    if (s->kind == ZF_DS_FLOAT) {
        *same = memcmp(&mine->f, &s->f, sizeof s->f) == 0;
        return true;
    }
    if (n > sizeof a || !s->flat.src || !mine->flat.src)
        return true;
    if (!zf_source_pread(s->flat.src, a, n, s->flat.off, err) ||
        !zf_source_pread(mine->flat.src, b, n, mine->flat.off, err))
        return false;
    *same = memcmp(a, b, n) == 0;
    return true;
}

/* Notes a number that differs between ranks, such as an estimate from a rank's partition: that of the first
 * rank is shown.  Steps and integers are not checked here, since agree.c compares them. */
static bool vector_note_own(struct ds_save *ds, const struct ds_vector *v, const struct ds_state *s,
                            struct zf_err *err)
{
    const struct ds_group *g = v->group;
    bool same = true;

    if (s->kind == ZF_DS_INT || (s->key.n == 4 && memcmp(s->key.p, "step", 4) == 0))
        return true;
    for (uint32_t r = 0; same && r < g->n_ranks; r++) {
        if (g->part[r]->lost || vector_same_number(v, r, s, &same, err))
            continue;
        if (!ds->o->degraded || err->code != ZF_E_IO)
            return false;
        zf_err_clear(err); /* lost bytes cannot be compared */
    }
    return same || zf_build_note(ds->b, err,
                                 "the optimizer state \"%.*s\" of group %u differs between ranks; "
                                 "the one in \"%s\" is shown",
                                 (int)s->key.n, s->key.p, g->index, ds_group_first(g)->path);
}

/* Sets v to the masters of its group. */
static bool vector_masters(struct ds_vector *v, struct zf_err *err)
{
    const struct ds_group *g = v->group;
    const struct ds_part *first = ds_group_first(g);

    v->set = "";
    v->elastic = true;
    v->dtype = first->master.dtype;
    for (uint32_t r = 0; r < g->n_ranks; r++) {
        v->part[r] = &g->part[r]->master;
        if (!g->part[r]->lost && v->part[r]->dtype != v->dtype) {
            zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                    "the weights of group %u are %s, but %s in \"%s\"", g->index,
                    zf_dtype_info(v->part[r]->dtype)->torch, zf_dtype_info(v->dtype)->torch,
                    first->path);
            return zf_err_in(err, "%s", g->part[r]->path);
        }
    }
    return true;
}

/* Sets v to one state of the optimizer. */
static bool vector_state(struct ds_save *ds, struct ds_vector *v, const struct ds_state *s,
                         struct zf_err *err)
{
    const struct ds_group *g = v->group;

    v->set = zf_path_encoded(ds->a, "optim", s->key.p, s->key.n, "", err);
    v->key = s->key;
    v->dtype = s->flat.dtype;
    v->elastic = ds_group_first(g)->elastic;
    for (uint32_t r = 0; v->set && r < g->n_ranks; r++) {
        const struct ds_part *p = g->part[r];
        const struct ds_state *mine = p->lost ? NULL : vector_same_state(g, r, s, err);

        if (!mine && !p->lost)
            return false;
        v->part[r] = mine ? &mine->flat : &p->master;
    }
    return v->set != NULL;
}

/* A rank on which the state is of an unsupported kind, or NULL. */
static const struct ds_part *vector_odd(const struct ds_group *g, const struct ds_state *s)
{
    for (uint32_t r = 0; r < g->n_ranks; r++) {
        const struct ds_state *mine = vector_find_state(g->part[r], s->key);

        if (mine && mine->kind == ZF_DS_ODD)
            return g->part[r];
    }
    return NULL;
}

/* Notes that this optimizer state is left out; the weights are served. */
static bool vector_note_odd(struct ds_save *ds, const struct ds_group *g, const struct ds_state *s,
                            const struct ds_part *rank, struct zf_err *err)
{
    return zf_build_note_on(
        ds->b, ZF_NOTE_LEFT_OUT, rank->path, err,
        "the optimizer state \"%.*s\" of group %u is left out: it is not a plain "
        "tensor in \"%s\"",
        (int)(s->key.n < 80 ? s->key.n : 80), s->key.p, g->index, rank->path);
}

bool vector_each(struct ds_save *ds, const struct ds_group *g, vector_place_fn *place, void *ctx,
                 struct zf_err *err)
{
    const struct ds_part *p = ds_group_first(g);
    struct ds_vector v = {.group = g, .key = {"", 0}};

    v.part = zf_arena_get(ds->a, g->n_ranks, sizeof *v.part, err);
    if (!v.part || !vector_masters(&v, err) || !place(ds, ctx, &v, err))
        return false;
    for (uint32_t i = 0; i < p->n_states; i++) {
        const struct ds_state *s = &p->state[i];
        const struct ds_part *odd = vector_odd(g, s);

        if (odd) {
            if (!vector_note_odd(ds, g, s, odd, err))
                return false;
            continue;
        }
        if (!vector_state(ds, &v, s, err) ||
            !(s->kind == ZF_DS_FLAT
                  ? place(ds, ctx, &v, err)
                  : vector_draft_scalar(ds, &v, s, err) && vector_note_own(ds, &v, s, err)))
            return false;
    }
    return true;
}

bool vector_refuse_length(const struct ds_vector *v, uint32_t rank, uint64_t want, uint32_t fits,
                          struct zf_err *err)
{
    zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
            "the optimizer state \"%.*s\" of group %u has %llu elements, expected %llu, the length "
            "of the weights, as on %u of the ranks",
            (int)v->key.n, v->key.p, v->group->index, (unsigned long long)v->part[rank]->n,
            (unsigned long long)want, fits);
    return zf_err_in(err, "%s", v->group->part[rank]->path);
}

/* ---- placing ---- */

bool vector_target(struct ds_save *ds, const struct ds_vector *v, uint32_t i, struct ds_target *out,
                   struct zf_err *err)
{
    const struct ds_param *p = &v->group->param[i];

    const struct zf_spot spot = ds_spot(v->set, p->name);

    *out = (struct ds_target){.size = p->shape};
    if (p->whole) {
        uint64_t *start = zf_arena_get(ds->a, p->ndim, sizeof *start, err);

        if (!start)
            return false;
        start[0] = p->first;
        out->start = start;
        out->draft = zf_build_find(ds->b, spot);
        if (out->draft && zf_draft_type(out->draft).dtype != v->dtype) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "\"%.*s\" has different dtypes on different ranks", (int)p->name.n,
                           p->name.p);
        }
    }
    if (!out->draft) {
        out->draft = zf_build_tensor(
            ds->b, spot, (struct zf_type){v->dtype, p->ndim, p->whole ? p->whole : p->shape}, err);
    }
    return out->draft != NULL;
}

/* The source and offset of the piece on its rank, unless it is lost. */
static bool vector_locate(const struct ds_vector *v, struct zf_flat_piece p, struct zf_from *from,
                          struct zf_err *err)
{
    const struct ds_flat *f = v->part[p.rank];

    if (f->lost) {
        *from = (struct zf_from){.lost = f->lost};
        return true;
    }
    if (!zf_within(p.at, p.n, f->n)) {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                "the vector of group %u has %llu elements, but a parameter has %llu of them from "
                "element %llu on",
                v->group->index, (unsigned long long)f->n, (unsigned long long)p.n,
                (unsigned long long)p.at);
        return zf_err_in(err, "%s", v->group->part[p.rank]->path);
    }
    from->src = f->src;
    from->off = f->off + p.at * zf_dtype_info(f->dtype)->bytes;
    return true;
}

bool vector_piece(const struct ds_vector *v, const struct ds_target *to, struct zf_flat_piece p,
                  struct zf_err *err)
{
    struct zf_from from = {0};

    return vector_locate(v, p, &from, err) &&
           zf_draft_put(to->draft, (struct zf_where){to->start, to->size, p.first, p.n, false},
                        from, err);
}

/* Drafts a box of a matrix that is stored column by column in the flat buffer. */
static bool vector_box(const struct ds_vector *v, const struct ds_target *to,
                       const uint64_t start[2], struct zf_flat_piece p, struct zf_err *err)
{
    const uint64_t rows = to->size[0], stride[2] = {1, rows};
    const uint64_t size[2] = {p.n < rows ? p.n : rows, p.n < rows ? 1 : p.n / rows};
    const uint64_t at[2] = {start[0] + (to->start ? to->start[0] : 0),
                            start[1] + (to->start ? to->start[1] : 0)};
    struct zf_from from = {.stride = stride};

    return vector_locate(v, p, &from, err) && zf_draft_box(to->draft, at, size, from, err);
}

/* Splits a piece of a matrix stored column by column into at most three boxes: the rest of a column, whole
 * columns, and the beginning of one more. */
static bool vector_columns(const struct ds_vector *v, const struct ds_target *to,
                           struct zf_flat_piece p, struct zf_err *err)
{
    uint64_t rows = to->size[0], end = p.first + p.n, left;

    for (; p.first < end; p.first += p.n, p.at += p.n) {
        const uint64_t start[2] = {p.first % rows, p.first / rows};

        left = end - p.first;
        p.n = rows - start[0];
        p.n = left < p.n ? left : start[0] == 0 ? left / rows * rows : p.n;
        if (!vector_box(v, to, start, p, err))
            return false;
    }
    return true;
}

bool vector_place(struct ds_save *ds, const struct ds_vector *v, const struct zf_flat_vector *flat,
                  struct zf_err *err)
{
    for (uint32_t i = 0; i < v->group->n; i++) {
        bool columns = v->group->param[i].columns;
        struct ds_target to;
        struct zf_flat_piece p;

        if (!vector_target(ds, v, i, &to, err))
            return false;
        for (uint64_t x = 0; x < flat->len[i]; x += p.n) {
            p = zf_flat_piece(flat, i, x);
            if (!(columns ? vector_columns(v, &to, p, err) : vector_piece(v, &to, p, err)))
                return false;
        }
    }
    return true;
}

/* ---- comparing ---- */

/* Byte offset of element x (C order) of a tensor. */
static uint64_t vector_element(const struct zf_tensor_ref *r, uint64_t x)
{
    uint64_t at = r->packed ? x : 0;

    for (uint32_t d = r->ndim; !r->packed && d-- > 0;) {
        at += x % r->shape[d] * r->stride[d];
        x /= r->shape[d];
    }
    return r->off + at * zf_dtype_info(r->dtype)->bytes;
}

/* Weights that are not contiguous are compared one by one, at most this many per piece. */
#define VECTOR_SINGLES 64u

bool vector_list(const struct vector_weight *w, uint64_t n, uint32_t every,
                 struct zf_roundings *out, struct zf_err *err)
{
    const struct zf_tensor_ref *to = w->weight;
    uint64_t end = w->first + n, some, step;

    for (uint64_t x = w->first; x < end; x += some) {
        struct zf_flat_piece p = zf_flat_piece(w->flat, w->i, x);
        const struct ds_part *rank = w->group->part[p.rank];
        const struct ds_flat *f = &rank->master;

        some = p.n < end - x ? p.n : end - x;
        step = to->packed ? some : (some - 1) / VECTOR_SINGLES + 1;
        if (((uint64_t)w->i + p.rank) % every != 0 || f->lost ||
            !zf_values_can_round(f->dtype, to->dtype) || !zf_within(p.at, some, f->n))
            continue;
        for (uint64_t k = 0; k < some; k += step) {
            struct zf_rounding *r = zf_vec_push(out, err);

            if (!r)
                return false;
            *r = (struct zf_rounding){
                .master = {f->src, f->off + (p.at + k) * zf_dtype_info(f->dtype)->bytes, f->dtype},
                .weight = {to->src, vector_element(to, x + k - w->first), to->dtype},
                .n = to->packed ? some : 1,
                .what = &w->group->param[w->i],
                .first = x + k,
                .file = rank->path};
        }
    }
    return true;
}
