/* SPDX-License-Identifier: Apache-2.0 */
/* ZeRO stage 3: every parameter is cut by itself into ceil(n / ranks) elements a rank; a rank's
 * vector is one such slot of each parameter, one behind the other.  What a slot holds beyond the
 * parameter's end is uninitialised memory and is never looked at. Source:
 * deepspeed/runtime/zero/partition_parameters.py, stage3.py, utils/zero_to_fp32.py,
 * 0.6.0 … 0.19.8. */
#include <stdio.h>

#include <zf/assemble/files.h>
#include <zf/base/num.h>

#include "ds.h"

static uint64_t slot_of(uint64_t n, uint32_t ranks)
{
    return n / ranks + (n % ranks != 0);
}

/* Elements of a rank's vector. */
static bool group_length(const struct zf_ds *ds, uint32_t g, uint64_t *out, struct zf_err *err)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < ds->group[g].n; i++) {
        if (!zf_add(sum, slot_of(ds->group[g].param[i].n, ds->n_ranks), &sum)) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "the parameters of group %u have more than 2^64 elements", g);
        }
    }
    *out = sum;
    return true;
}

/* How long a swap file with `want` elements is, given the unit it is rounded up to. */
static bool swap_length(uint64_t unit, const struct zf_ds_flat *f, uint64_t want, uint64_t *out)
{
    uint64_t bytes;

    return zf_mul(want, zf_dtype_info(f->dtype)->bytes, &bytes) &&
           zf_mul(bytes / unit + (bytes % unit != 0), unit, out);
}

static bool has_length(const struct zf_ds *ds, const struct zf_ds_flat *f, uint64_t want)
{
    uint64_t a, b;

    if (!f->swapped) {
        return f->n == want;
    }
    return (swap_length(ds->swap_unit[0], f, want, &a) && f->swapped == a) ||
           (swap_length(ds->swap_unit[1], f, want, &b) && f->swapped == b);
}

/* A swap file of another length is damaged, or of an earlier run. */
static bool check_swap(const struct zf_ds *ds, const struct zf_ds_flat *f, uint64_t want,
                       struct zf_err *err)
{
    uint64_t bytes = 0;

    if (!f->swapped || has_length(ds, f, want)) {
        return true;
    }
    if (!swap_length(ds->swap_unit[0], f, want, &bytes)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "a group has more than 2^64 bytes");
    }
    zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
            "the swap file has %llu bytes, expected %llu for %llu elements, rounded up to a "
            "multiple of %llu",
            (unsigned long long)f->swapped, (unsigned long long)bytes, (unsigned long long)want,
            (unsigned long long)ds->swap_unit[0]);
    return zf_err_in(err, "%s", f->src->name);
}

/* Degraded: what is in such a file is lost. */
static bool check_swaps(struct zf_ds *ds, const struct zf_ds_column *col, uint64_t want,
                        struct zf_err *err)
{
    char text[800];

    for (uint32_t r = 0; r < ds->n_ranks; r++) {
        if (!col->flat[r] || check_swap(ds, col->flat[r], want, err)) {
            continue;
        }
        if (!ds->o->degraded) {
            return false;
        }
        zf_err_text(err, text, sizeof text);
        zf_err_clear(err);
        col->flat[r] = NULL;
        if (!zf_build_note(ds->b, err, "a part of group %u is lost: %s", col->g, text)) {
            return false;
        }
    }
    return true;
}

static bool check_lengths(const struct zf_ds *ds, uint32_t g, uint64_t want, struct zf_err *err)
{
    for (uint32_t r = 0; r < ds->n_ranks; r++) {
        const struct zf_ds_rank *rank = &ds->rank[r];

        if (!rank->lost && !rank->part[g].master.swapped &&
            !has_length(ds, &rank->part[g].master, want)) {
            zf_fail(
                err, ZF_E_FORMAT, ZF_OFF_NONE,
                "fp32_flat_groups[%u] has %llu elements, expected %llu for its %u parameters on "
                "%u ranks",
                g, (unsigned long long)rank->part[g].master.n, (unsigned long long)want,
                ds->group[g].n, ds->n_ranks);
            return zf_err_in(err, "%s", rank->path);
        }
    }
    return true;
}

/* How many ranks hold a vector as long as the weights'. */
static bool fits(const struct zf_ds *ds, const struct zf_ds_column *col, uint64_t want, bool *some)
{
    bool all = true;

    *some = false;
    for (uint32_t r = 0; r < ds->n_ranks; r++) {
        bool same = !col->flat[r] || has_length(ds, col->flat[r], want);

        all = all && same;
        *some = *some || (col->flat[r] && same);
    }
    return all;
}

static bool place_param(struct zf_ds *ds, const struct zf_ds_column *col,
                        const struct zf_ds_param *p, uint64_t at, struct zf_err *err)
{
    uint64_t slot = slot_of(p->n, ds->n_ranks);
    struct zf_draft *d = zf_ds_column_draft(ds, col, p, err);

    for (uint64_t r = 0, first = 0; d && first < p->n; r++, first += slot) {
        uint64_t left = p->n - first;
        uint64_t span[3] = {first, left < slot ? left : slot, at};

        if (!zf_ds_column_piece(ds, col, (uint32_t)r, d, span, err)) {
            return false;
        }
    }
    return d != NULL;
}

static bool place(struct zf_ds *ds, void *ctx, const struct zf_ds_column *col, struct zf_err *err)
{
    uint64_t want = *(const uint64_t *)ctx, at = 0;
    const struct zf_ds_shapes *group = &ds->group[col->g];
    bool some;

    if (!check_swaps(ds, col, want, err)) {
        return false;
    }
    if (!fits(ds, col, want, &some)) {
        return some ? zf_fail(
                          err, ZF_E_FORMAT, ZF_OFF_NONE,
                          "the optimizer state \"%.*s\" of group %u is as long as the weights on "
                          "some ranks only",
                          (int)col->key.n, col->key.p, col->g)
                    : zf_build_note(ds->b, err,
                                    "the optimizer state \"%.*s\" of group %u is left out: its "
                                    "length is not that of the weights",
                                    (int)col->key.n, col->key.p, col->g);
    }
    for (uint32_t i = 0; i < group->n; i++) {
        if (!place_param(ds, col, &group->param[i], at, err)) {
            return false;
        }
        at += slot_of(group->param[i].n, ds->n_ranks);
    }
    return true;
}

bool zf_ds_zero3_draft(struct zf_ds *ds, struct zf_err *err)
{
    if (ds->model.zenflow) {
        return zf_fail(
            err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
            "a ZenFlow save of stage 3 is not supported: nothing tells whether its matrices "
            "are stored transposed");
    }
    for (uint32_t g = 0; g < ds->n_groups; g++) {
        uint64_t want;

        if (!group_length(ds, g, &want, err) || !check_lengths(ds, g, want, err) ||
            !zf_ds_column_each(ds, g, &ds->group[g], place, &want, err)) {
            return false;
        }
    }
    return true;
}

static const struct zf_tensor_ref *find_fragment(const struct zf_ds_model *m, uint32_t hint,
                                                 struct zf_ds_name name)
{
    if (hint < m->n_fragments && zf_ds_name_eq(m->fragment[hint].name, name)) {
        return &m->fragment[hint].view;
    }
    for (uint32_t i = 0; i < m->n_fragments; i++) {
        if (zf_ds_name_eq(m->fragment[i].name, name)) {
            return &m->fragment[i].view;
        }
    }
    return NULL;
}

/* The slice of frozen parameter i on the rank whose model file is m. */
static bool join_slice(struct zf_ds *ds, const struct zf_ds_model *m, uint32_t i,
                       struct zf_draft *d, const uint64_t span[2], struct zf_err *err)
{
    const struct zf_ds_param *p = &ds->model.frozen.param[i];
    const struct zf_tensor_ref *v = find_fragment(m, i, p->name);
    uint64_t slot = slot_of(p->n, ds->n_ranks);
    struct zf_from from;

    if (v && v->src && !zf_ds_dir_same_rank(m->path, v->src->name, err)) {
        return false;
    }
    if (!v || v->n != slot || !v->packed || v->dtype != zf_draft_type(d).dtype) {
        zf_fail(
            err, v && v->n != slot ? ZF_E_UNSUPPORTED : ZF_E_FORMAT, ZF_OFF_NONE,
            "the slice of frozen parameter \"%.*s\" has %llu elements, expected %llu: quantized "
            "or of another save",
            (int)p->name.n, p->name.p, (unsigned long long)(v ? v->n : 0),
            (unsigned long long)slot);
        return zf_err_in(err, "%s", m->path);
    }
    from = (struct zf_from){.src = v->src, .off = v->off};
    return zf_draft_flat(d, span[0], span[1], from, err);
}

static bool lose_slice(struct zf_ds *ds, uint32_t r, struct zf_draft *d, const uint64_t span[2],
                       struct zf_err *err)
{
    char path[1024];

    (void)snprintf(path, sizeof path, "%s/zero_pp_rank_%u_mp_rank_%02u_model_states.pt",
                   zf_store_name(ds->st), r, ds->dir.model[0].mp);
    return zf_draft_lost_flat(d, span[0], span[1],
                              &(struct zf_lost){.file = path, .why = "is missing"}, err);
}

static bool join_rank(struct zf_ds *ds, const struct zf_ds_model *m, uint32_t r, struct zf_err *err)
{
    const struct zf_ds_shapes *frozen = &ds->model.frozen;

    for (uint32_t i = 0; i < frozen->n; i++) {
        const struct zf_ds_param *p = &frozen->param[i];
        struct zf_draft *d = zf_build_find(ds->b, ds_spot("", p->name));
        uint64_t slot = slot_of(p->n, ds->n_ranks), first, left;

        if (!d || !zf_mul(slot, r, &first) || first >= p->n) {
            continue;
        }
        left = p->n - first;
        uint64_t span[2] = {first, left < slot ? left : slot};
        if (!m && !lose_slice(ds, r, d, span, err)) {
            return false;
        }
        if (m && !join_slice(ds, m, i, d, span, err)) {
            return false;
        }
    }
    return true;
}

static const struct zf_ds_file *model_file(const struct zf_ds *ds, uint32_t r)
{
    for (uint32_t i = 0; i < ds->dir.n_model; i++) {
        if (ds->dir.model[i].dp == r) {
            return &ds->dir.model[i];
        }
    }
    return NULL;
}

bool zf_ds_zero3_frozen(struct zf_ds *ds, struct zf_err *err)
{
    const struct zf_ds_shapes *frozen = &ds->model.frozen;

    if (frozen->n == 0) {
        return zf_ds_agree_models(ds, err);
    }
    for (uint32_t i = 0; i < frozen->n; i++) {
        const struct zf_ds_param *p = &frozen->param[i];
        const struct zf_tensor_ref *v = find_fragment(&ds->model, i, p->name);

        if (!v) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "the frozen parameter \"%.*s\" has a shape but no slice in \"%s\"",
                           (int)p->name.n, p->name.p, ds->model.path);
        }
        if (!zf_build_tensor(ds->b, ds_spot("", p->name),
                             (struct zf_type){v->dtype, p->ndim, p->shape}, err)) {
            return false;
        }
    }
    for (uint32_t r = 0; r < ds->n_ranks; r++) {
        const struct zf_ds_file *f = model_file(ds, r);
        struct zf_ds_model m = ds->model;

        if (!f && !zf_build_degraded(ds->b)) {
            char name[80], is[ZF_ABSENT_MAX];

            (void)snprintf(name, sizeof name, "zero_pp_rank_%u_mp_rank_%02u_model_states.pt", r,
                           ds->dir.model[0].mp);
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "%s %s: it holds slices of %u frozen parameters", name,
                           zf_absent(ds->st, name, is), frozen->n);
        }
        if (f && f != ds->dir.model &&
            (!zf_ds_model_read(ds, f, &m, err) || !zf_ds_agree_check(ds, true, err))) {
            return false;
        }
        if (!join_rank(ds, f ? &m : NULL, r, err)) {
            return false;
        }
    }
    return true;
}

/* ---- weights that were gathered into a file beside the tag ---- */

/* A parameter, and where its slots begin in the vectors of its group. */
struct slots {
    const struct zf_ds_param *p;
    uint32_t g;
    uint64_t at;
};

static bool round_span(const struct zf_ds *ds, const struct slots *s, struct zf_span span,
                       const struct zf_tensor_ref *w, struct zf_mismatch *miss, struct zf_err *err)
{
    uint64_t slot = slot_of(s->p->n, ds->n_ranks), end = span.first + span.n, n;

    for (uint64_t x = span.first; x < end && !miss->found; x += n) {
        const struct zf_ds_rank *rank = &ds->rank[x / slot];
        const struct zf_ds_flat *f = rank->lost ? NULL : &rank->part[s->g].master;
        struct zf_values weight = {w->src, w->off + x * zf_dtype_info(w->dtype)->bytes, w->dtype};

        n = slot - x % slot < end - x ? slot - x % slot : end - x;
        if (!f || !zf_values_can_round(f->dtype, w->dtype) ||
            !zf_within((s->at + x % slot), n, f->n)) {
            continue;
        }
        struct zf_values master = {
            f->src, f->off + (s->at + x % slot) * zf_dtype_info(f->dtype)->bytes, f->dtype};
        if (!zf_values_round(master, weight, n, miss, err)) {
            return false;
        }
    }
    return true;
}

bool zf_ds_zero3_rounds(struct zf_ds *ds, const struct zf_ds_model *m, struct zf_ds_name *bad,
                        struct zf_err *err)
{
    uint64_t params = 0, elements = 0;
    struct zf_span span;

    for (uint32_t i = 0; i < m->n_entries; i++) {
        params += m->entry[i].tensor;
        elements += m->entry[i].view.n < UINT32_MAX ? m->entry[i].view.n : UINT32_MAX;
    }
    const struct zf_sample sample = zf_sample_of(elements, params);
    bad->p = NULL;
    for (uint32_t g = 0; ds->rank && g < ds->n_groups; g++) {
        struct slots s = {.g = g};

        for (uint32_t i = 0; i < ds->group[g].n; i++) {
            s.p = &ds->group[g].param[i];
            const struct zf_ds_entry *e = zf_ds_model_find(m, s.p->name);
            struct zf_mismatch miss = {.found = false};

            for (uint32_t k = 0; e && e->view.packed && e->view.src && !miss.found &&
                                 i % sample.every == 0 && zf_sample_span(&sample, s.p->n, k, &span);
                 k++) {
                if (!round_span(ds, &s, span, &e->view, &miss, err)) {
                    return false;
                }
            }
            if (miss.found) {
                *bad = s.p->name;
                return true;
            }
            s.at += slot_of(s.p->n, ds->n_ranks);
        }
    }
    return true;
}
