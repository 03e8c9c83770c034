/* SPDX-License-Identifier: Apache-2.0 */
#include "pack.h"

#include <stdio.h>

#include <zf/model/pack.h>

#include "draft.h"
#include "map_slots.h"

struct packing {
    const struct zf_build *b;
    struct zf_out *out;
    zf_pack_source_fn *number;
    void *ctx;
    uint64_t *known;                  /* [sources] number + 1, or 0 */
    struct pack_stretches *stretches; /* uthash */
    zf_vec(const struct zf_stretches *) order;
};

struct pack_stretches {
    UT_hash_handle hh; /* key: the address */
    uint64_t number;
};

/* i: in the build's table. */
static bool pack_source(struct packing *p, uint64_t i, struct zf_err *err)
{
    uint64_t number = 0;

    if (i && !p->known[i]) {
        if (!p->number(p->ctx, p->b->sources->at[i], &number, err)) {
            return false;
        }
        p->known[i] = number + 1;
    }
    zf_out_var(p->out, i ? PACK_SOURCES + p->known[i] - 1 : PACK_ZEROS);
    return true;
}

/* ---- stretches ---- */

static bool pack_add_stretches(struct packing *p, const struct zf_stretches *s, struct zf_err *err)
{
    if (zf_table_find_id(p->stretches, (uintptr_t)s)) {
        return true;
    }
    struct pack_stretches *e = zf_table_make_id(p->stretches, (uintptr_t)s, err);
    if (!e || !zf_vec_room(&p->order, 1, err)) {
        return false;
    }
    e->number = p->order.n;
    p->order.at[p->order.n++] = s;
    return true;
}

static bool pack_all_stretches(struct packing *p, struct zf_err *err)
{
    for (size_t i = 0; i < p->b->drafts.n; i++) {
        const struct zf_draft *d = p->b->drafts.at[i];

        if (d->kind == ZF_DRAFT_SLOTS && !pack_add_stretches(p, d->slots->of, err)) {
            return false;
        }
    }
    zf_out_var(p->out, p->order.n);
    for (size_t i = 0; i < p->order.n; i++) {
        const struct zf_stretches *s = p->order.at[i];

        zf_out_var(p->out, s->bytes);
        zf_out_var(p->out, s->n);
        for (uint32_t k = 0; k < s->n; k++) {
            if (!pack_source(p, s->src[k], err)) {
                return false;
            }
            zf_out_var(p->out, s->off[k]);
        }
    }
    return true;
}

/* ---- tensors ---- */

static void pack_numbers(struct packing *p, const uint64_t *v, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        zf_out_var(p->out, v[i]);
    }
}

static bool pack_flat_piece(struct packing *p, const struct zf_draft *d, const struct piece *x,
                            struct zf_err *err)
{
    pack_numbers(p, x->box, 2);
    if (x->of) {
        zf_out_var(p->out, PACK_PART);
        zf_out_var(p->out, x->of->number);
        zf_out_var(p->out, x->off / zf_dtype_info(d->dtype)->bytes);
        return true;
    }
    if (!pack_source(p, x->src, err)) {
        return false;
    }
    zf_out_var(p->out, x->off);
    return true;
}

static bool pack_box_piece(struct packing *p, const struct zf_draft *d, const struct piece *x,
                           struct zf_err *err)
{
    pack_numbers(p, x->box, 2 * d->ndim);
    if (!pack_source(p, x->src, err)) {
        return false;
    }
    zf_out_var(p->out, x->off);
    zf_out_u8(p->out, x->stride != NULL);
    pack_numbers(p, x->stride, x->stride ? d->ndim : 0);
    return true;
}

static bool pack_pieces(struct packing *p, const struct zf_draft *d, struct zf_err *err)
{
    struct piece_walk walk = piece_walk(d);
    bool ok = true;

    zf_out_var(p->out, d->n_pieces);
    for (const struct piece *x; ok && (x = piece_next(&walk));) {
        ok = d->kind == ZF_DRAFT_BOX ? pack_box_piece(p, d, x, err) : pack_flat_piece(p, d, x, err);
    }
    return ok;
}

/* As the flat piece that it is. */
static bool pack_whole(struct packing *p, const struct zf_draft *d, struct zf_err *err)
{
    zf_out_var(p->out, 1);
    zf_out_var(p->out, 0);
    zf_out_var(p->out, d->elems);
    if (!pack_source(p, d->whole.src, err)) {
        return false;
    }
    zf_out_var(p->out, d->whole.off);
    return true;
}

static bool pack_data(struct packing *p, const struct zf_draft *d, struct zf_err *err)
{
    const uint64_t elem = zf_dtype_info(d->dtype)->bytes;
    const struct pack_stretches *e;

    zf_out_u8(p->out, (uint8_t)d->dtype);
    zf_out_var(p->out, d->ndim);
    pack_numbers(p, d->shape, d->ndim);
    switch (d->kind) {
    case ZF_DRAFT_EMPTY:
        return true;
    case ZF_DRAFT_MEM:
        zf_out_add(p->out, d->mem, (size_t)draft_bytes(d));
        return true;
    case ZF_DRAFT_SLOTS:
        e = zf_table_find_id(p->stretches, (uintptr_t)d->slots->of);
        zf_out_var(p->out, e->number);
        zf_out_var(p->out, d->slots->at / elem);
        zf_out_var(p->out, d->slots->slot / elem);
        return true;
    case ZF_DRAFT_WHOLE:
        return pack_whole(p, d, err);
    default:
        break;
    }
    return pack_pieces(p, d, err);
}

static unsigned pack_kind(const struct zf_draft *d)
{
    return d->kind == ZF_DRAFT_SAME ? 0 : d->kind == ZF_DRAFT_WHOLE ? ZF_DRAFT_FLAT : d->kind;
}

static bool pack_draft(struct packing *p, const struct zf_draft *d, struct zf_err *err)
{
    const struct zf_draft *tie = draft_tie(d);
    bool same = d->kind == ZF_DRAFT_SAME;

    zf_out_u8(p->out,
              (uint8_t)(pack_kind(d) | (d->set ? 0 : PACK_HIDDEN) | (same && !tie ? PACK_SAME : 0) |
                        (tie ? PACK_TIE : 0) | (d->apart ? PACK_APART : 0)));
    if (d->set) {
        zf_out_var(p->out, d->set->number);
    }
    zf_out_counted(p->out, draft_name(d), d->name_len);
    if (same) {
        zf_out_var(p->out, tie ? tie->number : d->same.as->number);
        return true;
    }
    return pack_data(p, d, err);
}

static bool pack_drafts(struct packing *p, struct zf_err *err)
{
    zf_out_var(p->out, p->b->sets.n);
    for (size_t i = 0; i < p->b->sets.n; i++) {
        const struct draft_set *s = p->b->sets.at[i];

        zf_out_counted(p->out, s->path, strlen(s->path));
        zf_out_u8(p->out, s->raw_only);
    }
    zf_out_var(p->out, p->b->drafts.n);
    for (size_t i = 0; i < p->b->drafts.n; i++) {
        if (!pack_draft(p, p->b->drafts.at[i], err)) {
            return false;
        }
    }
    return true;
}

/* ---- the rest ---- */

static void pack_notes(struct packing *p)
{
    const struct build_rest *rest = &p->b->rest;
    uint64_t made = 0;
    char more[100];

    for (const struct note_kind *k = rest->note_kinds; k; k = k->next) {
        made += k->n;
    }
    /* As the seal says it. */
    bool dropped = made > rest->n_notes;
    zf_out_var(p->out, rest->n_notes + dropped);
    for (const struct note_item *n = rest->notes; n; n = n->next) {
        zf_out_counted(p->out, n->text, strlen(n->text));
    }
    if (dropped) {
        int n = snprintf(more, sizeof more, NOTES_MORE, (unsigned long long)(made - rest->n_notes));
        zf_out_counted(p->out, more, (uint64_t)n);
    }
}

static bool pack_file(struct packing *p, const struct blob_item *f, struct zf_err *err)
{
    uint64_t n = zf_map_size(f->map);
    const struct zf_run run = n ? zf_map_at(f->map, 0) : (struct zf_run){.mem = ""};
    uint32_t number;

    zf_out_counted(p->out, f->path, strlen(f->path));
    if (run.kind == ZF_RUN_SRC) {
        zf_out_u8(p->out, PACK_RANGE);
        if (!sources_add(p->b->sources, run.src, &number, err) || !pack_source(p, number, err)) {
            return false;
        }
        zf_out_var(p->out, run.off);
        zf_out_var(p->out, n);
        return true;
    }
    if (run.kind != ZF_RUN_MEM) {
        return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE, "the bytes of \"%.200s\" are made",
                       f->path);
    }
    zf_out_u8(p->out, PACK_BYTES);
    zf_out_counted(p->out, run.mem, n);
    return true;
}

static bool pack_all(struct packing *p, struct zf_err *err)
{
    const struct build_rest *rest = &p->b->rest;

    zf_out_counted(p->out, rest->tag, strlen(rest->tag));
    zf_out_u8(p->out, rest->has_step);
    zf_out_var(p->out, rest->has_step ? (uint64_t)rest->step : 0);
    pack_notes(p);
    if (!pack_all_stretches(p, err) || !pack_drafts(p, err)) {
        return false;
    }
    zf_out_var(p->out, rest->n_blobs);
    for (const struct blob_item *f = rest->blobs; f; f = f->next) {
        if (!pack_file(p, f, err)) {
            return false;
        }
    }
    zf_out_var(p->out, rest->n_told);
    for (const struct told_item *t = rest->told; t; t = t->next) {
        zf_out_counted(p->out, t->path, strlen(t->path));
    }
    return zf_out_ok(p->out, err);
}

bool zf_build_pack(const struct zf_build *b, zf_pack_source_fn *number, void *ctx,
                   struct zf_out *out, struct zf_err *err)
{
    struct packing p = {.b = b, .out = out, .number = number, .ctx = ctx};

    if (b->degraded || b->rest.n_missing) {
        return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE, "a damaged checkpoint is not kept");
    }
    p.known = calloc(b->sources->n + 1, sizeof *p.known);
    bool ok = p.known ? pack_all(&p, err) : zf_fail_sys(err, "pack a model");
    free(p.known);
    zf_table_free(p.stretches);
    zf_vec_fini(&p.order);
    return ok;
}
