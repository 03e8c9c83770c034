/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a tensor that is still being put together.  Nothing is proved yet, so every element of a
 * read is counted: one that no piece has, or more than one, is an error. */
#include <stdio.h>
#include <string.h>

#include <zf/base/num.h>

#include "box.h"
#include "draft.h"
#include "draft_index.h"

/* Elements that are read and counted at once. */
#define STEP 4096u

/* A stretch of a tensor that is to be read. */
struct wanted {
    struct zf_draft *d;
    uint64_t first, n; /* elements */
    unsigned char *buf;
};
typedef zf_vec(struct wanted) wanted_vec;
static void zf_auto_wanted_vec(wanted_vec *v)
{
    zf_vec_fini(v);
}

/* Which elements of a step have been met. */
struct step {
    struct wanted want;
    uint64_t seen[STEP / 64];
    wanted_vec *later; /* stretches of other tensors: what parts are made of */
};

static bool read_blame(const struct zf_draft *d, uint64_t elem, const char *by, struct zf_err *err)
{
    char text[120];

    (void)snprintf(text, sizeof text, "is read at element %llu, which is covered by %s",
                   (unsigned long long)elem, by);
    return draft_refuse(d, err, text);
}

static bool read_lost(const struct zf_lost *how, struct zf_err *err)
{
    (void)zf_fail(err, ZF_E_IO, ZF_OFF_NONE, "%s", how->why);
    return how->file[0] ? zf_err_in(err, "%s", how->file) : false;
}

/* ---- one piece ---------------------------------------------------------------------------- */

/* The dimensions of the tensor in which a box of bytes is read: those of more than one element, and
 * the bytes of an element. */
struct bytes {
    uint32_t nd;
    uint64_t shape[ZF_BOX_DIMS], stride[ZF_BOX_DIMS];
};

static void read_measure(const struct zf_draft *d, struct bytes *t)
{
    struct draft_axes a = draft_axes(d);

    t->nd = 0;
    for (uint32_t i = 0; i < a.nd; i++) {
        if (a.shape[i] != 1) {
            t->shape[t->nd++] = a.shape[i];
        }
    }
    t->shape[t->nd++] = zf_dtype_info(d->dtype)->bytes;
    zf_packed_strides(t->nd, t->shape, t->stride);
}

/* The piece as a box of bytes. */
static void read_box(const struct zf_draft *d, const struct piece *p, const struct bytes *t,
                     struct box *out)
{
    struct draft_axes a = draft_axes(d);
    const uint64_t *start, *size, *stride = d->kind == ZF_DRAFT_BOX ? p->stride : NULL;
    uint64_t elem = zf_dtype_info(d->dtype)->bytes;

    draft_extent(d, p, &start, &size);
    *out = (struct box){.src = d->b->sources->at[p->src], .off = p->off, .packed = !stride};
    for (uint32_t i = 0; i < a.nd; i++) {
        if (a.shape[i] != 1) {
            out->start[out->nd] = start[i];
            out->size[out->nd] = size[i];
            out->stride[out->nd++] = stride ? stride[i] * elem : 0;
        }
    }
    out->size[out->nd] = elem;
    out->stride[out->nd++] = 1;
    out->tensor_shape = t->shape;
    out->tensor_stride = t->stride;
    box_measure(out);
}

/* Counts elements [first, first + n) of the tensor, which are in the step. */
static bool read_count(struct step *s, uint64_t first, uint64_t n, struct zf_err *err)
{
    for (uint64_t i = first - s->want.first; n > 0; i++, n--) {
        uint64_t bit = (uint64_t)1 << i % 64;

        if (s->seen[i / 64] & bit) {
            return read_blame(s->want.d, s->want.first + i, "more than one piece", err);
        }
        s->seen[i / 64] |= bit;
    }
    return true;
}

/* Counts bytes [lo, hi) of the box, which begin and end with an element, a row at a time, and looks
 * whether any is lost: a filled one would read as if it were there. */
static bool read_rows(struct step *s, const struct box *b, uint64_t lo, uint64_t hi,
                      struct zf_err *err)
{
    uint64_t elem = zf_dtype_info(s->want.d->dtype)->bytes, until;
    uint32_t last = b->nd > 1 ? b->nd - 2 : 0;
    struct zf_lost how;

    for (uint64_t n; lo < hi; lo += n) {
        uint64_t at = 0, off = b->off;

        for (uint32_t i = 0; i < b->nd; i++) {
            uint64_t in = lo / b->inner[i] % b->size[i];

            at += (b->start[i] + in) * b->tensor_stride[i];
            off += in * b->stride[i];
        }
        /* Apart in the source, elements go one by one. */
        n = b->packed ? b->size[last] * b->inner[last] : elem;
        n -= b->packed ? lo % n : 0;
        n = n < hi - lo ? n : hi - lo;
        if (!read_count(s, at / elem, n / elem, err)) {
            return false;
        }
        if (b->src && (zf_source_lost(b->src, off, &until, &how) ||
                       (until < off + n && zf_source_lost(b->src, until, &until, &how)))) {
            return read_lost(&how, err);
        }
    }
    return true;
}

static bool read_source(struct step *s, const struct piece *p, struct zf_err *err)
{
    const struct wanted *w = &s->want;
    uint64_t elem = zf_dtype_info(w->d->dtype)->bytes;
    zf_auto(scratch) struct scratch scratch = {0};
    uint64_t from[ZF_BOX_DIMS], to[ZF_BOX_DIMS];
    struct bytes t;
    struct box box;

    read_measure(w->d, &t);
    read_box(w->d, p, &t, &box);
    box_coordinates(box.nd, t.stride, w->first * elem, from);
    box_coordinates(box.nd, t.stride, (w->first + w->n) * elem, to);
    uint64_t lo = box_rank(&box, from), hi = box_rank(&box, to);
    return lo == hi || (read_rows(s, &box, lo, hi, err) &&
                        box_read(&box, lo, hi, w->buf, w->first * elem, &scratch, err));
}

/* A part of another tensor is read when this one is done. */
static bool read_part(struct step *s, const struct piece *p, struct zf_err *err)
{
    const struct wanted *w = &s->want;
    uint64_t elem = zf_dtype_info(w->d->dtype)->bytes, end = p->box[0] + p->box[1];
    uint64_t first = w->first > p->box[0] ? w->first : p->box[0];
    struct wanted *part;

    end = end < w->first + w->n ? end : w->first + w->n;
    if (!read_count(s, first, end - first, err) || !(part = zf_vec_push(s->later, err))) {
        return false;
    }
    *part = (struct wanted){.d = p->of,
                            .first = p->off / elem + (first - p->box[0]),
                            .n = end - first,
                            .buf = w->buf + (first - w->first) * elem};
    return true;
}

/* ---- a stretch ---------------------------------------------------------------------------- */

/* Of the step: what lies between lo and hi, corner to corner, is a box of the tensor. */
static bool read_step(struct step *s, const uint64_t *lo, const uint64_t *hi, struct zf_err *err)
{
    struct zf_draft *d = s->want.d;
    struct draft_walk walk;
    const struct piece *p;

    if (!draft_walk_init(&walk, d, lo, hi, err)) {
        return false;
    }
    memset(s->seen, 0, sizeof s->seen);
    while ((p = draft_walk_next(&walk))) {
        bool part = d->kind == ZF_DRAFT_FLAT && p->of;

        if (!(part ? read_part(s, p, err) : read_source(s, p, err))) {
            return false;
        }
    }
    for (uint64_t i = 0; i < s->want.n; i++) {
        if (!(s->seen[i / 64] >> i % 64 & 1)) {
            return read_blame(d, s->want.first + i, "nothing so far", err);
        }
    }
    return true;
}

/* The draft that has the data of d, when nothing of it is made any more while it is read: several threads
 * may read.  NULL: an error. */
static struct zf_draft *read_ready(struct zf_draft *d, struct zf_err *err)
{
    struct zf_build *b = d->b;

    (void)pthread_mutex_lock(&b->reading);
    d = draft_data(d);
    bool ok = draft_index_make(d, err);
    (void)pthread_mutex_unlock(&b->reading);
    return ok ? d : NULL;
}

static bool read_stretch(struct wanted w, wanted_vec *later, struct zf_err *err)
{
    if (!(w.d = read_ready(w.d, err))) {
        return false;
    }
    struct draft_axes a = draft_axes(w.d);
    uint64_t elem = zf_dtype_info(w.d->dtype)->bytes;
    zf_auto(arena) struct zf_arena *scratch = zf_arena_new(UINT64_MAX, err);
    uint64_t *lo = scratch ? zf_arena_get(scratch, a.nd, 2 * sizeof *lo, err) : NULL;
    uint64_t *hi = lo ? lo + a.nd : NULL;

    if (w.d->kind == ZF_DRAFT_MEM) {
        memcpy(w.buf, (const char *)w.d->mem + w.first * elem, (size_t)(w.n * elem));
        return true;
    }
    while (hi && w.n > 0) {
        struct step s = {.want = w, .later = later};

        s.want.n = zf_box_sub(a.nd, a.shape, w.first, w.n < STEP ? w.n : STEP, lo, hi);
        for (uint32_t i = 0; i < a.nd; i++) {
            hi[i] += lo[i] - 1;
        }
        if (!read_step(&s, lo, hi, err)) {
            return false;
        }
        w.first += s.want.n;
        w.n -= s.want.n;
        w.buf += s.want.n * elem;
    }
    return hi != NULL;
}

bool zf_draft_read(struct zf_draft *d, uint64_t first, uint64_t n, void *buf, struct zf_err *err)
{
    zf_auto(wanted_vec) wanted_vec todo = {0};
    struct wanted *w;

    if (!zf_within(first, n, d->elems)) {
        return draft_refuse(d, err, "is read beyond its end");
    }
    if (!(w = zf_vec_push(&todo, err))) {
        return false;
    }
    *w = (struct wanted){.d = d, .first = first, .n = n, .buf = buf};
    /* Parts are older than what they are parts of, so this ends. */
    while (todo.n > 0) {
        if (!read_stretch(todo.at[--todo.n], &todo, err)) {
            return false;
        }
    }
    return true;
}
