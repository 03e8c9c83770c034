/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint has a call for each tensor: fifteen values in 250 bytes, which differ from the previous call only
 * in a name, a length and a shape.  As soon as such a call is put in a mapping, it is stored ("folded") as a form,
 * which many calls share, and a few bytes of its own; the memory of its values is reused for the next call.
 *
 * A folded value cannot change any more, and nothing else refers to its parts: each value that is taken apart has
 * one owner (the others are marked ZF_PV_MANY; the pickle is read over first, so that this is known when a value
 * is made), and what remains shared is text, a name or a constant.  So unfolding it later gives the same value. */
#include "fold.h"

#include <string.h>

#define TEXT_MOST 64u

struct folding {
    struct zf_pv *at[ZF_FOLD_PARTS]; /* values to process, the next one last */
    uint64_t n_at;
    struct pickle_fold_part part[ZF_FOLD_PARTS];
    uint64_t n_parts;
    struct zf_pv *own[ZF_FOLD_PARTS]; /* values whose memory is given back */
    uint64_t n_own;
    uint8_t byte[ZF_FOLD_BYTES];
    uint64_t n_bytes;
};

/* ---- folding ---- */

/* Writes u with seven bits per byte, the lowest first. */
static bool fold_number(struct folding *f, uint64_t u)
{
    do {
        if (f->n_bytes == ZF_FOLD_BYTES)
            return false;
        f->byte[f->n_bytes++] = (uint8_t)((u & 0x7f) | (u > 0x7f ? 0x80 : 0));
        u >>= 7;
    } while (u);
    return true;
}

static bool fold_text(struct folding *f, const struct zf_pv *v)
{
    if (v->n > TEXT_MOST || !fold_number(f, v->n) || v->n > ZF_FOLD_BYTES - f->n_bytes)
        return false;
    memcpy(f->byte + f->n_bytes, v->at, v->n);
    f->n_bytes += v->n;
    return true;
}

static bool fold_is_numbers(const struct zf_pv *v)
{
    uint32_t i = 0;

    while (v->kind == ZF_PV_TUPLE && i < v->n && i < ZF_FOLD_PARTS && v->at[i].v->kind == ZF_PV_INT)
        i++;
    return v->kind == ZF_PV_TUPLE && i == v->n;
}

/* Is the value shared and immutable, so that forms can refer to it? */
static bool fold_is_common(const struct zf_pv *v)
{
    if ((v->flags & ZF_PV_MANY) && fold_is_numbers(v))
        return true;
    return (v->flags & ZF_PV_SHARED) || v->kind == ZF_PV_GLOBAL ||
           (v->kind == ZF_PV_STR && (v->flags & ZF_PV_MANY));
}

/* The *n_out values that v holds.  False: a value like v cannot be folded. */
static bool fold_children(const struct zf_pv *v, const union pv_slot **out, uint64_t *n_out)
{
    *out = v->at;
    switch ((enum zf_pv_kind)v->kind) {
    case ZF_PV_TUPLE:
        *n_out = v->n;
        return true;
    case ZF_PV_CALL:
        *n_out = 2;
        return !(v->flags & (ZF_PV_MORE | ZF_PV_MAP | ZF_PV_FOLDED));
    case ZF_PV_PERSID:
        *n_out = 1;
        return v->at[1].v == NULL;
    case ZF_PV_STR:
        *n_out = 0;
        return true;
    case ZF_PV_LIST:
    case ZF_PV_DICT:
    case ZF_PV_SET:
        *n_out = 0;
        return v->n == 0;
    default:
        return false;
    }
}

/* Takes one value apart; false: the call cannot be folded. */
static bool fold_part(struct folding *f, struct zf_pv *v)
{
    struct pickle_fold_part *p = &f->part[f->n_parts++];
    const union pv_slot *child;
    uint64_t n;

    *p = (struct pickle_fold_part){.v = v};
    if (fold_is_common(v))
        return true;
    if (v->kind == ZF_PV_INT) { /* zigzag: small numbers of either sign are short */
        *p = (struct pickle_fold_part){.kind = ZF_PV_INT};
        f->own[f->n_own++] = v;
        return fold_number(f, (uint64_t)v->at[0].i << 1 ^ (uint64_t)(v->at[0].i >> 63));
    }
    if ((v->flags & ZF_PV_MANY) || !fold_children(v, &child, &n) ||
        f->n_parts + f->n_at + n > ZF_FOLD_PARTS)
        return false;
    *p = (struct pickle_fold_part){.kind = v->kind};
    f->own[f->n_own++] = v;
    if (v->kind == ZF_PV_STR)
        return fold_text(f, v);
    p->n = v->n;
    while (n-- > 0)
        f->at[f->n_at++] = (struct zf_pv *)child[n].v;
    return true;
}

/* Finds or makes the form with these parts; NULL with err->code ZF_OK: there are too many already. */
static struct pickle_fold_form *fold_form(struct pickle_folds *f, struct pickle_heap *h,
                                          const struct folding *x, struct zf_err *err)
{
    uint64_t bytes = x->n_parts * sizeof x->part[0];

    for (uint64_t i = 0; i < f->n; i++) {
        uint64_t k = (f->last + i) % f->n;

        if (f->form[k]->n == x->n_parts && memcmp(f->form[k]->part, x->part, bytes) == 0) {
            f->last = k;
            return f->form[k];
        }
    }
    if (f->n == ZF_FOLD_FORMS)
        return NULL;
    struct pickle_fold_form *form = pickle_heap_get(h, sizeof *form + bytes, err);

    if (form) {
        form->n = x->n_parts;
        memcpy(form->part, x->part, bytes);
        f->last = f->n;
        f->form[f->n++] = form;
    }
    return form;
}

static bool fold_one(struct pickle_folds *f, struct pickle_heap *h, struct zf_pv **v,
                     struct zf_err *err)
{
    struct folding x;

    x.n_parts = x.n_own = x.n_bytes = 0;
    x.at[0] = *v;
    x.n_at = 1;
    while (x.n_at > 0)
        if (!fold_part(&x, x.at[--x.n_at]))
            return true;
    if (!x.part[1].v) /* the callee is not shared */
        return true;
    struct pickle_fold_form *form = fold_form(f, h, &x, err);
    struct zf_pv *folded;

    if (!form)
        return f->n == ZF_FOLD_FORMS;
    uint64_t bytes = (x.n_bytes + 7) / 8 * 8;
    folded = pickle_heap_get(h, sizeof *folded + sizeof folded->at[0] + bytes, err);
    if (!folded)
        return false;
    folded->kind = ZF_PV_CALL;
    folded->flags = ZF_PV_FOLDED;
    folded->depth = (*v)->depth;
    folded->at[0].form = form;
    memcpy(folded->at + 1, x.byte, x.n_bytes);
    for (uint64_t i = 0; i < x.n_own; i++)
        pickle_heap_give_back(h, x.own[i]);
    *v = folded;
    return true;
}

bool pickle_fold_values(struct pickle_folds *f, struct pickle_heap *h, struct zf_pv **pairs,
                        uint64_t n, struct zf_err *err)
{
    for (uint64_t i = 1; f->wanted && i < n; i += 2)
        if (pairs[i]->kind == ZF_PV_CALL && f->wanted(pairs[i]) && !fold_one(f, h, &pairs[i], err))
            return false;
    return true;
}

/* ---- unfolding ---- */

static uint64_t fold_read_number(const uint8_t **p)
{
    uint64_t u = 0;

    for (unsigned shift = 0;; shift += 7) {
        u |= (uint64_t)(**p & 0x7f) << shift;
        if (!(*(*p)++ & 0x80))
            return u;
    }
}

/* Makes the value of a part at `to`, with its text or number from *p.  Returns the words it takes; *n_values: how many
 * of its slots are values. */
static uint64_t fold_make(const struct pickle_fold_part *part, struct zf_pv *to, const uint8_t **p,
                          uint64_t *n_values)
{
    *to = (struct zf_pv){.kind = (uint8_t)part->kind, .n = part->n};
    *n_values = part->kind == ZF_PV_TUPLE    ? part->n
                : part->kind == ZF_PV_CALL   ? 2
                : part->kind == ZF_PV_PERSID ? 1
                                             : 0;
    if (part->kind == ZF_PV_INT) {
        uint64_t u = fold_read_number(p);

        to->at[0].i = (int64_t)(u >> 1 ^ (0 - (u & 1)));
        return 2;
    }
    if (part->kind == ZF_PV_STR) {
        to->n = (uint32_t)fold_read_number(p);
        memcpy(pv_chars(to), *p, to->n);
        pv_chars(to)[to->n] = '\0';
        *p += to->n;
        return 1 + to->n / sizeof(union pv_slot) + 1;
    }
    if (part->kind == ZF_PV_PERSID) {
        to->at[1].v = NULL;
        return 3;
    }
    if (*n_values == 0 && part->kind != ZF_PV_TUPLE) {
        to->at[0].items = NULL;
        return 2;
    }
    return 1 + *n_values;
}

const struct zf_pv *zf_pv_unfold(const struct zf_pv *v, struct zf_pv_scratch *scratch)
{
    if (!v || v->kind != ZF_PV_CALL || !(v->flags & ZF_PV_FOLDED))
        return v;
    if (scratch->folded == v)
        return scratch->made;
    const struct pickle_fold_form *form = v->at[0].form;
    const uint8_t *p = (const uint8_t *)(v->at + 1);
    const struct zf_pv *top, **slot[ZF_FOLD_PARTS] = {&top}; /* slots to fill, the next one last */
    uint64_t n_slots = 1, at = 0, n;

    for (uint64_t i = 0; i < form->n; i++) {
        const struct zf_pv **to = slot[--n_slots];
        struct zf_pv *made = (struct zf_pv *)(scratch->word + at);

        if (form->part[i].v) {
            *to = form->part[i].v;
            continue;
        }
        *to = made;
        at += fold_make(&form->part[i], made, &p, &n);
        while (n-- > 0)
            slot[n_slots++] = &made->at[n].v;
    }
    scratch->folded = v;
    scratch->made = top;
    return top;
}
