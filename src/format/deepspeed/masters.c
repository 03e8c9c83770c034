/* SPDX-License-Identifier: Apache-2.0 */
/* A group's masters are in the order of `module`, with what the group does not train left out.
 * Which parameter each belongs to is proved by rounding: the earliest assignment that keeps the
 * order (each master to the first parameter of its shape, behind the one before, whose weights it
 * rounds to) and the latest one (the same from the end) bound all others, so where the two are
 * equal there is no other.  Parameters that are settled for one group are not free for the next.  An
 * optimizer that was given the parameters in an order of its own is followed where each master
 * fits one parameter only.  Where masters fit several, as equal biases do, nothing is damaged but
 * their names are not proven; a master that fits none is refused.
 *
 * A fused optimizer joins the masters of a group in one vector, without a word about where one
 * ends; but it also makes the group's weights views of one vector, in the same order, and that is
 * how they are saved. Source: deepspeed/runtime/fp16/fused_optimizer.py, unfused_optimizer.py,
 * 0.18.9 and 0.19.8. */
#include "masters.h"

#include <stdlib.h>
#include <string.h>

#include "ties.h"

#define MASTERS_WORK (1ull << 21)  /* comparisons: some seconds */
#define MASTERS_PAIRS (1ull << 28) /* of a master and a parameter: the same */

static bool masters_is_weight(const struct ds_guess *q, uint32_t i)
{
    const struct ds_model *m = &q->mp->model;
    const struct ds_entry *e = &m->entry[i];

    return !ds_name_listed(m->buffer, m->n_buffers, e->name) && e->tensor && e->view.packed &&
           e->view.src && e->view.n > 0 && q->tie[i] == i &&
           zf_dtype_info(e->view.dtype)->kind == 'f';
}

bool ds_masters_init(struct ds_guess *q, struct zf_err *err)
{
    const struct ds_model *m = &q->mp->model;
    uint64_t elements = 0, n = 0;

    q->tie = ds_ties_find(q->mp, m->entry, m->n_entries, err);
    q->weight = zf_arena_get(q->mp->save->a, m->n_entries, sizeof *q->weight, err);
    q->used = zf_arena_get(q->mp->save->a, m->n_entries, sizeof *q->used, err);
    if (!q->tie || !q->weight || !q->used) {
        return false;
    }
    for (uint32_t i = 0; i < m->n_entries; i++) {
        q->weight[i] = masters_is_weight(q, i);
        if (q->weight[i]) {
            n++;
            elements += m->entry[i].view.n < UINT32_MAX ? m->entry[i].view.n : UINT32_MAX;
        }
    }
    q->sample = zf_sample_of(elements, n);
    return true;
}

static bool masters_too_much(const struct ds_guess *q, struct zf_err *err)
{
    return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE,
                   "the names of the masters are not proven after %llu comparisons",
                   (unsigned long long)q->work);
}

/* Compares the weights of entry i with what v, of as many elements, rounds to; where they differ,
 * *yes is false and q->miss says at which element. */
static bool masters_fit(struct ds_guess *q, uint32_t i, const struct zf_tensor_ref *v, bool *yes,
                        struct zf_err *err)
{
    const struct zf_tensor_ref *w = &q->mp->model.entry[i].view;
    uint64_t mb = zf_dtype_info(v->dtype)->bytes, wb = zf_dtype_info(w->dtype)->bytes;

    struct zf_span span;

    q->miss.found = false;
    *yes = zf_values_can_round(v->dtype, w->dtype);
    for (uint32_t k = 0; *yes && zf_sample_span(&q->sample, w->n, k, &span); k++) {
        struct zf_values master = {v->src, v->off + span.first * mb, v->dtype};
        struct zf_values weight = {w->src, w->off + span.first * wb, w->dtype};

        if (!zf_values_round(master, weight, span.n, &q->miss, err)) {
            return false;
        }
        q->work += 1 + (q->miss.found ? q->miss.at : span.n) / 1024;
        q->miss.at += span.first;
        *yes = !q->miss.found;
    }
    return q->work <= MASTERS_WORK || masters_too_much(q, err);
}

static bool masters_is_free(const struct ds_guess *q, uint32_t i, const struct zf_tensor_ref *v)
{
    const struct zf_tensor_ref *w = &q->mp->model.entry[i].view;

    return q->weight[i] && !q->used[i] && zf_shape_equal(w->ndim, w->shape, v->ndim, v->shape);
}

static const struct ds_name *masters_name_of(const struct ds_guess *q, uint32_t i)
{
    return &q->mp->model.entry[i].name;
}

/* Entry i is whose weights the master should round to; q->miss says where it does not. */
static bool masters_refuse(const struct ds_guess *q, uint32_t i, struct zf_err *err)
{
    const struct ds_name *name = masters_name_of(q, i);

    return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "element %llu of the master of \"%.*s\" is %.9g, which does not round to its "
                   "weight %.9g in \"module\"",
                   (unsigned long long)q->miss.at, ds_name_shown(*name), name->p, q->miss.master,
                   q->miss.weight);
}

/* Remembers that a master of group g fits both entries. */
static bool masters_unproven(struct ds_guess *q, uint64_t g, const uint32_t entry[2])
{
    q->open.group = g;
    q->open.name[0] = masters_name_of(q, entry[0]);
    q->open.name[1] = masters_name_of(q, entry[1]);
    return true;
}

/* ---- one vector a group ---- */

struct placed {
    const struct zf_tensor_ref *view;
    uint32_t i;
};
struct placed_list {
    const struct placed *p;
    uint32_t n;
};

static int masters_by_place(const void *pa, const void *pb)
{
    const struct zf_tensor_ref *a = ((const struct placed *)pa)->view;
    const struct zf_tensor_ref *b = ((const struct placed *)pb)->view;
    int c = strcmp(a->key, b->key);

    return c ? c : (a->off > b->off) - (a->off < b->off);
}

/* How many of p[0 .. n) follow each other without a gap in one storage, and their elements. */
static uint32_t masters_run_of(const struct placed *p, uint32_t n, uint64_t *elements)
{
    uint64_t end = p[0].view->off;
    uint32_t k = 0;

    for (*elements = 0; k < n && p[k].view->off == end; k++) {
        const struct zf_tensor_ref *v = p[k].view;

        if (strcmp(v->key, p[0].view->key) != 0 || v->dtype != p[0].view->dtype) {
            break;
        }
        *elements += v->n;
        end += v->n * zf_dtype_info(v->dtype)->bytes;
    }
    return k;
}

/* The part of the vector from element `at` on that is as long as entry i. */
static struct zf_tensor_ref masters_part_of(const struct ds_guess *q,
                                            const struct zf_tensor_ref *whole, uint64_t at,
                                            uint32_t i)
{
    struct zf_tensor_ref part = *whole;

    part.off += at * zf_dtype_info(whole->dtype)->bytes;
    part.n = q->mp->model.entry[i].view.n;
    part.ndim = q->mp->model.entry[i].view.ndim;
    part.shape = q->mp->model.entry[i].view.shape;
    return part;
}

/* Gives the parts of the vector, in order, to entry[0 .. n), which are as long together. */
static bool masters_take_parts(struct ds_guess *q, uint64_t g, const struct zf_tensor_ref *whole,
                               const struct zf_pv *state, const struct placed *p, uint32_t n,
                               struct zf_err *err)
{
    struct ds_masters *out = &q->group[g];
    uint64_t at = 0;

    out->m = zf_arena_get(q->mp->save->a, n, sizeof *out->m, err);
    out->n = n;
    out->settled = true;
    for (uint32_t k = 0; out->m && k < n; k++) {
        out->m[k] = (struct ds_master){.entry = p[k].i,
                                       .view = masters_part_of(q, whole, at, p[k].i),
                                       .state = state,
                                       .at = at,
                                       .whole = whole->n};
        at += out->m[k].view.n;
        q->used[p[k].i] = true;
    }
    return out->m != NULL;
}

/* Does every part round to its entry?  *bad: the first that does not. */
static bool masters_parts_fit(struct ds_guess *q, const struct zf_tensor_ref *whole,
                              const struct placed *p, uint32_t n, uint32_t *bad, bool *yes,
                              struct zf_err *err)
{
    uint64_t at = 0;

    *yes = true;
    for (uint32_t k = 0; *yes && k < n; k++) {
        struct zf_tensor_ref part = masters_part_of(q, whole, at, p[k].i);

        if (!masters_fit(q, p[k].i, &part, yes, err)) {
            return false;
        }
        *bad = p[k].i;
        at += part.n;
    }
    return true;
}

/* Cuts the vector where the weights of one storage are cut: out of `all`, sorted, those that are as
 * long together and rounded from it.  out->n = 0: there are none. */
static bool masters_cut_by_storage(struct ds_guess *q, uint64_t g,
                                   const struct zf_tensor_ref *whole, struct placed_list all,
                                   struct placed_list *out, struct zf_err *err)
{
    uint32_t n_fits = 0, bad = 0, most = 0;
    struct zf_mismatch miss = {.found = false};

    out->n = 0;
    for (uint32_t i = 0, k; i < all.n; i += k) {
        const struct placed *p = &all.p[i];
        uint64_t elements;
        uint32_t first_bad;
        bool yes;

        k = masters_run_of(p, all.n - i, &elements);
        if (elements != whole->n) {
            continue;
        }
        if (!masters_parts_fit(q, whole, p, k, &first_bad, &yes, err)) {
            return false;
        }
        if (yes && n_fits++ > 0) {
            return masters_unproven(q, g, (const uint32_t[]){out->p->i, p->i});
        }
        if (yes) {
            *out = (struct placed_list){p, k};
        } else if (k > most) {
            most = k;
            bad = first_bad;
            miss = q->miss;
        }
    }
    if (n_fits == 0 && most > 0) {
        q->miss = miss;
        return masters_refuse(q, bad, err);
    }
    return true;
}

/* The parts in the order of module, from the first (or last) weight that fits on. */
static bool masters_cut_by_order(struct ds_guess *q, const struct zf_tensor_ref *whole, bool last,
                                 struct placed *out, uint32_t *n, struct zf_err *err)
{
    uint32_t n_all = q->mp->model.n_entries, after = 0;
    uint64_t left = whole->n;

    *n = 0;
    for (uint32_t k = 0; k < n_all && left > 0; k++) {
        uint32_t i = last ? n_all - 1 - k : k;
        const struct zf_tensor_ref *w = &q->mp->model.entry[i].view;
        struct zf_tensor_ref part;
        bool yes;

        if (!q->weight[i] || q->used[i] || w->n > left) {
            continue;
        }
        part = masters_part_of(q, whole, last ? left - w->n : whole->n - left, i);
        if (!masters_fit(q, i, &part, &yes, err)) {
            return false;
        }
        if (yes) {
            out[(*n)++] = (struct placed){.view = w, .i = i};
            left -= w->n;
            after = k + 1;
        }
    }
    for (uint32_t i = after; left > 0 && i < n_all; i++) {
        const struct zf_tensor_ref *w = &q->mp->model.entry[i].view;

        if (!last && q->weight[i] && !q->used[i] && w->n <= left) {
            struct zf_tensor_ref part = masters_part_of(q, whole, whole->n - left, i);
            bool yes;

            if (!masters_fit(q, i, &part, &yes, err) || q->miss.found) {
                return q->miss.found && masters_refuse(q, i, err);
            }
        }
    }
    return left == 0 || zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                                "the last %llu elements of the masters round to no weight in "
                                "\"module\"",
                                (unsigned long long)left);
}

static bool masters_cut_vector(struct ds_guess *q, uint64_t g, const struct zf_tensor_ref *whole,
                               const struct zf_pv *state, struct placed *p, struct placed *back,
                               struct zf_err *err)
{
    struct placed_list found = {NULL, 0};
    uint32_t n, n_all = 0, n_back;

    for (uint32_t i = 0; i < q->mp->model.n_entries; i++) {
        if (q->weight[i] && !q->used[i]) {
            p[n_all++] = (struct placed){.view = &q->mp->model.entry[i].view, .i = i};
        }
    }
    qsort(p, n_all, sizeof *p, masters_by_place);
    if (!masters_cut_by_storage(q, g, whole, (struct placed_list){p, n_all}, &found, err)) {
        return false;
    }
    if (q->open.name[0]) {
        return true;
    }
    if (found.n > 0) {
        return masters_take_parts(q, g, whole, state, found.p, found.n, err);
    }
    if (!masters_cut_by_order(q, whole, false, p, &n, err) ||
        !masters_cut_by_order(q, whole, true, back, &n_back, err)) {
        return false;
    }
    for (uint32_t k = 0; k < n && k < n_back; k++) {
        if (p[k].i != back[n_back - 1 - k].i) {
            return masters_unproven(q, g, (const uint32_t[]){p[k].i, back[n_back - 1 - k].i});
        }
    }
    return masters_take_parts(q, g, whole, state, p, n, err);
}

bool ds_masters_cut(struct ds_guess *q, uint64_t g, const struct zf_tensor_ref *whole,
                    const struct zf_pv *state, struct zf_err *err)
{
    uint32_t n = q->mp->model.n_entries;
    zf_auto(mem) struct placed *p = calloc(n + (size_t)1, sizeof *p);
    zf_auto(mem) struct placed *back = malloc((n + (size_t)1) * sizeof *back);

    if (!p || !back) {
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    }
    return whole->n == 0 ? masters_take_parts(q, g, whole, state, p, 0, err)
                         : masters_cut_vector(q, g, whole, state, p, back, err);
}

/* ---- a list of masters ---- */

/* Assigns the masters of a group in order to the first (or last) parameters they fit; *done: how
 * many of them there were parameters for. */
static bool masters_assign(struct ds_guess *q, const struct ds_masters *g, bool last, uint32_t *to,
                           uint32_t *done, struct zf_err *err)
{
    uint32_t n = q->mp->model.n_entries, k = 0;

    for (*done = 0; *done < g->n; ++*done) {
        uint32_t which = last ? g->n - 1 - *done : *done;
        bool yes = false;

        for (; !yes && k < n; k++) {
            uint32_t i = last ? n - 1 - k : k;

            if (masters_is_free(q, i, &g->m[which].view) &&
                !masters_fit(q, i, &g->m[which].view, &yes, err)) {
                return false;
            }
            to[which] = i;
        }
        if (!yes) {
            break;
        }
    }
    return true;
}

/* Up to two parameters that a master fits; *n: how many of them there are. */
static bool masters_fits_of(struct ds_guess *q, const struct zf_tensor_ref *v, uint32_t fits[2],
                            uint32_t *n, struct zf_err *err)
{
    *n = 0;
    for (uint32_t i = 0; *n < 2 && i < q->mp->model.n_entries; i++) {
        bool yes = false;

        if (masters_is_free(q, i, v) && !masters_fit(q, i, v, &yes, err)) {
            return false;
        }
        if (yes) {
            fits[(*n)++] = i;
        }
    }
    return true;
}

/* Assigns the masters in whatever order they are.  *none: the first that fits no parameter, or g->n;
 * where one fits two, or two fit one, q->open says so. */
static bool masters_assign_unordered(struct ds_guess *q, const struct ds_masters *g, uint32_t *to,
                                     uint32_t *none, struct zf_err *err)
{
    zf_auto(mem) bool *taken = calloc(q->mp->model.n_entries + (size_t)1, sizeof *taken);

    if (!taken) {
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    }
    if ((uint64_t)g->n * q->mp->model.n_entries > MASTERS_PAIRS) {
        return masters_too_much(q, err);
    }
    for (*none = 0; *none < g->n; ++*none) {
        uint32_t fits[2], n_fits;

        if (!masters_fits_of(q, &g->m[*none].view, fits, &n_fits, err)) {
            return false;
        }
        if (n_fits == 0) {
            break;
        }
        if (n_fits > 1 || taken[fits[0]]) {
            (void)masters_unproven(q, (uint64_t)(g - q->group),
                                   (const uint32_t[]){fits[0], fits[n_fits - 1]});
        }
        to[*none] = fits[0];
        taken[fits[0]] = true;
    }
    return true;
}

/* Master k fits nothing behind the parameter of the one before it. */
static bool masters_refuse_master(struct ds_guess *q, const struct ds_masters *g, uint32_t k,
                                  uint32_t from, struct zf_err *err)
{
    const struct zf_tensor_ref *v = &g->m[k].view;
    bool yes;

    for (uint32_t i = from; i < q->mp->model.n_entries; i++) {
        if (!masters_is_free(q, i, v)) {
            continue;
        }
        if (!masters_fit(q, i, v, &yes, err)) {
            return false;
        }
        if (q->miss.found) {
            return masters_refuse(q, i, err);
        }
    }
    return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "master %u of group %llu has %llu elements in %u dimensions, and no parameter "
                   "of that shape is left in \"module\" for it",
                   k, (unsigned long long)(g - q->group), (unsigned long long)v->n, v->ndim);
}

static void masters_settle(struct ds_guess *q, struct ds_masters *g, const uint32_t *to)
{
    for (uint32_t k = 0; k < g->n; k++) {
        g->m[k].entry = to[k];
        q->used[to[k]] = true;
    }
    g->settled = true;
}

/* two[0], two[1]: parameters that one master fits, where the group is not settled. */
static bool masters_settle_group(struct ds_guess *q, struct ds_masters *g, uint32_t two[2],
                                 struct zf_err *err)
{
    zf_auto(mem) uint32_t *first = calloc(g->n + (size_t)1, sizeof *first);
    zf_auto(mem) uint32_t *last = calloc(g->n + (size_t)1, sizeof *last);
    uint32_t done = 0, n_last = 0, none = 0;

    if (!first || !last) {
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    }
    if (!masters_assign(q, g, false, first, &done, err)) {
        return false;
    }
    if (done < g->n) {
        if (!masters_assign_unordered(q, g, last, &none, err)) {
            return false;
        }
        if (none < g->n) {
            return masters_refuse_master(q, g, none, 0, err);
        }
        if (!q->open.name[0]) {
            masters_settle(q, g, last);
        }
        return true;
    }
    if (!masters_assign(q, g, true, last, &n_last, err)) {
        return false;
    }
    for (uint32_t k = 0; k < g->n; k++) {
        if (first[k] != last[k]) {
            two[0] = first[k];
            two[1] = last[k];
            return true;
        }
    }
    masters_settle(q, g, first);
    return true;
}

bool ds_masters_settle(struct ds_guess *q, struct zf_err *err)
{
    uint32_t two[2] = {0, 0};
    uint64_t open = 0, left, last = 0;

    for (uint64_t g = 0; g < q->n_groups; g++) {
        open += !q->group[g].settled;
    }
    for (left = open; left > 0; open = left) {
        left = 0;
        for (uint64_t g = 0; g < q->n_groups; g++) {
            if (!q->group[g].settled && !masters_settle_group(q, &q->group[g], two, err)) {
                return false;
            }
            if (q->open.name[0]) {
                return true;
            }
            left += !q->group[g].settled;
            last = q->group[g].settled ? last : g;
        }
        if (left == open) {
            return masters_unproven(q, last, two);
        }
    }
    return true;
}
