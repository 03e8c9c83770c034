/* SPDX-License-Identifier: Apache-2.0 */
/* A tensor in the making: the pieces that a format adds to it, each checked against the shape and
 * its source when it is added.  The seal proves that together they cover the tensor exactly once
 * (pieces.c). */
#include <stdio.h>
#include <string.h>

#include <zf/base/num.h>

#include "draft.h"
#include "map_slots.h"

struct zf_type zf_draft_type(const struct zf_draft *d)
{
    return (struct zf_type){d->dtype, d->ndim, d->shape};
}

struct zf_spot zf_draft_spot(const struct zf_draft *d)
{
    return (struct zf_spot){d->set ? d->set->path : NULL, draft_name(d), d->name_len};
}

const char *draft_text(const struct zf_draft *d, char out[DRAFT_TEXT])
{
    int n = snprintf(out, DRAFT_TEXT, "tensor \"%.*s\" of shape [",
                     (int)(d->name_len < 90 ? d->name_len : 90), draft_name(d));
    size_t at = (size_t)n;

    for (uint32_t i = 0; i < d->ndim && at < DRAFT_TEXT - 32; i++) {
        at += (size_t)snprintf(out + at, DRAFT_TEXT - at, "%s%llu", i ? ", " : "",
                               (unsigned long long)d->shape[i]);
    }
    (void)snprintf(out + at, DRAFT_TEXT - at, "]");
    return out;
}

/* An error about the tensor, without a file yet. */
static bool draft_blame(const struct zf_draft *d, struct zf_err *err, const char *what)
{
    char text[DRAFT_TEXT];

    return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "%s %s", draft_text(d, text), what);
}

bool draft_refuse(const struct zf_draft *d, struct zf_err *err, const char *what)
{
    (void)draft_blame(d, err, what);
    return draft_place(d, err);
}

bool draft_place(const struct zf_draft *d, struct zf_err *err)
{
    if (d->where && d->inside)
        return zf_err_in(err, "%s!%.*s", d->where, (int)d->name_len, draft_name(d));
    return d->where ? zf_err_in(err, "%s", d->where) : false;
}

/* Drafts made one after the other often have the same file, whose name is stored once. */
bool zf_draft_where(struct zf_draft *d, const char *where, struct zf_err *err)
{
    struct zf_build *b = d->b;

    if (!draft_change(d, err))
        return false;
    if (!b->where || strcmp(b->where, where) != 0)
        b->where = zf_arena_str(b->temp, where, strlen(where), err);
    d->where = b->where;
    return d->where != NULL;
}

bool zf_draft_inside(struct zf_draft *d, const char *file, struct zf_err *err)
{
    return zf_draft_where(d, file, err) && (d->inside = true);
}

bool zf_draft_noted(struct zf_draft *d, struct zf_err *err)
{
    d = draft_data(d);
    return draft_change(d, err) && (d->noted = true);
}

bool zf_draft_mark_piece(struct zf_draft *d, struct zf_err *err)
{
    return draft_change(d, err) && (d->apart = true);
}

/* ---- storing pieces ----------------------------------------------------------------------- */

static bool draft_count_piece(struct zf_draft *d, struct zf_err *err)
{
    struct zf_build *b = d->b;

    if (!draft_change(d, err) ||
        !build_may_add(d->n_pieces < UINT32_MAX / 2 ? b->rest.n_pieces : UINT32_MAX, b->lim.pieces,
                       "pieces of tensors", ZF_LIMIT_pieces, err))
        return false;
    d->n_pieces++;
    b->rest.n_pieces++;
    return true;
}

bool draft_put_whole(struct zf_draft *d, uint64_t src, uint64_t off, struct zf_err *err)
{
    if (!draft_count_piece(d, err))
        return false;
    d->kind = ZF_DRAFT_WHOLE;
    d->whole.src = (uint32_t)src;
    d->whole.off = off;
    return true;
}

struct piece *draft_new_piece(struct zf_draft *d, struct zf_err *err)
{
    uint64_t words = piece_words(d);
    struct piece_block *last = d->pieces.last;

    if (!draft_count_piece(d, err))
        return NULL;
    if (!last || last->n == last->cap) {
        uint64_t cap = last ? last->cap * 2 : 1;
        cap = cap > 4096 ? 4096 : cap;
        struct piece_block *block =
            zf_arena_get(d->b->temp, 1, sizeof *block + cap * words * 8, err);
        if (!block)
            return NULL;
        block->cap = cap;
        if (last)
            last->next = block;
        else
            d->pieces.first = block;
        d->pieces.last = last = block;
    }
    /* The record of a withdrawn piece may have been here. */
    return memset(last->words + last->n++ * words, 0, (size_t)(words * 8));
}

/* The next piece that the rule makes, or NULL. */
static const struct piece *draft_rule_piece(struct piece_walk *w)
{
    const struct zf_draft *d = w->d;
    struct piece *p = (struct piece *)w->made;
    const uint64_t i = w->i++;

    if (d->kind == ZF_DRAFT_WHOLE && i == 0) {
        p->box[1] = d->elems;
        p->src = d->whole.src;
        p->off = d->whole.off;
        return p;
    }
    if (d->kind != ZF_DRAFT_SLOTS || i >= d->slots->of->n || i >= draft_slots_ruled(d))
        return NULL;
    const uint64_t slot = d->slots->slot / zf_dtype_info(d->dtype)->bytes;
    p->box[0] = i * slot;
    p->box[1] = d->elems - p->box[0] < slot ? d->elems - p->box[0] : slot;
    p->src = d->slots->of->src[i];
    p->off = d->slots->of->off[i] + d->slots->at;
    return p;
}

const struct piece *piece_next(struct piece_walk *w)
{
    if (w->rule)
        return draft_rule_piece(w);
    while (w->block && w->i == w->block->n) {
        w->block = w->block->next;
        w->i = 0;
    }
    return w->block ? (const void *)(w->block->words + w->i++ * w->words) : NULL;
}

struct piece *draft_new_flat(struct zf_draft *d, uint64_t first, uint64_t n, uint64_t src,
                             uint64_t off, struct zf_err *err)
{
    struct piece *p = draft_new_piece(d, err);

    if (p) {
        p->box[0] = first;
        p->box[1] = n;
        p->src = src;
        p->off = off;
    }
    return p;
}

static bool draft_outside(const struct zf_draft *d, const struct zf_source *src, uint64_t off,
                          struct zf_err *err)
{
    char text[160];

    (void)snprintf(text, sizeof text,
                   "has a piece at byte %llu that reaches beyond the end of its data (%llu bytes)",
                   (unsigned long long)off, (unsigned long long)src->size);
    (void)draft_blame(d, err, text);
    return zf_err_in(err, "%s", src->name);
}

bool draft_lost_source(struct zf_draft *d, struct zf_source *parent, uint64_t cut, uint64_t size,
                       const struct zf_lost *how, uint32_t *out, struct zf_err *err)
{
    struct zf_lost with = *how;

    if (!draft_change(d, err))
        return false;
    with.fill.n = d->b->rest.fill_lost && !how->unshaped
                      ? (uint8_t)zf_dtype_nan(d->dtype, with.fill.byte)
                      : 0;
    d->unshaped = d->unshaped || how->unshaped;
    zf_auto(source) struct zf_source *s = zf_lost_behind(parent, cut, size, &with, err);
    d->lost = true;
    return s && sources_add(d->b->sources, s, out, err);
}

bool draft_tolerate(struct zf_draft *d, const struct zf_from *from, struct zf_err *err)
{
    char text[800];

    (void)draft_outside(d, from->src, from->off, err);
    if (!d->b->degraded)
        return false;
    (void)zf_err_text(err, text, sizeof text);
    zf_err_clear(err);
    return d->noted || zf_build_note(d->b, err, "%s", text);
}

/* Replaces from->src, for a piece of `span` bytes that reaches beyond its end, by a source whose rest
 * is lost; *number is its index.  Where lost elements are filled, an element cut in two is lost whole. */
static bool draft_cut_short(struct zf_draft *d, struct zf_from *from, uint64_t span,
                            uint32_t *number, struct zf_err *err)
{
    uint64_t size = from->src->size, end;
    uint64_t there = size > from->off ? size - from->off : 0;
    uint8_t nan[16];
    char why[64];

    (void)snprintf(why, sizeof why, "ends at byte %llu", (unsigned long long)size);
    const struct zf_lost how = {.file = from->src->name, .why = why};
    if (d->b->rest.fill_lost && zf_dtype_nan(d->dtype, nan) > 0)
        there -= there % zf_dtype_info(d->dtype)->bytes;
    if (there == 0) {
        from->off = 0;
        return draft_lost_source(d, NULL, 0, span, &how, number, err);
    }
    /* Offsets remain those of the file, so that the reported sources stay true. */
    if (!zf_add(from->off, span, &end))
        end = UINT64_MAX;
    return draft_lost_source(d, from->src, from->off + there, end, &how, number, err);
}

bool draft_take_source(struct zf_draft *d, struct zf_from *from, uint64_t span, uint32_t *number,
                       struct zf_err *err)
{
    if (!from->src || zf_within(from->off, span, from->src->size)) {
        /* The bounds are proved now: keeping the window would only cost memory, and a call per read. */
        from->src = zf_window_of(from->src, &from->off);
        return sources_add(d->b->sources, from->src, number, err);
    }
    return draft_tolerate(d, from, err) && draft_cut_short(d, from, span, number, err);
}

/* ---- boxes -------------------------------------------------------------------------------- */

bool draft_takes_pieces(const struct zf_draft *d, struct zf_err *err)
{
    if (d->kind == ZF_DRAFT_MEM)
        return draft_refuse(d, err, "is a value, but also has pieces");
    return d->kind != ZF_DRAFT_SLOTS ||
           draft_refuse(d, err, "is cut into slots, but also has pieces");
}

bool draft_box_inside(const struct zf_draft *d, const uint64_t *start, const uint64_t *size,
                      uint64_t *n_out, struct zf_err *err)
{
    uint64_t n = 1;
    char text[160];

    for (uint32_t i = 0; i < d->ndim; i++) {
        /* Writers give empty shards any offset, often the size. */
        if (size[i] == 0) {
            *n_out = 0;
            return true;
        }
    }
    for (uint32_t i = 0; i < d->ndim; i++) {
        uint64_t at = start ? start[i] : 0;

        if (!zf_within(at, size[i], d->shape[i])) {
            (void)snprintf(text, sizeof text,
                           "has a box that reaches from %llu over %llu elements of dimension %u",
                           (unsigned long long)at, (unsigned long long)size[i], i);
            return draft_refuse(d, err, text);
        }
        n *= size[i]; /* cannot overflow: at most the tensor's elements */
    }
    *n_out = n;
    return true;
}
