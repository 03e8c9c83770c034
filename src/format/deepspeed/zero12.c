/* SPDX-License-Identifier: Apache-2.0 */
/* ZeRO stages 1 and 2 and BF16_Optimizer: the parameters of a group stand one behind the other in
 * one long vector, which is cut in equal partitions; a parameter may cross the cuts.  The last
 * partitions may have been trimmed when saved, so positions are sums of actual lengths. Source:
 * deepspeed/runtime/zero/stage_1_and_2.py, bf16_optimizer.py, utils/zero_to_fp32.py,
 * 0.6.0 … 0.19.8. */
#include <zf/base/num.h>

#include "ds.h"

static bool lay_params(struct zf_ds *ds, uint32_t g, const struct zf_ds_part *part,
                       struct zf_ds_cut *c, struct zf_err *err)
{
    uint32_t n = c->params->n;
    uint64_t *at = zf_arena_get(ds->a, n + 1ull, sizeof *at, err);

    if (part->pad && part->n_pads != n) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "param_alignment_paddings[%u] has %u entries for %u parameters", g,
                       part->n_pads, n);
    }
    for (uint32_t i = 0; at && i < n; i++) {
        if (!zf_add(at[i], c->params->param[i].n, &at[i + 1]) ||
            (part->pad && !zf_add(at[i + 1], part->pad[i], &at[i + 1]))) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "the parameters of group %u have more than 2^64 elements", g);
        }
    }
    c->at = at;
    return at != NULL;
}

/* The length of an untrimmed partition, for a rank whose own file is lost. */
static uint64_t full_partition(const struct zf_ds *ds, uint32_t g, uint64_t need)
{
    uint64_t w = ds->n_ranks, aligned = need / (2 * w) + (need % (2 * w) != 0);

    /* Not the last one: its padding was trimmed. */
    for (uint32_t r = 0; r + 1 < ds->n_ranks; r++) {
        uint64_t n = ds->rank[r].lost ? 0 : ds->rank[r].part[g].master.n, end;

        if (n > 0 && zf_mul(n, r + 1ull, &end) && end < need) {
            return n; /* real data follows, so nothing was trimmed here */
        }
    }
    return 2 * aligned;
}

static bool lay_ranks(struct zf_ds *ds, uint32_t g, struct zf_ds_cut *c, struct zf_err *err)
{
    uint64_t need = c->at[c->params->n], full = full_partition(ds, g, need);
    uint64_t *begin = zf_arena_get(ds->a, ds->n_ranks + 1ull, sizeof *begin, err);
    bool lost = false;

    for (uint32_t r = 0; begin && r < ds->n_ranks; r++) {
        const struct zf_ds_rank *rank = &ds->rank[r];
        uint64_t n = rank->lost ? full : rank->part[g].master.n;

        lost = lost || rank->lost;
        if (!zf_add(begin[r], n, &begin[r + 1])) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "the partitions of group %u have more than 2^64 elements", g);
        }
        if (begin[r + 1] < need && n != full && (lost || n != ds->rank[0].part[g].master.n)) {
            zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                    "the partition of group %u has %llu elements, expected %llu as on other ranks",
                    g, (unsigned long long)n, (unsigned long long)full);
            return zf_err_in(err, "%s", rank->path);
        }
    }
    c->begin = begin;
    if (!begin) {
        return false;
    }
    uint64_t have = begin[ds->n_ranks];
    if (have < need || have - need >= 2ull * ds->n_ranks) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "the parameters of group %u have %llu elements, but its %u partitions hold "
                       "%llu (at most %llu of padding expected)",
                       g, (unsigned long long)need, ds->n_ranks, (unsigned long long)have,
                       2ull * ds->n_ranks - 1);
    }
    return true;
}

bool zf_ds_cut_lay(struct zf_ds *ds, uint32_t g, struct zf_ds_cut *c, struct zf_err *err)
{
    const struct zf_ds_rank *rank = ds->rank;

    while (rank->lost) {
        rank++;
    }
    c->muon = rank->part[g].muon;
    return lay_params(ds, g, &rank->part[g], c, err) && lay_ranks(ds, g, c, err);
}

/* Elements [a, b) of the column-by-column form of parameter p stand at element `at` of a rank's
 * vector: at most a part of a column, whole columns, and a part of one more. */
static bool place_columns(struct zf_ds *ds, const struct zf_ds_column *col, uint32_t rank,
                          const struct zf_ds_param *p, const uint64_t span[3], struct zf_err *err)
{
    struct zf_draft *d = zf_build_find(ds->b, ds_spot(col->set, p->name));
    struct zf_ds_box box = {.rows = p->shape[0], .at = span[2]};
    uint64_t a = span[0], end = a + span[1], n;

    for (; d && a < end; a += n, box.at += n) {
        uint64_t i = a % box.rows, left = end - a;
        bool whole = i == 0 && left >= box.rows;

        box.start[0] = i;
        box.start[1] = a / box.rows;
        box.size[0] = left < box.rows - i ? left : box.rows - i;
        box.size[1] = whole ? left / box.rows : 1;
        n = box.size[0] * box.size[1];
        if (!zf_ds_column_box(ds, col, rank, d, &box, err)) {
            return false;
        }
    }
    return d != NULL;
}

static bool place_param(struct zf_ds *ds, const struct zf_ds_cut *c, const struct zf_ds_column *col,
                        uint32_t i, uint32_t *r, struct zf_err *err)
{
    uint64_t lo = c->at[i], hi = lo + c->params->param[i].n;
    struct zf_draft *d = zf_ds_column_draft(ds, col, &c->params->param[i], err);

    if (!d) {
        return false;
    }
    while (*r + 1 < ds->n_ranks && c->begin[*r + 1] <= lo) {
        ++*r;
    }
    for (uint32_t k = *r; k < ds->n_ranks && c->begin[k] < hi; k++) {
        uint64_t from = lo > c->begin[k] ? lo : c->begin[k];
        uint64_t to = hi < c->begin[k + 1] ? hi : c->begin[k + 1];
        uint64_t span[3] = {from - lo, to - from, from - c->begin[k]};

        if (to > from && !(c->params->param[i].columns
                               ? place_columns(ds, col, k, &c->params->param[i], span, err)
                               : zf_ds_column_piece(ds, col, k, d, span, err))) {
            return false;
        }
    }
    return true;
}

/* Does parameter i have elements in the partition of rank r? */
static bool touches(const struct zf_ds_cut *c, uint32_t i, uint32_t r)
{
    uint64_t lo = c->at[i], hi = lo + c->params->param[i].n;

    return lo < c->begin[r + 1] && hi > c->begin[r] && hi > lo;
}

/* Muon keeps, on each rank, the whole momentum of every parameter that touches its partition.
 * Source: stage_1_and_2.py, 0.18 … 0.19.8. */
static bool is_whole(const struct zf_ds *ds, const struct zf_ds_cut *c,
                     const struct zf_ds_column *col)
{
    uint32_t first = 0;

    for (uint32_t r = 0; r < ds->n_ranks; r++) {
        uint64_t sum = 0;

        while (first < c->params->n && c->at[first] + c->params->param[first].n <= c->begin[r]) {
            first++;
        }
        for (uint32_t i = first; i < c->params->n && c->at[i] < c->begin[r + 1]; i++) {
            sum += touches(c, i, r) ? c->params->param[i].n : 0;
        }
        if (col->flat[r] && col->flat[r]->n != sum) {
            return false;
        }
    }
    return true;
}

/* A parameter that touches several partitions is on all of them;
 * the first that is not lost serves. */
static bool place_whole(struct zf_ds *ds, const struct zf_ds_cut *c, const struct zf_ds_column *col,
                        struct zf_err *err)
{
    struct zf_draft **draft = zf_arena_get(ds->a, c->params->n, sizeof *draft, err);
    uint32_t first = 0;

    for (uint32_t i = 0; draft && i < c->params->n; i++) {
        draft[i] = zf_ds_column_draft(ds, col, &c->params->param[i], err);
        if (!draft[i]) {
            return false;
        }
    }
    for (uint32_t r = 0; draft && r < ds->n_ranks; r++) {
        uint64_t at = 0;

        while (first < c->params->n && c->at[first] + c->params->param[first].n <= c->begin[r]) {
            first++;
        }
        for (uint32_t i = first; i < c->params->n && c->at[i] < c->begin[r + 1]; i++) {
            uint64_t span[3] = {0, c->params->param[i].n, at};
            bool more = r + 1 < ds->n_ranks && touches(c, i, r + 1);

            if (!touches(c, i, r)) {
                continue;
            }
            at += span[1];
            if (!draft[i] || (!col->flat[r] && more)) {
                continue;
            }
            if (!zf_ds_column_piece(ds, col, r, draft[i], span, err)) {
                return false;
            }
            draft[i] = NULL;
        }
    }
    return draft != NULL;
}

/* How many ranks hold as many elements as their partition, trimmed or not;
 * *n_out = ranks that are there. */
static uint32_t count_fits(const struct zf_ds *ds, const struct zf_ds_cut *c,
                           const struct zf_ds_column *col, uint32_t *n_out)
{
    uint64_t full =
        c->begin[1]; /* the first partition is trimmed only when it is the only one with data */
    uint32_t fits = 0;

    *n_out = 0;
    for (uint32_t r = 0; r < ds->n_ranks; r++) {
        uint64_t cut = c->begin[r + 1] - c->begin[r];
        uint64_t n = col->flat[r] ? col->flat[r]->n : 0;

        *n_out += col->flat[r] != NULL;
        fits +=
            col->flat[r] && (n == cut || (!col->lean && n >= cut && n < cut + 2ull * ds->n_ranks) ||
                             (!col->lean && n == full));
    }
    return fits;
}

static bool place(struct zf_ds *ds, void *ctx, const struct zf_ds_column *col, struct zf_err *err)
{
    const struct zf_ds_cut *c = ctx;
    uint32_t ranks, fits = count_fits(ds, c, col, &ranks), r = 0;
    bool state = col->key.n > 0;

    if (state && (c->muon || fits < ranks) && is_whole(ds, c, col)) {
        return place_whole(ds, c, col, err);
    }
    if (fits == 0 && state) {
        return zf_build_note(
            ds->b, err,
            "the optimizer state \"%.*s\" of group %u is left out: its length is not "
            "that of the weights",
            (int)col->key.n, col->key.p, col->g);
    }
    if (fits < ranks) {
        return zf_fail(
            err, ZF_E_FORMAT, ZF_OFF_NONE,
            "the optimizer state \"%.*s\" of group %u has the length of its partition on "
            "%u of %u ranks only",
            (int)col->key.n, col->key.p, col->g, fits, ranks);
    }
    for (uint32_t i = 0; i < c->params->n; i++) {
        if (!place_param(ds, c, col, i, &r, err)) {
            return false;
        }
    }
    return true;
}

/* ZenFlow of 0.18 stores every matrix transposed, that of 0.19 none: the 16-bit weights, which are
 * views into the same kind of vector, show which by their strides. */
static bool find_columns(struct zf_ds *ds, struct zf_ds_param *p, struct zf_err *err)
{
    const struct zf_ds_entry *e = zf_ds_model_find(&ds->model, p->name);

    if (p->ndim != 2 || p->shape[0] <= 1 || p->shape[1] <= 1) {
        return true;
    }
    if (!e || !e->tensor || e->view.ndim != 2) {
        return zf_fail(
            err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
            "a ZenFlow save without the 16-bit weight \"%.*s\", which would tell how its "
            "master is stored, is not supported",
            (int)p->name.n, p->name.p);
    }
    p->columns = e->view.stride[0] == 1 && e->view.stride[1] == p->shape[0];
    return true;
}

bool zf_ds_zero12_draft(struct zf_ds *ds, struct zf_err *err)
{
    if (!zf_ds_order_settle(ds, err)) {
        return zf_ds_leave_out(ds, err);
    }
    for (uint32_t g = 0; g < ds->n_groups; g++) {
        struct zf_ds_cut c = {.params = &ds->group[g]};

        for (uint32_t i = 0; ds->model.zenflow && i < c.params->n; i++) {
            if (!find_columns(ds, &c.params->param[i], err)) {
                return false;
            }
        }
        if (!zf_ds_cut_lay(ds, g, &c, err) || !zf_ds_column_each(ds, g, c.params, place, &c, err)) {
            return false;
        }
    }
    return true;
}
