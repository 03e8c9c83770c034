/* SPDX-License-Identifier: Apache-2.0 */
/* An optimizer state over the ranks: checks that all ranks have it alike, and maps positions in it to ranks. */
#include <stdio.h>
#include <string.h>

#include "ds.h"

/* The first rank whose file is there: the others must agree with it.  There is always one. */
static const struct zf_ds_rank *first_rank(const struct zf_ds *ds)
{
    const struct zf_ds_rank *r = ds->rank;

    while (r->lost) {
        r++;
    }
    return r;
}

static const struct zf_ds_state *find_state(const struct zf_ds_part *p, struct zf_ds_name key)
{
    for (uint32_t i = 0; i < p->n_states; i++) {
        if (zf_ds_name_eq(p->state[i].key, key)) {
            return &p->state[i];
        }
    }
    return NULL;
}

/* State `want` of group g on rank r, which must be of the same kind there. */
static const struct zf_ds_state *same_state(const struct zf_ds *ds, uint32_t r, uint32_t g,
                                            const struct zf_ds_state *want, struct zf_err *err)
{
    const struct zf_ds_rank *rank = &ds->rank[r];
    const struct zf_ds_state *s = find_state(&rank->part[g], want->key);

    if (!s || s->kind != want->kind || s->flat.dtype != want->flat.dtype) {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                "the state \"%.*s\" of group %u is %s, unlike in \"%s\"", (int)want->key.n,
                want->key.p, g, s ? "of another type" : "missing", first_rank(ds)->path);
        return zf_err_in(err, "%s", rank->path), NULL;
    }
    if (s->kind == ZF_DS_INT && s->i != want->i) {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                "\"%.*s\" of group %u is %lld, but %lld in \"%s\": ranks of different saves",
                (int)want->key.n, want->key.p, g, (long long)s->i, (long long)want->i,
                first_rank(ds)->path);
        return zf_err_in(err, "%s", rank->path), NULL;
    }
    return s;
}

struct walk {
    const struct zf_ds_shapes *params;
    zf_ds_place_fn *place;
    void *ctx;
    struct zf_ds_column c;
};

/* A value that holds for the whole group becomes one small tensor a parameter. */
static bool draft_scalar(struct zf_ds *ds, const struct walk *w, const struct zf_ds_state *s,
                         struct zf_err *err)
{
    const struct zf_from from = {.src = s->flat.src, .off = s->flat.off};

    for (uint32_t i = 0; i < w->params->n; i++) {
        struct zf_ds_name name = w->params->param[i].name;
        struct zf_draft *d;
        bool ok;

        if (s->kind == ZF_DS_INT) {
            ok = zf_build_scalar(ds->b, ds_spot(w->c.set, name), ZF_DT_I64, &s->i, err);
        } else if (s->kind == ZF_DS_FLOAT) {
            ok = zf_build_scalar(ds->b, ds_spot(w->c.set, name), ZF_DT_F64, &s->f, err);
        } else {
            d = zf_build_tensor(ds->b, ds_spot(w->c.set, name),
                                (struct zf_type){s->flat.dtype, 0, NULL}, err);
            ok = d && zf_draft_flat(d, 0, 1, from, err);
        }
        if (!ok) {
            return false;
        }
    }
    return true;
}

static bool place_master(struct zf_ds *ds, struct walk *w, struct zf_err *err)
{
    struct zf_ds_column *c = &w->c;

    c->set = "";
    c->lean = true;
    c->dtype = first_rank(ds)->part[c->g].master.dtype;
    for (uint32_t r = 0; r < ds->n_ranks; r++) {
        const struct zf_ds_rank *rank = &ds->rank[r];

        c->flat[r] = rank->lost ? NULL : &rank->part[c->g].master;
        if (c->flat[r] && c->flat[r]->dtype != c->dtype) {
            zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                    "the weights of group %u are %s, but %s in \"%s\"", c->g,
                    zf_dtype_info(c->flat[r]->dtype)->torch, zf_dtype_info(c->dtype)->torch,
                    first_rank(ds)->path);
            return zf_err_in(err, "%s", rank->path);
        }
    }
    return w->place(ds, w->ctx, c, err);
}

static bool place_state(struct zf_ds *ds, struct walk *w, const struct zf_ds_state *s,
                        struct zf_err *err)
{
    struct zf_ds_column *c = &w->c;

    c->set = zf_ds_optim_set(ds, s->key, err);
    c->key = s->key;
    c->dtype = s->flat.dtype;
    c->lean = first_rank(ds)->part[c->g].lean;
    for (uint32_t r = 0; c->set && r < ds->n_ranks; r++) {
        const struct zf_ds_state *mine = ds->rank[r].lost ? NULL : same_state(ds, r, c->g, s, err);

        c->flat[r] = mine ? &mine->flat : NULL;
        if (!mine && !ds->rank[r].lost) {
            return false;
        }
    }
    if (!c->set) {
        return false;
    }
    return s->kind == ZF_DS_FLAT ? w->place(ds, w->ctx, c, err) : draft_scalar(ds, w, s, err);
}

bool zf_ds_column_each(struct zf_ds *ds, uint32_t g, const struct zf_ds_shapes *params,
                       zf_ds_place_fn *place, void *ctx, struct zf_err *err)
{
    const struct zf_ds_part *p = &first_rank(ds)->part[g];
    struct walk w = {.params = params, .place = place, .ctx = ctx, .c = {.g = g, .key = {"", 0}}};

    w.c.flat = zf_arena_get(ds->a, ds->n_ranks, sizeof *w.c.flat, err);
    if (!w.c.flat || !place_master(ds, &w, err)) {
        return false;
    }
    for (uint32_t i = 0; i < p->n_states; i++) {
        if (!place_state(ds, &w, &p->state[i], err)) {
            return false;
        }
    }
    return true;
}

struct zf_draft *zf_ds_column_draft(struct zf_ds *ds, const struct zf_ds_column *c,
                                    const struct zf_ds_param *p, struct zf_err *err)
{
    return zf_build_tensor(ds->b, ds_spot(c->set, p->name),
                           (struct zf_type){c->dtype, p->ndim, p->shape}, err);
}

/* Byte of the rank's source where n elements from element `at` of its vector stand. */
static bool locate(struct zf_ds *ds, const struct zf_ds_column *c, uint32_t rank,
                   const uint64_t at_n[2], struct zf_from *from, struct zf_err *err)
{
    const struct zf_ds_flat *f = c->flat[rank];
    uint64_t at = at_n[0], n = at_n[1];

    if (at > f->n || n > f->n - at) {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                "the vector of group %u has %llu elements, but a parameter's piece has %llu from "
                "%llu on",
                c->g, (unsigned long long)f->n, (unsigned long long)n, (unsigned long long)at);
        return zf_err_in(err, "%s", ds->rank[rank].path);
    }
    from->src = f->src;
    from->off = f->off + at * zf_dtype_info(f->dtype)->bytes;
    return true;
}

/* The file of a rank that was lost is called like those of the others. */
static struct zf_lost lost_rank(const struct zf_ds *ds, uint32_t rank, char path[1024])
{
    static const char before[] = "zero_pp_rank_";
    const struct zf_ds_rank *r = &ds->rank[rank], *other = ds->rank;

    while (other->lost) {
        other++;
    }
    const char *number = strstr(other->path, before);
    if (r->path[0]) {
        (void)snprintf(path, 1024, "%s/%s", zf_store_name(ds->st), r->path);
        return (struct zf_lost){.file = path, .why = "is damaged"};
    }
    if (!number) {
        (void)snprintf(path, 1024, "the optimizer file of rank %u is missing", rank);
        return (struct zf_lost){.why = path};
    }
    number += sizeof before - 1;
    (void)snprintf(path, 1024, "%s/%.*s%u%s", zf_store_name(ds->st), (int)(number - other->path),
                   other->path, rank, number + strspn(number, "0123456789"));
    return (struct zf_lost){.file = path, .why = "is missing"};
}

bool zf_ds_column_piece(struct zf_ds *ds, const struct zf_ds_column *c, uint32_t rank,
                        struct zf_draft *d, const uint64_t span[3], struct zf_err *err)
{
    struct zf_from from = {0};

    if (!c->flat[rank]) {
        char path[1024];
        const struct zf_lost how = lost_rank(ds, rank, path);

        return zf_draft_lost_flat(d, span[0], span[1], &how, err);
    }
    return locate(ds, c, rank, (const uint64_t[]){span[2], span[1]}, &from, err) &&
           zf_draft_flat(d, span[0], span[1], from, err);
}

bool zf_ds_column_box(struct zf_ds *ds, const struct zf_ds_column *c, uint32_t rank,
                      struct zf_draft *d, const struct zf_ds_box *box, struct zf_err *err)
{
    const uint64_t stride[2] = {1, box->rows};
    const uint64_t at_n[2] = {box->at, box->size[0] * box->size[1]};
    struct zf_from from = {.stride = stride};

    if (!c->flat[rank]) {
        char path[1024];
        const struct zf_lost how = lost_rank(ds, rank, path);

        return zf_draft_lost_box(d, box->start, box->size, &how, err);
    }
    return locate(ds, c, rank, at_n, &from, err) &&
           zf_draft_box(d, box->start, box->size, from, err);
}
