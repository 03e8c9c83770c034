/* SPDX-License-Identifier: Apache-2.0 */
/* The order of the parameters in a group's flat buffer.  param_shapes records one, but DeepSpeed 0.4.0
 * assigned the parameters round-robin to the ranks (all with i mod ranks = 0, then = 1 …) and recorded
 * the order before that; so did later releases with round_robin_gradients, until 0.6.  The lengths are
 * equal in both cases, so the order is proved: in the right one every master rounds to the weight of
 * that name in `module`.  Source: deepspeed/runtime/zero/stage2.py
 * (_round_robin_reorder), 0.4.0 … 0.5.10. */
#include "vectors.h"

struct order_proof {
    uint64_t compared; /* number of parameters compared */
    /* the first master that does not round to its weight */
    struct zf_mismatch miss;
    struct ds_name name;
    const char *file;
};

/* Lists the comparisons of parameter i with its weights in `module`. */
static bool order_list_param(struct ds_rank *mp, const struct vector_weight *at, uint32_t every,
                             uint64_t *compared, struct zf_roundings *out, struct zf_err *err)
{
    const struct ds_param *p = &at->group->param[at->i];
    uint64_t parts = p->whole ? p->shape[0] : 1;

    for (uint64_t l = 0; l < parts; l++) {
        const struct ds_entry *e = ds_experts_weight(mp, p, l);
        struct vector_weight w = *at;

        if (!e || !e->tensor || !e->view.src || e->view.n != p->n / parts ||
            zf_dtype_info(e->view.dtype)->kind != 'f')
            continue;
        w.weight = &e->view;
        w.first = l * (p->n / parts);
        ++*compared;
        if (!vector_list(&w, e->view.n, every, out, err))
            return false;
    }
    return true;
}

/* How much of the masters to compare, given their elements and a bound of the number of their pieces on
 * the data-parallel ranks of all model-parallel ranks. */
static struct zf_sample order_sample(const struct ds_rank *mp, const struct ds_group *group)
{
    uint64_t elements = 0, pieces = 0;

    for (uint32_t g = 0; g < mp->n_groups; g++) {
        pieces += group[g].n + group[g].n_ranks;
        for (uint32_t i = 0; i < group[g].n; i++)
            elements += group[g].len[i] < UINT32_MAX ? group[g].len[i] : UINT32_MAX;
    }
    return zf_sample_of(elements, pieces * mp->save->dir.n_mp);
}

static bool order_list_group(struct ds_rank *mp, const struct ds_group *group, uint32_t every,
                             uint64_t *compared, struct zf_roundings *out, struct zf_err *err)
{
    struct zf_flat_vector flat;

    if (!zero12_lay(mp->save, group, &flat, err))
        return false;
    for (uint32_t i = 0; i < group->n; i++) {
        const struct vector_weight at = {.group = group, .flat = &flat, .i = i};

        if (!order_list_param(mp, &at, every, compared, out, err))
            return false;
    }
    return true;
}

/* Tries one order of all groups. */
static bool order_try(struct ds_rank *mp, const struct ds_group *group, struct order_proof *q,
                      struct zf_err *err)
{
    const struct zf_sample sample = order_sample(mp, group);
    const struct zf_rounding_opts o = {sample, zf_store_ahead(mp->save->st), mp->save->o->degraded};
    zf_auto(roundings) struct zf_roundings list = {0};
    const struct zf_rounding *bad;

    *q = (struct order_proof){0};
    for (uint32_t g = 0; g < mp->n_groups; g++)
        if (!order_list_group(mp, &group[g], sample.every, &q->compared, &list, err))
            return false;
    if (!zf_roundings_check(&list, o, &bad, &q->miss, err))
        return false;
    if (bad) {
        q->miss.at += bad->first;
        q->name = ((const struct ds_param *)bad->what)->name;
        q->file = bad->file;
    }
    return true;
}

/* True if the round-robin order differs from the declared one. */
static bool order_differs(const struct ds_rank *mp)
{
    bool other = false;

    for (uint32_t g = 0; g < mp->n_groups; g++) {
        /* sub-partitions (n_ranks > n_dp) are older than the round-robin order */
        other = other ||
                (mp->n_dp > 1 && mp->group[g].n_ranks == mp->n_dp && mp->group[g].n > mp->n_dp);
    }
    return other;
}

/* The groups with their parameters assigned round-robin to the ranks. */
static struct ds_group *order_deal(struct ds_rank *mp, struct zf_err *err)
{
    struct ds_group *out = zf_arena_get(mp->save->a, mp->n_groups, sizeof *out, err);

    for (uint32_t g = 0; out && g < mp->n_groups; g++) {
        const struct ds_group *in = &mp->group[g];
        uint32_t n = 0;

        out[g] = *in;
        out[g].param = zf_arena_get(mp->save->a, in->n, sizeof *out[g].param, err);
        out[g].len = zf_arena_get(mp->save->a, in->n, sizeof *out[g].len, err);
        if (!out[g].param || !out[g].len)
            return NULL;
        for (uint32_t r = 0; r < in->n_ranks && r < in->n; r++) {
            for (uint64_t i = r; i < in->n; i += in->n_ranks) {
                out[g].param[n] = in->param[i];
                out[g].len[n++] = in->len[i];
            }
        }
    }
    return out;
}

static bool order_refuse(const struct ds_rank *mp, const struct order_proof *q, struct zf_err *err)
{
    zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
            "the masters do not belong to these names: element %llu of \"%.*s\" is %.9g, which "
            "does not round to its weight %.9g in \"module\" of \"%s\"",
            (unsigned long long)q->miss.at, q->name.n < 100 ? (int)q->name.n : 100, q->name.p,
            q->miss.master, q->miss.weight, mp->model.path);
    return zf_err_in(err, "%s", q->file);
}

/* Fails: it cannot be proved which of the two orders is right. */
static bool order_unproven(const struct ds_rank *mp, const char *why, struct zf_err *err)
{
    zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "the order of the parameters is not proven: %s, and %s",
            mp->by_slices ? "with round_robin_gradients, param_slice_mappings have another order"
                          : "DeepSpeed before 0.6 may have assigned them round-robin to the ranks, "
                            "or recorded the order of the model",
            why);
    return zf_err_in(err, "%s", mp->model.path);
}

bool ds_order_prove(struct ds_rank *mp, struct zf_err *err)
{
    /* since 0.6 the recorded order is the real one */
    bool sure = mp->placed || mp->model.has_shapes || (mp->by_slices && !mp->model.round_robin);
    bool other = !mp->placed && order_differs(mp);
    struct order_proof declared, dealt;
    struct ds_group *in_turn;

    if (mp->model.zenflow)
        return true; /* ZenFlow: the weights in `module` lag behind the masters, or are scrambled */
    if (!order_try(mp, mp->group, &declared, err))
        return false;
    if (declared.compared == 0) {
        /* a single mapping for all groups may have the order of the model */
        return sure || (!other && !(mp->merged && mp->n_groups > 1))
                   ? zf_build_note(mp->save->b, err,
                                   "the recorded order of the parameters is used unproven: "
                                   "\"module\" has no weights to compare the masters with")
                   : order_unproven(mp, "\"module\" has no weights to compare with", err);
    }
    if (!declared.miss.found && (sure || !other))
        return true;
    if (!other)
        return order_refuse(mp, &declared, err);
    in_turn = order_deal(mp, err);
    if (!in_turn || !order_try(mp, in_turn, &dealt, err))
        return false;
    if (dealt.miss.found)
        return !declared.miss.found || order_refuse(mp, &declared, err);
    if (!declared.miss.found)
        return order_unproven(mp, "the weights fit both orders", err);
    mp->group = in_turn;
    return zf_build_note(
        mp->save->b, err,
        "the parameters were assigned round-robin to the ranks, which param_shapes does not "
        "record, so zero_to_fp32.py of that release gives weights wrong names; here the weights in "
        "\"module\" prove the right names");
}
