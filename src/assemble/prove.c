/* SPDX-License-Identifier: Apache-2.0 */
/* First each vector is cut into pieces: the weight that starts at an element is the one that the masters from there on
 * round to; if weights of different lengths fit, nothing is proved.  Then the pieces are assigned, in order, to the
 * weights that they equal. */
#include "prove.h"

#include <stdlib.h>
#include <string.h>

#include <zf/assemble/assign.h>
#include <zf/base/search.h>
#include <zf/base/sorted.h>
#include <zf/model/cast.h>

#define PROVE_ASKED (1u << 22)   /* comparisons to find the order */
#define PROVE_PAIRS (1ull << 28) /* pairs of a master and a weight without an order: some seconds */

/* ---- comparing ---- */

bool prove_spend(struct zf_prove *p, uint64_t work, struct zf_err *err)
{
    p->work += work <= ZF_PROVE_WORK ? work : ZF_PROVE_WORK + 1;
    return p->work <= ZF_PROVE_WORK ||
           zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "the names of the masters are still unproven after %u comparisons",
                   ZF_PROVE_WORK);
}

struct zf_values prove_at(const struct zf_prove_vector *v, uint64_t y, uint64_t *left)
{
    size_t i;

    ZF_SEARCH(i, v->n_parts, v->begin[i + 1] > y);
    struct zf_values at = v->part[i];
    *left = v->begin[i + 1] - y;
    at.off += (y - v->begin[i]) * zf_dtype_info(at.dtype)->bytes;
    return at;
}

bool prove_compare(struct zf_prove *p, const struct zf_prove_vector *v, uint64_t at, uint32_t i,
                   struct zf_mismatch *miss, bool *yes, struct zf_err *err)
{
    const struct zf_tensor_ref *w = p->weight[i].view;
    struct zf_span span;

    *miss = (struct zf_mismatch){.found = false};
    *yes = true;
    for (uint32_t k = 0; *yes && zf_sample_span(&p->sample, w->n, k, &span); k++) {
        uint64_t end = span.first + span.n, left, some;

        for (uint64_t x = span.first; *yes && x < end; x += some) {
            struct zf_values master = prove_at(v, at + x, &left),
                             weight = {w->src, w->off, w->dtype};

            weight.off += x * zf_dtype_info(w->dtype)->bytes;
            some = end - x < left ? end - x : left;
            *yes = zf_values_can_round(master.dtype, weight.dtype);
            if (*yes && (!zf_values_round(master, weight, some, miss, err) ||
                         !prove_spend(p, 1 + (miss->found ? miss->at : some) / 1024, err)))
                return false;
            miss->at += x;
            *yes = *yes && !miss->found;
        }
    }
    return true;
}

/* ---- weights by their first element ---- */

struct prove_values {
    struct zf_prove *p;
    uint64_t *head;           /* [n_weights] bits of the first element */
    bool *seen;               /* [n_weights] some piece equals it */
    struct zf_sorted by_head; /* pairs: head, weight */
    bool dealt;               /* the order being tried */
};

static void zf_auto_prove_values(struct prove_values *s)
{
    free(s->head);
    free(s->seen);
    zf_sorted_fini(&s->by_head);
}

/* The bits of an element; all NaNs are equal, because a cast may change their bits. */
static uint64_t prove_bits(const void *element, enum zf_dtype dtype)
{
    uint64_t bits = 0;
    double d = 0;
    float f = 0;

    memcpy(&bits, element, zf_dtype_info(dtype)->bytes);
    if (dtype == ZF_DT_F64) {
        memcpy(&d, element, sizeof d);
    } else if (zf_can_cast(dtype, ZF_DT_F32)) {
        zf_cast(&f, ZF_DT_F32, element, dtype, 1);
        d = f;
    }
    return (d != d ? UINT32_MAX : bits) ^ (uint64_t)dtype << 56;
}

static bool prove_heads(struct prove_values *s, struct zf_err *err)
{
    struct zf_prove *p = s->p;
    uint8_t first[8];

    s->head = calloc(p->n_weights + (size_t)1, sizeof *s->head);
    s->seen = calloc(p->n_weights + (size_t)1, sizeof *s->seen);
    if (!s->head || !s->seen)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    for (uint32_t i = 0; i < p->n_weights; i++) {
        const struct zf_tensor_ref *v = p->weight[i].view;
        uint32_t bytes = v ? zf_dtype_info(v->dtype)->bytes : 0;

        s->seen[i] = !v || p->weight[i].taken || bytes > sizeof first;
        if (s->seen[i])
            continue;
        if (!zf_source_pread(v->src, first, bytes, v->off, err))
            return false;
        s->head[i] = prove_bits(first, v->dtype);
        if (!zf_sorted_add_pair(&s->by_head, s->head[i], i, err))
            return false;
    }
    return true;
}

/* ---- the pieces of a vector ---- */

/* Can the masters from an element on be weight i's, apart from their values?  part: of a vector with `own`. */
static bool prove_may(const struct prove_values *s, const struct zf_prove_vector *v, uint32_t part,
                      uint64_t at, uint32_t i)
{
    const struct zf_tensor_ref *w = s->p->weight[i].view;

    return !s->seen[i] &&
           (v->own ? zf_shape_equal(w->ndim, w->shape, v->own[part].ndim, v->own[part].shape)
                   : w->n <= prove_end(v) - at);
}

static bool prove_two(struct zf_prove *p, uint32_t vector, uint32_t a, uint32_t b)
{
    p->why.kind = ZF_PROVE_TWO;
    p->why.vector = vector;
    p->why.two[0] = a;
    p->why.two[1] = b;
    return true;
}

/* Finds the weight that starts with these bits and fits; several of one length may fit.  None: *found is not changed.
 * *open: two of different lengths fit. */
static bool prove_find(struct prove_values *s, uint32_t vector, uint64_t bits, uint32_t *found,
                       bool *open, struct zf_err *err)
{
    struct zf_prove *p = s->p;
    const struct zf_prove_vector *v = &p->vector[vector];
    size_t first, n = zf_sorted_find(&s->by_head, bits, &first);

    for (size_t k = first; k < first + n && !*open; k++) {
        uint32_t i = (uint32_t)s->by_head.at[2 * k + 1];
        struct zf_mismatch miss;
        bool yes;

        if (!prove_spend(p, 1, err))
            return false;
        if (!prove_may(s, v, p->why.part, p->why.at, i) ||
            (*found != ZF_PROVE_NOBODY && p->weight[*found].view->n == p->weight[i].view->n))
            continue; /* weights of one length are told apart by the order, later */
        if (!prove_compare(p, v, p->why.at, i, &miss, &yes, err))
            return false;
        if (miss.found && (p->why.near.weight == ZF_PROVE_NOBODY || miss.at > p->why.near.miss.at))
            p->why.near = (struct zf_prove_near){i, miss};
        *open = yes && *found != ZF_PROVE_NOBODY && prove_two(p, vector, *found, i);
        *found = yes && !*open ? i : *found;
    }
    return true;
}

/* Finds a weight for the masters from p->why.at on. */
static bool prove_look(struct prove_values *s, uint32_t vector, uint32_t *found, bool *open,
                       struct zf_err *err)
{
    static const enum zf_dtype types[] = {ZF_DT_F16, ZF_DT_BF16, ZF_DT_F32, ZF_DT_F64};
    uint64_t left;
    struct zf_values master = prove_at(&s->p->vector[vector], s->p->why.at, &left);
    uint8_t value[8], rounded[8];

    *found = ZF_PROVE_NOBODY;
    s->p->why.near.weight = ZF_PROVE_NOBODY;
    if (zf_dtype_info(master.dtype)->bytes > sizeof value)
        return true;
    if (!zf_source_pread(master.src, value, zf_dtype_info(master.dtype)->bytes, master.off, err))
        return false;
    for (size_t k = 0; k < sizeof types / sizeof *types && !*open; k++) {
        if (!zf_values_can_round(master.dtype, types[k]))
            continue;
        if (master.dtype == types[k])
            memcpy(rounded, value, zf_dtype_info(types[k])->bytes);
        else
            zf_cast(rounded, types[k], value, master.dtype, 1);
        if (!prove_find(s, vector, prove_bits(rounded, types[k]), found, open, err))
            return false;
    }
    return true;
}

/* Reports that no weight fits, and names the one that should have. */
static bool prove_nothing(struct prove_values *s, uint32_t vector, struct zf_err *err)
{
    struct zf_prove *p = s->p;
    struct zf_mismatch miss;
    bool yes;

    p->why.kind = ZF_PROVE_NONE;
    p->why.vector = vector;
    if (p->why.near.weight == ZF_PROVE_NOBODY && p->n_stored > 0)
        p->why.near = p->stored;
    for (uint32_t i = 0; i < p->n_weights && p->why.near.weight == ZF_PROVE_NOBODY; i++) {
        if (!prove_may(s, &p->vector[vector], p->why.part, p->why.at, i))
            continue;
        if (!prove_compare(p, &p->vector[vector], p->why.at, i, &miss, &yes, err))
            return false;
        if (miss.found)
            p->why.near = (struct zf_prove_near){i, miss};
    }
    return true;
}

/* Cuts a vector into pieces.  *open: it cannot be decided where. */
static bool prove_cut(struct prove_values *s, uint32_t vector, bool *open, struct zf_err *err)
{
    static const uint8_t zero[8];
    struct zf_prove *p = s->p;
    struct zf_prove_vector *v = &p->vector[vector];
    uint64_t end = prove_end(v);

    v->first = (uint32_t)p->piece.n;
    v->n = 0;
    for (p->why.at = 0; p->why.at < end && !*open;) {
        bool padding = end - p->why.at < v->pad;
        struct zf_prove_piece *piece;
        uint32_t found;

        p->why.part = v->n;
        if (!prove_look(s, vector, &found, open, err))
            return false;
        if (*open || (found == ZF_PROVE_NOBODY && padding))
            return true;
        if (found == ZF_PROVE_NOBODY) {
            *open = true;
            return prove_nothing(s, vector, err);
        }
        if (padding && s->head[found] == prove_bits(zero, p->weight[found].view->dtype)) {
            *open = prove_two(p, vector, found, ZF_PROVE_NOBODY);
            return true;
        }
        if (!(piece = zf_vec_push(&p->piece, err)))
            return false;
        *piece = (struct zf_prove_piece){p->why.at, found, found};
        s->seen[found] = true;
        p->why.at += p->weight[found].view->n;
        v->n++;
    }
    return true;
}

/* ---- which of several equal weights ---- */

/* The piece of the group's k-th parameter. */
static uint32_t prove_item(const struct prove_values *s, const struct zf_prove_vector *v,
                           uint32_t k)
{
    if (!s->dealt || v->dealt == 0)
        return v->first + k;
    /* each rank was dealt n / ranks of them, the first n % ranks ranks one more */
    uint32_t before = k % v->dealt, more = v->n % v->dealt;
    return v->first + before * (v->n / v->dealt) + (before < more ? before : more) + k / v->dealt;
}

/* Do the masters of a piece round to weight i, too? */
static bool prove_alike(struct prove_values *s, uint32_t vector, const struct zf_prove_piece *piece,
                        uint32_t i, bool *yes, struct zf_err *err)
{
    const struct zf_tensor_ref *a = s->p->weight[i].view, *b = s->p->weight[piece->like].view;
    struct zf_mismatch miss;

    *yes = i == piece->like;
    return *yes || a->n != b->n || (a->dtype == b->dtype && s->head[i] != s->head[piece->like]) ||
           (s->p->vector[vector].own && !zf_shape_equal(a->ndim, a->shape, b->ndim, b->shape)) ||
           prove_compare(s->p, &s->p->vector[vector], piece->at, i, &miss, yes, err);
}

static bool prove_fit(void *ctx, uint32_t vector, uint32_t item, uint32_t candidate, bool *yes,
                      struct zf_err *err)
{
    struct prove_values *s = ctx;
    uint32_t at = prove_item(s, &s->p->vector[vector], item);

    return prove_alike(s, vector, &s->p->piece.at[at], candidate, yes, err);
}

/* Assigns the pieces to weights in one of the two orders: to[i] for piece i.  *none: impossible; *open: ambiguous. */
static bool prove_order(struct prove_values *s, bool dealt, uint32_t *to, bool *none, bool *open,
                        struct zf_err *err)
{
    struct zf_prove *p = s->p;
    zf_auto(mem) struct zf_assign_group *group = calloc(p->n_vectors + (size_t)1, sizeof *group);
    zf_auto(mem) uint32_t *item = calloc(p->piece.n + 1, sizeof *item);
    zf_auto(mem) bool *used = calloc(p->n_weights + (size_t)1, sizeof *used);
    struct zf_assign a = {.n_candidates = p->n_weights,
                          .used = used,
                          .group = group,
                          .n_groups = p->n_vectors,
                          .fit = prove_fit,
                          .ctx = s,
                          .most = PROVE_ASKED};
    bool proven;

    if (!group || !item || !used)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    s->dealt = dealt;
    for (uint32_t i = 0; i < p->n_weights; i++)
        used[i] = !p->weight[i].view || p->weight[i].taken;
    for (uint32_t g = 0; g < p->n_vectors; g++)
        group[g] = (struct zf_assign_group){.n = p->vector[g].n, .to = item + p->vector[g].first};
    if (!zf_assign_prove(&a, &proven, err))
        return false;
    *none = !proven && a.open.none;
    *open = !proven && !a.open.none && prove_two(p, a.open.group, a.open.two[0], a.open.two[1]);
    for (uint32_t g = 0; proven && g < p->n_vectors; g++)
        for (uint32_t k = 0; k < p->vector[g].n; k++)
            to[prove_item(s, &p->vector[g], k)] = group[g].to[k];
    return true;
}

/* Assigns each piece to the only weight that it equals. */
static bool prove_unordered(struct prove_values *s, uint32_t *to, bool *open, struct zf_err *err)
{
    struct zf_prove *p = s->p;

    if ((uint64_t)p->piece.n * p->n_weights > PROVE_PAIRS)
        return prove_spend(p, UINT64_MAX, err);
    for (uint32_t g = 0; g < p->n_vectors; g++) {
        for (uint32_t i = p->vector[g].first; i < p->vector[g].first + p->vector[g].n; i++) {
            const struct zf_prove_piece *piece = &p->piece.at[i];

            to[i] = piece->like;
            for (uint32_t k = 0; k < p->n_weights; k++) {
                bool yes = false;

                if (p->weight[k].view && !p->weight[k].taken && k != piece->like &&
                    !prove_alike(s, g, piece, k, &yes, err))
                    return false;
                if (yes) {
                    bool less = k < piece->like;

                    *open = prove_two(p, g, less ? k : piece->like, less ? piece->like : k);
                    return true;
                }
            }
        }
    }
    return true;
}

/* May the parameters have been dealt to the ranks, which changes their order? */
static bool prove_may_deal(const struct zf_prove *p)
{
    bool may = false;

    for (uint32_t g = 0; g < p->n_vectors; g++)
        may = may || (p->vector[g].dealt > 1 && p->vector[g].n > p->vector[g].dealt);
    return may;
}

/* Assigns a weight to each piece: to[], over all pieces. */
static bool prove_assign(struct prove_values *s, uint32_t *to, bool *open, struct zf_err *err)
{
    struct zf_prove *p = s->p;
    zf_auto(mem) uint32_t *other = calloc(p->piece.n + 1, sizeof *other);
    bool none, no_deal = true;

    if (!other)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    if (!prove_order(s, false, to, &none, open, err) ||
        (!*open && prove_may_deal(p) &&
         !prove_order(s, true, none ? to : other, &no_deal, open, err)))
        return false;
    if (*open)
        return true;
    if (none && no_deal) {
        *open = !p->any_order;
        p->why.kind = ZF_PROVE_ORDER;
        return *open || prove_unordered(s, to, open, err);
    }
    for (uint32_t g = 0; !none && !no_deal && g < p->n_vectors; g++) {
        for (uint32_t i = p->vector[g].first; i < p->vector[g].first + p->vector[g].n; i++)
            if (to[i] != other[i] && !*open)
                *open = prove_two(p, g, to[i], other[i]);
    }
    return true;
}

bool zf_prove_by_value(struct zf_prove *p, bool *proven, struct zf_err *err)
{
    zf_auto(prove_values) struct prove_values s = {.p = p};
    bool open = false;

    p->piece.n = 0;
    if (!prove_heads(&s, err))
        return false;
    for (uint32_t g = 0; g < p->n_vectors && !open; g++)
        if (!prove_cut(&s, g, &open, err))
            return false;
    zf_auto(mem) uint32_t *to = calloc(p->piece.n + 1, sizeof *to);
    if (!to)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    if (!open && !prove_assign(&s, to, &open, err))
        return false;
    for (size_t i = 0; i < p->piece.n && !open; i++) {
        p->piece.at[i].to = to[i];
        p->weight[to[i]].taken = true;
    }
    *proven = !open;
    return true;
}
