/* SPDX-License-Identifier: Apache-2.0 */
/* Where weights share no storage, as after a copy, their values are compared.  First each vector is cut:
 * the parameter at an offset is the one whose weights the masters from there on round to, and if two of
 * different lengths fit, nothing is proven.  Then the pieces get the names that the order gives them:
 * that of the model, or of its parameters dealt to the ranks in turn.  Where parameters are alike (norms
 * of ones), only the order distinguishes them; so there must be one way in one of the two orders. */
#include "merged.h"

#include <stdlib.h>
#include <string.h>

#include <zf/assemble/assign.h>
#include <zf/assemble/values.h>
#include <zf/base/hash.h>
#include <zf/base/num.h>
#include <zf/base/sorted.h>
#include <zf/model/cast.h>

#include "groups.h"

#define VALUE_WORK (1u << 21)  /* weights that are looked at, and comparisons: some seconds */
#define VALUE_ASKED (1u << 22) /* questions for the order */
#define VALUE_NONE UINT32_MAX
#define VALUE_ALIGN 2u /* elements of padding a rank */

/* A vector, and the elements before each of its ranks. */
struct value_vector {
    const struct ds_group *group;
    uint64_t *begin; /* [n_ranks + 1] */
    uint32_t first;  /* of its pieces */
    uint32_t n;
};

struct value_piece {
    uint64_t at;   /* element of the vector */
    uint32_t like; /* a parameter whose weights fit */
};

struct value_search {
    struct ds_rank *mp;
    const struct ds_shapes *all;
    const struct zf_tensor_ref **weight; /* [all->n], NULL = there is nothing to compare with */
    uint64_t *head;                      /* [all->n] the bits of its first element */
    bool *taken;                         /* [all->n] */
    struct zf_sorted by_head;            /* pairs: head, number */
    struct value_vector *vector;         /* [mp->n_groups] */
    zf_vec(struct value_piece) piece;
    struct zf_sample sample;
    uint32_t work;
    bool dealt;   /* the order that is tried */
    bool nothing; /* not even the first masters are any parameter's */
};

static void zf_auto_values(struct value_search *s)
{
    free(s->weight);
    free(s->head);
    free(s->taken);
    free(s->vector);
    zf_sorted_fini(&s->by_head);
    zf_vec_fini(&s->piece);
}

static bool value_spend(struct value_search *s, uint64_t work, struct zf_err *err)
{
    s->work += work < VALUE_WORK ? (uint32_t)work : VALUE_WORK;
    return s->work <= VALUE_WORK ||
           zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "which parameters are in which group is not proven after %u comparisons",
                   VALUE_WORK);
}

/* All NaNs are one: a cast may make another of them. */
static uint64_t value_bits(const void *element, enum zf_dtype dtype)
{
    uint64_t bits = 0;
    float f = 0;

    if (dtype == ZF_DT_F32) {
        memcpy(&f, element, sizeof f);
    } else {
        zf_cast(&f, ZF_DT_F32, element, dtype, 1);
    }
    memcpy(&bits, element, zf_dtype_info(dtype)->bytes);
    return (f != f ? UINT32_MAX : bits) | (uint64_t)dtype << 56;
}

static bool value_init(struct value_search *s, struct zf_err *err)
{
    size_t n = s->all->n + (size_t)1;
    uint64_t elements = 0;

    s->weight = calloc(n, sizeof *s->weight);
    s->head = calloc(n, sizeof *s->head);
    s->taken = calloc(n, sizeof *s->taken);
    s->vector = calloc(s->mp->n_groups + (size_t)1, sizeof *s->vector);
    if (!s->weight || !s->head || !s->taken || !s->vector) {
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    }
    for (uint32_t i = 0; i < s->all->n; i++) {
        const struct ds_entry *e = ds_model_find(&s->mp->model, s->all->param[i].name);
        uint8_t first[8];

        if (!ds_merged_is_weight(e, &s->all->param[i])) {
            continue;
        }
        if (!zf_source_pread(e->view.src, first, zf_dtype_info(e->view.dtype)->bytes, e->view.off,
                             err)) {
            return false;
        }
        s->weight[i] = &e->view;
        s->head[i] = value_bits(first, e->view.dtype);
        elements += e->view.n < UINT32_MAX ? e->view.n : UINT32_MAX;
        if (!zf_sorted_add_pair(&s->by_head, s->head[i], i, err)) {
            return false;
        }
    }
    s->sample = zf_sample_of(elements, s->all->n);
    return true;
}

/* *whole: all ranks' files are there. */
static bool value_lay(struct value_search *s, uint32_t g, bool *whole, struct zf_err *err)
{
    const struct ds_group *group = &s->mp->group[g];
    struct value_vector *v = &s->vector[g];

    v->group = group;
    v->begin = zf_arena_get(s->mp->save->a, group->n_ranks + 1ull, sizeof *v->begin, err);
    for (uint32_t r = 0; v->begin && r < group->n_ranks; r++) {
        const struct ds_optim *o = group->rank[r];

        *whole = *whole && !o->lost &&
                 zf_add(v->begin[r], o->part[group->index].master.n, &v->begin[r + 1]);
    }
    return v->begin != NULL;
}

/* Of element y: the part of the vector that has it, and how many elements follow there. */
static struct zf_values value_at(const struct value_vector *v, uint64_t y, uint64_t *left)
{
    uint32_t lo = 0, hi = v->group->n_ranks;
    const struct ds_flat *f;

    while (hi - lo > 1) {
        uint32_t mid = lo + (hi - lo) / 2;

        *(v->begin[mid] <= y ? &lo : &hi) = mid;
    }
    *left = v->begin[lo + 1] - y;
    f = &v->group->rank[lo]->part[v->group->index].master;
    return (struct zf_values){f->src, f->off + (y - v->begin[lo]) * zf_dtype_info(f->dtype)->bytes,
                              f->dtype};
}

/* Do the masters from element `at` on round to the weights of parameter i? */
static bool value_compare(struct value_search *s, const struct value_vector *v, uint64_t at,
                          uint32_t i, bool *yes, struct zf_err *err)
{
    const struct zf_tensor_ref *w = s->weight[i];
    struct zf_mismatch miss = {.found = false};
    struct zf_span span;

    for (uint32_t k = 0; !miss.found && zf_sample_span(&s->sample, w->n, k, &span); k++) {
        uint64_t end = span.first + span.n, left, some;

        for (uint64_t x = span.first; x < end && !miss.found; x += some) {
            struct zf_values master = value_at(v, at + x, &left);
            struct zf_values weight = {w->src, w->off + x * zf_dtype_info(w->dtype)->bytes,
                                       w->dtype};

            some = end - x < left ? end - x : left;
            if (!zf_values_can_round(master.dtype, weight.dtype)) {
                *yes = false;
                return true;
            }
            if (!zf_values_round(master, weight, some, &miss, err) ||
                !value_spend(s, 1 + (miss.found ? miss.at : some) / 1024, err)) {
                return false;
            }
        }
    }
    *yes = !miss.found;
    return true;
}

/* Two parameters, or one and the padding, fit where one can be. */
static bool value_open(const struct value_search *s, uint32_t g, uint32_t a, uint32_t b,
                       struct zf_err *err)
{
    const struct ds_name *x = &s->all->param[a].name;
    const struct ds_name *y = b == VALUE_NONE ? NULL : &s->all->param[b].name;

    return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "a master of group %u fits \"%.*s\" as well as %s%.*s%s: param_shapes does not "
                   "say which parameters are in which group, and the weights do not prove it",
                   g, ds_name_shown(*x), x->p, y ? "\"" : "the padding", y ? ds_name_shown(*y) : 0,
                   y ? y->p : "", y ? "\"" : "");
}

/* The parameter whose weights have these bits in front and fit at that place; others of its length may.
 * *found stays as it is where there is none. */
static bool value_find(struct value_search *s, uint32_t g, uint64_t at, uint64_t bits,
                       uint32_t *found, struct zf_err *err)
{
    const struct value_vector *v = &s->vector[g];
    size_t first, n = zf_sorted_find(&s->by_head, bits, &first);

    for (size_t k = first; k < first + n; k++) {
        uint32_t i = (uint32_t)s->by_head.at[2 * k + 1];
        bool yes;

        if (!value_spend(s, 1, err)) {
            return false;
        }
        if (s->taken[i] || s->weight[i]->n > v->begin[v->group->n_ranks] - at) {
            continue;
        }
        if (*found != VALUE_NONE && s->weight[*found]->n == s->weight[i]->n) {
            continue; /* the order tells them apart, or not */
        }
        if (!value_compare(s, v, at, i, &yes, err)) {
            return false;
        }
        if (yes && *found != VALUE_NONE) {
            return value_open(s, v->group->index, *found, i, err);
        }
        *found = yes ? i : *found;
    }
    return true;
}

/* Finds the parameter at an offset of the vector. */
static bool value_look(struct value_search *s, uint32_t g, uint64_t at, uint32_t *found,
                       struct zf_err *err)
{
    static const enum zf_dtype types[] = DS_MERGED_TYPES;
    uint64_t left;
    struct zf_values master = value_at(&s->vector[g], at, &left);
    uint8_t value[8], rounded[8];

    *found = VALUE_NONE;
    if (zf_dtype_info(master.dtype)->bytes > sizeof value) {
        return true;
    }
    if (!zf_source_pread(master.src, value, zf_dtype_info(master.dtype)->bytes, master.off, err)) {
        return false;
    }
    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
        if (!zf_values_can_round(master.dtype, types[k])) {
            continue;
        }
        if (master.dtype == types[k]) {
            memcpy(rounded, value, zf_dtype_info(types[k])->bytes);
        } else {
            zf_cast(rounded, types[k], value, master.dtype, 1);
        }
        if (!value_find(s, g, at, value_bits(rounded, types[k]), found, err)) {
            return false;
        }
    }
    return true;
}

/* Does the first element of the weight say that it may be padding instead? */
static bool value_is_zero(const struct value_search *s, uint32_t i)
{
    return (s->head[i] & UINT32_MAX) == 0;
}

static bool value_cut(struct value_search *s, uint32_t g, struct zf_err *err)
{
    struct value_vector *v = &s->vector[g];
    uint64_t end = v->begin[v->group->n_ranks], at = 0;
    uint64_t tail = (uint64_t)VALUE_ALIGN * v->group->n_ranks;

    v->first = (uint32_t)s->piece.n;
    while (at < end) {
        struct value_piece *p;
        uint32_t found;

        if (!value_look(s, g, at, &found, err)) {
            return false;
        }
        if (found == VALUE_NONE && end - at < tail) {
            break;
        }
        if (found == VALUE_NONE && s->piece.n == 0) {
            s->nothing = true;
            return true;
        }
        if (found == VALUE_NONE) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "the masters of group %u from element %llu on round to no parameter's "
                           "weights in \"module\"",
                           v->group->index, (unsigned long long)at);
        }
        if (end - at < tail && value_is_zero(s, found)) {
            return value_open(s, v->group->index, found, VALUE_NONE, err);
        }
        if (!(p = zf_vec_push(&s->piece, err))) {
            return false;
        }
        *p = (struct value_piece){at, found};
        s->taken[found] = true;
        at += s->weight[found]->n;
        v->n++;
    }
    return true;
}

/* The piece of the group's k-th parameter. */
static uint32_t value_item(const struct value_search *s, const struct value_vector *v, uint32_t k)
{
    uint32_t ranks = v->group->n_ranks, before = k % ranks;

    if (!s->dealt) {
        return v->first + k;
    }
    /* each rank was dealt n / ranks of them, the first n % ranks ranks one more */
    return v->first + before * (v->n / ranks) + (before < v->n % ranks ? before : v->n % ranks) +
           k / ranks;
}

static bool value_fit(void *ctx, uint32_t group, uint32_t item, uint32_t candidate, bool *yes,
                      struct zf_err *err)
{
    struct value_search *s = ctx;
    const struct value_vector *v = &s->vector[group];
    const struct value_piece *p = &s->piece.at[value_item(s, v, item)];

    *yes = candidate == p->like;
    return *yes || s->weight[candidate]->n != s->weight[p->like]->n ||
           s->head[candidate] != s->head[p->like] ||
           value_compare(s, v, p->at, candidate, yes, err);
}

/* Gives the pieces to parameters in one of the two orders: to[i] of piece i.  *fits: there is a way. */
static bool value_order(struct value_search *s, bool dealt, uint32_t *to, bool *fits,
                        struct zf_err *err)
{
    zf_auto(mem) struct zf_assign_group *group = calloc(s->mp->n_groups + (size_t)1, sizeof *group);
    zf_auto(mem) uint32_t *item = calloc(s->piece.n + 1, sizeof *item);
    zf_auto(mem) bool *used = calloc(s->all->n + (size_t)1, sizeof *used);
    struct zf_assign a = {.n_candidates = s->all->n,
                          .used = used,
                          .group = group,
                          .n_groups = s->mp->n_groups,
                          .fit = value_fit,
                          .ctx = s,
                          .most = VALUE_ASKED};
    bool proven;

    if (!group || !item || !used) {
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    }
    s->dealt = dealt;
    for (uint32_t i = 0; i < s->all->n; i++) {
        used[i] = !s->weight[i];
    }
    for (uint32_t g = 0; g < s->mp->n_groups; g++) {
        group[g] = (struct zf_assign_group){.n = s->vector[g].n, .to = item + s->vector[g].first};
    }
    if (!zf_assign_settle(&a, &proven, err)) {
        return false;
    }
    *fits = proven;
    if (!proven && !a.open.none) {
        return value_open(s, s->vector[a.open.group].group->index, a.open.two[0], a.open.two[1],
                          err);
    }
    for (uint32_t g = 0; proven && g < s->mp->n_groups; g++) {
        for (uint32_t k = 0; k < s->vector[g].n; k++) {
            to[value_item(s, &s->vector[g], k)] = group[g].to[k];
        }
    }
    return true;
}

/* True if dealing could have changed the order. */
static bool value_may_deal(const struct value_search *s)
{
    bool may = false;

    for (uint32_t g = 0; g < s->mp->n_groups; g++) {
        const struct value_vector *v = &s->vector[g];

        /* sub-partitions are older than dealing */
        may = may || (v->group->n_ranks == s->mp->n_dp && v->n > s->mp->n_dp && s->mp->n_dp > 1);
    }
    return may;
}

/* Which parameter each piece is of: to[], of all pieces. */
static bool value_settle(struct value_search *s, uint32_t *to, struct zf_err *err)
{
    zf_auto(mem) uint32_t *other = calloc(s->piece.n + 1, sizeof *other);
    bool plain, dealt = false;

    if (!other) {
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    }
    if (!value_order(s, false, to, &plain, err) ||
        (value_may_deal(s) && !value_order(s, true, plain ? other : to, &dealt, err))) {
        return false;
    }
    if (!plain && !dealt) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "the masters stand neither in the order of the model nor in that of its "
                       "parameters dealt to the ranks in turn");
    }
    for (uint32_t g = 0; plain && dealt && g < s->mp->n_groups; g++) {
        for (uint32_t i = s->vector[g].first; i < s->vector[g].first + s->vector[g].n; i++) {
            if (to[i] != other[i]) {
                return value_open(s, s->vector[g].group->index, to[i], other[i], err);
            }
        }
    }
    return true;
}

static struct ds_group *value_groups(struct value_search *s, struct zf_err *err)
{
    zf_auto(mem) uint32_t *to = calloc(s->piece.n + 1, sizeof *to);
    struct ds_group *out = zf_arena_get(s->mp->save->a, s->mp->n_groups, sizeof *out, err);

    if (!to) {
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory"), NULL;
    }
    if (!out || !value_settle(s, to, err)) {
        return NULL;
    }
    for (uint32_t g = 0; g < s->mp->n_groups; g++) {
        const struct value_vector *v = &s->vector[g];

        if (!ds_groups_pick(s->mp, v->group, to + v->first, v->n, &out[g], err)) {
            return NULL;
        }
    }
    return out;
}

bool ds_merged_by_value(struct ds_rank *mp, struct ds_group **out, struct zf_err *err)
{
    zf_auto(values) struct value_search s = {.mp = mp, .all = mp->merged};
    bool whole = true;

    *out = NULL;
    if (!value_init(&s, err)) {
        return false;
    }
    for (uint32_t g = 0; g < mp->n_groups; g++) {
        if (!value_lay(&s, g, &whole, err)) {
            return false;
        }
    }
    for (uint32_t g = 0; whole && !s.nothing && g < mp->n_groups; g++) {
        if (!value_cut(&s, g, err)) {
            return false;
        }
    }
    if (!whole || s.nothing) {
        return true;
    }
    *out = value_groups(&s, err);
    return *out != NULL;
}
