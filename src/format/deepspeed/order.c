/* SPDX-License-Identifier: Apache-2.0 */
/* In which order the parameters of a group stand in its vector.  param_shapes declares one, but
 * DeepSpeed 0.4.0 dealt the parameters to the ranks in turn (all with i mod ranks = 0, then = 1 …)
 * and recorded the order from before, as later releases did with round_robin_gradients until 0.6.
 * The lengths are the same either way, so the order is proved: under the right one every master
 * rounds to the weight of that name in `module`.  Source: deepspeed/runtime/zero/stage2.py
 * (_round_robin_reorder), 0.4.0 … 0.5.10. */
#include <zf/base/num.h>

#include "ds.h"

struct order_proof {
    struct zf_sample sample;
    uint64_t compared; /* parameters */
    /* the first master that does not round to its weight */
    struct zf_mismatch miss;
    struct zf_ds_name name;
    const char *file;
};

bool zf_ds_order_split(struct zf_ds *ds, const struct zf_ds_rank *first, struct zf_err *err)
{
    const struct zf_ds_shapes all = ds->group[0];
    uint32_t next = 0;

    if (ds->n_groups != 1 || ds->model.has_shapes || first->sliced || first->n_parts < 2) {
        return true;
    }
    ds->group = zf_arena_get(ds->a, first->n_parts, sizeof *ds->group, err);
    ds->n_groups = first->n_parts;
    for (uint32_t g = 0; ds->group && g < ds->n_groups; g++) {
        uint64_t left = 0;

        for (uint32_t r = 0; r < ds->n_ranks; r++) {
            uint64_t n = ds->rank[r].lost ? 0 : ds->rank[r].part[g].master.n;

            if (!zf_add(left, n, &left)) {
                return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                               "the partitions of group %u have more than 2^64 elements", g);
            }
        }
        ds->group[g].param = all.param + next;
        while (next < all.n && (all.param[next].n <= left || g == ds->n_groups - 1)) {
            left -= all.param[next].n <= left ? all.param[next].n : left;
            next++;
        }
        ds->group[g].n = (uint32_t)(all.param + next - ds->group[g].param);
    }
    return ds->group != NULL;
}

/* Byte of element x of a view. */
static uint64_t element_off(const struct zf_tensor_ref *v, uint64_t x)
{
    uint64_t at = x, bytes = zf_dtype_info(v->dtype)->bytes;

    for (uint32_t d = v->ndim; !v->packed && d-- > 0;) {
        at = d == v->ndim - 1 ? 0 : at;
        at += x % v->shape[d] * v->stride[d];
        x /= v->shape[d];
    }
    return v->off + at * bytes;
}

/* Compares elements [first, first + n) of parameter i of group g. */
static bool prove_span(struct zf_ds *ds, const struct zf_ds_cut *c, uint32_t g, uint32_t i,
                       struct zf_span span, struct order_proof *q, struct zf_err *err)
{
    const struct zf_ds_param *p = &c->params->param[i];
    const struct zf_tensor_ref *w = &zf_ds_model_find(&ds->model, p->name)->view;
    uint64_t y = c->at[i] + span.first, end = y + span.n, n;

    for (uint32_t r = 0; r < ds->n_ranks && y < end && !q->miss.found; r++) {
        const struct zf_ds_rank *rank = &ds->rank[r];
        const struct zf_ds_flat *f = rank->lost ? NULL : &rank->part[g].master;

        for (; y < end && y < c->begin[r + 1] && !q->miss.found; y += n) {
            uint64_t x = y - c->at[i];
            struct zf_values weight = {w->src, element_off(w, x), w->dtype};

            n = end < c->begin[r + 1] ? end - y : c->begin[r + 1] - y;
            n = w->packed ? n : 1;
            if (!f || !zf_values_can_round(f->dtype, w->dtype)) {
                continue;
            }
            struct zf_values master = {
                f->src, f->off + (y - c->begin[r]) * zf_dtype_info(f->dtype)->bytes, f->dtype};
            if (!zf_values_round(master, weight, n, &q->miss, err)) {
                return false;
            }
            if (q->miss.found) {
                q->miss.at += x;
                q->name = p->name;
                q->file = rank->path;
            }
        }
    }
    return true;
}

static bool prove_param(struct zf_ds *ds, const struct zf_ds_cut *c, uint32_t g, uint32_t i,
                        struct order_proof *q, struct zf_err *err)
{
    const struct zf_ds_param *p = &c->params->param[i];
    const struct zf_ds_entry *e = zf_ds_model_find(&ds->model, p->name);
    struct zf_span span;

    if (i % q->sample.every != 0 || !e || !e->tensor || !e->view.src || e->view.n != p->n ||
        zf_dtype_info(e->view.dtype)->kind != 'f') {
        return true;
    }
    q->compared++;
    for (uint32_t k = 0; !q->miss.found && zf_sample_span(&q->sample, p->n, k, &span); k++) {
        if (!prove_span(ds, c, g, i, span, q, err)) {
            if (!ds->o->degraded || err->code != ZF_E_IO) {
                return false;
            }
            zf_err_clear(err); /* bytes that are lost prove nothing */
        }
    }
    return true;
}

/* Tries one order of all groups. */
static bool prove(struct zf_ds *ds, const struct zf_ds_shapes *group, struct order_proof *q,
                  struct zf_err *err)
{
    uint64_t elements = 0, params = 0;

    for (uint32_t g = 0; g < ds->n_groups; g++) {
        params += group[g].n;
        for (uint32_t i = 0; i < group[g].n; i++) {
            elements += group[g].param[i].n < UINT32_MAX ? group[g].param[i].n : UINT32_MAX;
        }
    }
    *q = (struct order_proof){.sample = zf_sample_of(elements, params)};
    for (uint32_t g = 0; g < ds->n_groups && !q->miss.found; g++) {
        struct zf_ds_cut c = {.params = &group[g]};

        if (!zf_ds_cut_lay(ds, g, &c, err)) {
            return false;
        }
        for (uint32_t i = 0; i < group[g].n && !q->miss.found; i++) {
            if (!prove_param(ds, &c, g, i, q, err)) {
                return false;
            }
        }
    }
    return true;
}

/* The parameters dealt to the ranks in turn.  *other: that is another order than the declared. */
static struct zf_ds_shapes *deal(struct zf_ds *ds, bool *other, struct zf_err *err)
{
    struct zf_ds_shapes *out = zf_arena_get(ds->a, ds->n_groups, sizeof *out, err);

    *other = false;
    for (uint32_t g = 0; out && g < ds->n_groups; g++) {
        const struct zf_ds_shapes *in = &ds->group[g];
        uint32_t n = 0;

        out[g].n = in->n;
        out[g].param = zf_arena_get(ds->a, in->n, sizeof *out[g].param, err);
        if (!out[g].param) {
            return NULL;
        }
        for (uint32_t r = 0; r < ds->n_ranks && r < in->n; r++) {
            for (uint64_t i = r; i < in->n; i += ds->n_ranks) {
                *other = *other || i != n;
                out[g].param[n++] = in->param[i];
            }
        }
    }
    return out;
}

static bool refuse(const struct zf_ds *ds, const struct order_proof *q, struct zf_err *err)
{
    zf_fail(
        err, ZF_E_FORMAT, ZF_OFF_NONE,
        "the masters do not belong to these names: element %llu of \"%.*s\" is %.9g, which does "
        "not round to the %.9g of \"module\" in \"%s\"",
        (unsigned long long)q->miss.at, q->name.n < 100 ? (int)q->name.n : 100, q->name.p,
        q->miss.master, q->miss.weight, ds->model.path);
    return zf_err_in(err, "%s", q->file);
}

/* Nothing says in which of the two orders the parameters stand. */
static bool unproven(const struct zf_ds *ds, const char *why, struct zf_err *err)
{
    zf_fail(
        err, ZF_E_FORMAT, ZF_OFF_NONE,
        "the order of the parameters is not proven: DeepSpeed before 0.6 may have dealt them to "
        "the ranks in turn, and %s",
        why);
    return zf_err_in(err, "%s", ds->model.path);
}

bool zf_ds_order_settle(struct zf_ds *ds, struct zf_err *err)
{
    bool sure = ds->model.has_shapes, other; /* since 0.6 the recorded order is the real one */
    struct order_proof declared, dealt;
    struct zf_ds_shapes *in_turn;

    if (ds->model.zenflow) {
        return true; /* its model lags behind the masters, or is scrambled */
    }
    in_turn = deal(ds, &other, err);
    if (!in_turn || !prove(ds, ds->group, &declared, err)) {
        return false;
    }
    if (declared.compared == 0) {
        return sure || !other
                   ? zf_build_note(ds->b, err,
                                   "the parameters stand in the order that is recorded: there are "
                                   "no weights in \"module\" that could prove it")
                   : unproven(ds, "\"module\" has no weights to compare with", err);
    }
    if (!declared.miss.found && (sure || !other)) {
        return true;
    }
    if (!other) {
        return refuse(ds, &declared, err);
    }
    if (!prove(ds, in_turn, &dealt, err)) {
        return false;
    }
    if (dealt.miss.found) {
        return !declared.miss.found || refuse(ds, &declared, err);
    }
    if (!declared.miss.found) {
        return unproven(ds, "the weights fit both orders", err);
    }
    ds->group = in_turn;
    return zf_build_note(ds->b, err,
                         "the parameters were dealt to the ranks in turn, which param_shapes does "
                         "not show: the weights in \"module\" prove it");
}
