/* SPDX-License-Identifier: Apache-2.0 */
/* Saves without ZeRO: the model-states file holds the optimizer, whose fp32 masters have no names.
 * Their names are proved by the weights (zf/assemble/prove.h).  A master that rounds to no weight is
 * refused: serving the 16-bit weights instead would hide damage.  If masters are too similar to
 * be told apart, the 16-bit weights are served, and a note says why. Source:
 * deepspeed/runtime/fp16/fused_optimizer.py, unfused_optimizer.py, 0.18.9 and 0.19.8. */
#include "zero0.h"

/* Masters of all groups. */
struct zero0 {
    struct ds_zero0 *q;
    struct zf_take optim;
    bool flat; /* one flat buffer per group; else a list of masters per group */
    struct zf_prove prove;
    /* per group: its flat buffer, or each of its masters */
    struct zf_tensor_ref **view; /* [n_vectors][parts] */
    const struct zf_pv ***state; /* [n_vectors][parts] mapping of its states, or NULL */
};

/* ---- the optimizer's masters ---- */

static bool zero0_is_weight(const struct ds_model *m, uint32_t i)
{
    const struct ds_entry *e = &m->entry[i];

    return !ds_name_listed(m->buffer, m->n_buffers, e->name) && e->tensor && e->view.packed &&
           e->view.src && e->view.n > 0 && !ds_is_tie(m, i) &&
           zf_dtype_info(e->view.dtype)->kind == 'f';
}

/* Marks the weights of `module`; *sample: how much of each is compared. */
static bool zero0_init(struct ds_zero0 *q, struct zf_sample *sample, struct zf_err *err)
{
    const struct ds_model *m = &q->mp->model;
    uint64_t elements = 0, n = 0;

    q->weight = zf_arena_get(q->mp->save->a, m->n_entries, sizeof *q->weight, err);
    if (!q->weight || !ds_ties_mark(q->mp, &q->mp->model, err))
        return false;
    for (uint32_t i = 0; i < m->n_entries; i++) {
        if (zero0_is_weight(m, i)) {
            q->weight[i].view = &m->entry[i].view;
            elements += m->entry[i].view.n < UINT32_MAX ? m->entry[i].view.n : UINT32_MAX;
            n++;
        }
    }
    *sample = zf_sample_of(elements, n);
    return true;
}

static void zero0_take_view(struct zero0 *z, const struct zf_take *x, struct zf_tensor_ref *out)
{
    (void)(zf_take_tensor(x, &z->q->mp->save->keep, z->q->states.torch, out) &&
           zf_take_must(x, out->packed, "it is not packed") &&
           zf_take_must(x, !z->flat || out->ndim == 1, "it has %u dimensions, expected a vector",
                        out->ndim));
}

/* Takes fp32_groups_flat[g], one flat buffer without padding, or fp32_groups[g], masters in their own
 * shapes (empty ones are skipped).  ids, state: "params" and "state" of torch's state dict. */
static void zero0_take_group(struct zero0 *z, const struct zf_take *x, uint32_t g,
                             const struct zf_pv *ids, const struct zf_pv *state)
{
    const struct ds_model *m = &z->q->mp->model;
    uint64_t n = z->flat ? 1 : zf_take_list(x), id;

    (void)zf_take_must(x, n <= m->n_entries || z->flat,
                       "it has %llu masters, but \"module\" only %u names", (unsigned long long)n,
                       m->n_entries);
    struct zf_tensor_ref *view = zf_take_room(x->t, n, sizeof *view);
    struct zf_values *part = zf_take_room(x->t, n, sizeof *part);
    uint64_t *begin = zf_take_room(x->t, n + 1, sizeof *begin);
    uint32_t k = 0;

    z->view[g] = view;
    z->state[g] = zf_take_room(x->t, n, sizeof **z->state);
    for (uint64_t i = 0; i < n && !x->t->failed; i++) {
        const struct zf_take item = zf_take_item(x, i);

        zero0_take_view(z, z->flat ? x : &item, &view[k]);
        if (x->t->failed || view[k].n == 0)
            continue;
        part[k] = (struct zf_values){view[k].src, view[k].off, view[k].dtype};
        begin[k + 1] = begin[k] + view[k].n;
        z->state[g][k] = z->flat                              ? zf_pv_get_id(state, g)
                         : zf_pv_u64(zf_pv_item(ids, i), &id) ? zf_pv_get_id(state, id)
                                                              : NULL;
        k++;
    }
    z->prove.vector[g] = (struct zf_prove_vector){
        .part = part, .begin = begin, .n_parts = k, .own = z->flat ? NULL : view};
}

static void zero0_take_all(struct zero0 *z)
{
    const struct zf_take flat = zf_take_key(&z->optim, "fp32_groups_flat");
    const struct zf_take lists = zf_take_key(&z->optim, "fp32_groups");
    const struct zf_pv *inner = zf_pv_get(z->optim.v, "optimizer_state_dict");
    const struct zf_pv *state = zf_pv_get(inner, "state"),
                       *groups = zf_pv_get(inner, "param_groups");
    struct zf_taker *t = z->optim.t;

    z->flat = zf_pv_len(flat.v) > 0;
    (void)zf_take_must(&z->optim, !z->flat || zf_pv_len(lists.v) == 0,
                       "the optimizer has fp32_groups_flat and fp32_groups, expected one of them");
    const struct zf_take *all = z->flat ? &flat : &lists;
    uint64_t n = zf_take_list(all);
    (void)zf_take_most(all, n, z->q->mp->save->o->lim->tensors, ZF_LIMIT_tensors);
    z->prove.n_vectors = (uint32_t)n;
    z->prove.vector = zf_take_room(t, n, sizeof *z->prove.vector);
    z->view = zf_take_room(t, n, sizeof *z->view);
    z->state = zf_take_room(t, n, sizeof *z->state);
    for (uint32_t g = 0; g < n && !t->failed; g++) {
        const struct zf_take one = zf_take_item(all, g);

        zero0_take_group(z, &one, g, zf_pv_get(zf_pv_item(groups, g), "params"), state);
    }
}

/* ---- the result of the proof ---- */

static struct ds_name zero0_name(const struct zero0 *z, uint32_t i)
{
    return z->q->mp->model.entry[i].name;
}

/* Notes that the masters are valid, but their parameters cannot be determined. */
static bool zero0_note_ambiguous(const struct zero0 *z, struct zf_err *err)
{
    struct ds_name a = zero0_name(z, z->prove.why.two[0]), b = zero0_name(z, z->prove.why.two[1]);

    z->q->mp->weights_only = true;
    return zf_build_note_on(z->q->mp->save->b, ZF_NOTE_LEFT_OUT, z->q->mp->model.path, err,
                            "the fp32 masters and the optimizer states are left out, and the "
                            "16-bit weights are shown: a master of group %u fits \"%.*s\" as well "
                            "as \"%.*s\", so the names of the masters are uncertain",
                            z->prove.why.vector, ds_name_shown(a), a.p, ds_name_shown(b), b.p);
}

/* Fails because masters round to no weight. */
static bool zero0_refuse(const struct zero0 *z, struct zf_err *err)
{
    uint32_t near = z->prove.why.near.weight, g = z->prove.why.vector, part = z->prove.why.part;
    const struct zf_mismatch *miss = &z->prove.why.near.miss;

    if (near != ZF_PROVE_NOBODY) {
        struct ds_name name = zero0_name(z, near);

        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "element %llu of the master of \"%.*s\" is %.9g, which does not round to "
                       "its weight %.9g in \"module\"",
                       (unsigned long long)miss->at, ds_name_shown(name), name.p, miss->master,
                       miss->weight);
    }
    if (z->flat) {
        return zf_fail(
            err, ZF_E_FORMAT, ZF_OFF_NONE,
            "the masters of group %u round to no weight in \"module\" from element %llu on", g,
            (unsigned long long)z->prove.why.at);
    }
    return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "master %u of group %u has %llu elements in %u dimensions, but \"module\" has "
                   "no further parameter of that shape",
                   part, g, (unsigned long long)z->view[g][part].n, z->view[g][part].ndim);
}

/* ---- drafting ---- */

static bool zero0_draft_piece(struct zero0 *z, uint32_t g, uint32_t k, struct zf_err *err)
{
    const struct zf_prove_piece *piece = &z->prove.piece.at[z->prove.vector[g].first + k];
    const struct zf_tensor_ref *whole = &z->view[g][z->flat ? 0 : k];
    const struct zf_tensor_ref *like = &z->q->mp->model.entry[piece->to].view;
    struct ds_stretch part = {like, z->flat ? piece->at : 0, z->flat ? whole->n : 0};
    struct ds_name name = zero0_name(z, piece->to);
    struct zf_tensor_ref master = *whole;

    if (z->flat) {
        master.off += piece->at * zf_dtype_info(master.dtype)->bytes;
        master.n = like->n;
        master.ndim = like->ndim;
        master.shape = like->shape;
    }
    z->q->mp->own[z->q->mp->n_own++] = name;
    return zf_tensor_ref_draft(z->q->mp->save->b, ds_spot("", name), &master, NULL, err) &&
           ds_states_draft(&z->q->states, name, z->state[g][z->flat ? 0 : k], &part, err);
}

static bool zero0_draft(struct zero0 *z, struct zf_err *err)
{
    struct ds_rank *mp = z->q->mp;

    mp->own = zf_arena_get(mp->save->a, mp->model.n_entries, sizeof *mp->own, err);
    for (uint32_t g = 0; mp->own && g < z->prove.n_vectors; g++) {
        for (uint32_t k = 0; k < z->prove.vector[g].n; k++)
            if (!zero0_draft_piece(z, g, k, err))
                return false;
    }
    return mp->own &&
           (ds_overlap_check(&z->q->states.overlap, err) || zf_err_in(err, "%s", mp->model.path));
}

/* Reads the masters and proves their names.  *proven false: they are too similar to be told apart. */
static bool zero0_prove(struct zero0 *z, bool *proven, struct zf_err *err)
{
    z->prove.weight = z->q->weight;
    z->prove.n_weights = z->q->mp->model.n_entries;
    z->prove.any_order = true;
    zero0_take_all(z);
    return zf_take_ok(z->optim.t, err) && zf_prove_by_storage(&z->prove, proven, err) &&
           (*proven || zf_prove_by_value(&z->prove, proven, err)) &&
           (*proven || z->prove.why.kind == ZF_PROVE_TWO || zero0_refuse(z, err));
}

static bool zero0_masters(struct zero0 *z, struct zf_err *err)
{
    bool proven;

    if (!zero0_prove(z, &proven, err))
        return rank_drop_masters(z->q->mp, err);
    return proven ? zero0_draft(z, err) : zero0_note_ambiguous(z, err);
}

static bool zero0_read(struct ds_zero0 *q, struct zf_err *err)
{
    struct zf_taker taker = {.arena = q->mp->save->a};
    const struct zf_take root = zf_take_root(&taker, zf_torch_root(q->states.torch));
    struct zero0 z = {.q = q, .optim = zf_take_key(&root, "optimizer")};

    if (!zero0_init(q, &z.prove.sample, err))
        return false;
    if (q->mp->model.moe) {
        q->mp->weights_only = q->mp->numbered =
            true; /* numbered.c reads the optimizers of experts */
        return true;
    }
    if (zf_pv_len(zf_pv_get(z.optim.v, "fp32_groups_flat")) == 0 &&
        zf_pv_len(zf_pv_get(z.optim.v, "fp32_groups")) == 0) {
        q->mp->weights_only = true;
        return ds_zero0_bare(q, z.optim.v, err);
    }
    bool ok = zero0_masters(&z, err);
    zf_auto_prove(&z.prove);
    return ok;
}

bool ds_zero0_draft(struct ds_rank *mp, struct zf_err *err)
{
    zf_auto(source) struct zf_source *src = zf_store_open(mp->save->st, mp->model.path, err);
    zf_auto(torch) struct zf_torch *t = src ? zf_torch_open(src, mp->save->o->lim, err) : NULL;
    struct ds_zero0 q = {.mp = mp, .states = {.ds = mp->save, .torch = t, .path = mp->model.path}};

    bool ok = t && zero0_read(&q, err);
    zf_auto_states(&q.states);
    return ok;
}
