/* SPDX-License-Identifier: Apache-2.0 */
/* The mixed-precision optimizer saves lists of fp32 masters, and states by number, without names.
 * Master i of group g belongs to param_groups[g].params[i]; each group is a subsequence of the model's
 * order, and a master rounds to its parameter, which proves the parameter it belongs to.
 * Source: megatron/core/optimizer/optimizer.py (Float16OptimizerWithFloat16Params.state_dict,
 * ChainedOptimizer.state_dict), 0.4 … 0.19; megatron/optimizer/optimizer.py before. */
#include "save.h"

#include <stdio.h>
#include <string.h>

#include <zf/assemble/assign.h>
#include <zf/assemble/degraded.h>
#include <zf/assemble/values.h>
#include <zf/base/hash.h>
#include <zf/base/table.h>

#define OPTIM_ASKED (1ull << 21) /* the most comparisons: some seconds */

/* A master in the file. */
struct optim_master {
    uint32_t optimizer, group, i; /* position in the file */
    struct zf_tensor_ref ref;
    bool has_id;
    uint64_t id; /* in the state of its optimizer */
    enum legacy_attr attr;
    uint32_t attr_dim, attr_stride;
};

/* The parameter that an entry of a state belongs to. */
struct optim_owned {
    UT_hash_handle hh; /* key: a hash of optimizer and id */
    uint32_t tensor;
    bool twice; /* two masters claim it */
};

struct optim_reading {
    struct legacy_save *ls;
    struct legacy_rank *r;
    struct zf_torch *t;
    zf_vec(struct optim_master) master;
    zf_vec(struct zf_assign_group) group; /* first: in master */
    struct optim_owned *by_id;            /* uthash */
    struct zf_sample sample;
};

/* ---- values ---- */

/* Value i of an entry. */
static bool optim_value(struct optim_reading *x, const struct zf_pv *entry, uint64_t at,
                        struct legacy_value *out, bool *yes, struct zf_err *err)
{
    const struct zf_pv *key = zf_pv_key(entry, at), *v = zf_pv_val(entry, at);
    struct legacy_save *ls = x->ls;
    struct zf_torch *t = x->t;
    const char *path = x->r->file->path;
    uint64_t n;
    const char *text = zf_pv_kind(key) == ZF_PV_STR ? zf_pv_text(key, &n) : NULL;
    struct zf_number number;

    *out = (struct legacy_value){.dtype = ZF_DT_I64};
    *yes = false;
    if (!text || strlen(text) != n)
        return true;
    if (zf_pv_is_number(v) && zf_number_of(v, &number)) {
        out->number = true;
        out->dtype = number.dtype;
        out->bits = number.bits;
    } else if (zf_tensor_ref_odd(t, v, err)) {
        return zf_leave_out_state(ls->b, path, text, err);
    } else if (zf_torch_kind(t, v) != ZF_TORCH_DENSE) {
        return true;
    } else if (!zf_tensor_ref_read(&ls->keep, t, v, &out->ref, err)) {
        return zf_err_in(err, "!optimizer.state[…].%.60s", text);
    }
    *yes = true;
    out->key = zf_arena_str(ls->a, text, n, err);
    return out->key != NULL;
}

static bool optim_unowned(struct legacy_save *ls, const char *name,
                          const struct legacy_value *value, struct zf_err *err)
{
    struct legacy_unowned *u = name ? zf_vec_push(&ls->unowned, err) : NULL;

    if (!u)
        return false;
    *u = (struct legacy_unowned){name, *value};
    return true;
}

bool legacy_give(struct legacy_save *ls, uint32_t part, const struct legacy_value *value,
                 struct zf_err *err)
{
    struct legacy_value *to = zf_arena_get(ls->a, 1, sizeof *to, err);
    struct legacy_value *last = &ls->part.at[part].weight;

    if (!to)
        return false;
    while (last->next)
        last = last->next;
    *to = *value;
    to->next = NULL;
    last->next = to;
    return true;
}

/* ---- reading ---- */

/* Reads the master's attributes, if it carries any: the tensor was pickled with its __dict__.
 * Source: torch/_tensor.py (_rebuild_from_type_v2), 1.11 … 2.13. */
static bool optim_read_attr(const struct zf_pv *v, struct optim_master *m)
{
    const struct zf_pv *state = zf_pv_is(v, NULL, "_rebuild_from_type_v2") ? zf_pv_arg(v, 3) : NULL;
    uint64_t dim, stride;
    bool parallel = false;

    if (zf_pv_kind(state) == ZF_PV_TUPLE)
        state = zf_pv_item(state, 0);
    if (!zf_pv_bool(zf_pv_get(state, "tensor_model_parallel"), &parallel))
        return false;
    m->attr = LEGACY_ATTR_WHOLE;
    if (parallel && zf_pv_u64(zf_pv_get(state, "partition_dim"), &dim) && dim < 2) {
        m->attr = LEGACY_ATTR_CUT;
        m->attr_dim = (uint32_t)dim;
        m->attr_stride = zf_pv_u64(zf_pv_get(state, "partition_stride"), &stride) && stride < 16
                             ? (uint32_t)stride
                             : 1;
    }
    return true;
}

static bool optim_read_group(struct optim_reading *x, uint32_t k, uint64_t g,
                             const struct zf_pv *list, const struct zf_pv *ids, bool *attrs,
                             struct zf_err *err)
{
    struct zf_assign_group *group = zf_vec_push(&x->group, err);
    uint64_t n = zf_pv_len(list);

    if (!group)
        return false;
    group->first = (uint32_t)x->master.n;
    if (n > x->r->n_parts) {
        return zf_fail(
            err, ZF_E_FORMAT, ZF_OFF_NONE,
            "fp32_from_fp16_params[%llu] has %llu masters, but the model only %u tensors",
            (unsigned long long)g, (unsigned long long)n, x->r->n_parts);
    }
    group->n = (uint32_t)n;
    group->to = zf_arena_get(x->ls->a, n, sizeof *group->to, err);
    for (uint64_t i = 0; group->to && i < n; i++) {
        struct optim_master *m = zf_vec_push(&x->master, err);

        if (!m)
            return false;
        m->optimizer = k;
        m->group = (uint32_t)g;
        m->i = (uint32_t)i;
        m->has_id = zf_pv_len(ids) == n && zf_pv_u64(zf_pv_item(ids, i), &m->id);
        *attrs = optim_read_attr(zf_pv_item(list, i), m) || *attrs;
        if (!zf_tensor_ref_read(&x->ls->keep, x->t, zf_pv_item(list, i), &m->ref, err)) {
            return zf_err_in(err, "!optimizer.fp32_from_fp16_params[%llu][%llu]",
                             (unsigned long long)g, (unsigned long long)i);
        }
    }
    return group->to != NULL;
}

/* Optimizer k of a file, which has one, or a list of chained ones. */
static const struct zf_pv *optim_get(const struct zf_pv *v, uint64_t k)
{
    return zf_pv_is_map(v) ? (k == 0 ? v : NULL) : zf_pv_is_seq(v) ? zf_pv_item(v, k) : NULL;
}

/* The state dict of torch's optimizer inside. */
static const struct zf_pv *optim_inner(const struct zf_pv *o)
{
    const struct zf_pv *inner = zf_pv_get(o, "optimizer");

    return zf_pv_is_map(inner) ? inner : o;
}

static bool optim_read_masters(struct optim_reading *x, const struct zf_pv *v, struct zf_err *err)
{
    bool attrs = false;

    for (uint64_t k = 0; optim_get(v, k); k++) {
        const struct zf_pv *o = optim_get(v, k);
        const struct zf_pv *lists = zf_pv_get(o, "fp32_from_fp16_params");
        const struct zf_pv *groups = zf_pv_get(optim_inner(o), "param_groups");

        for (uint64_t g = 0; zf_pv_is_seq(lists) && g < zf_pv_len(lists); g++) {
            const struct zf_pv *ids = zf_pv_len(groups) == zf_pv_len(lists)
                                          ? zf_pv_get(zf_pv_item(groups, g), "params")
                                          : NULL;

            if (!optim_read_group(x, (uint32_t)k, g, zf_pv_item(lists, g), ids, &attrs, err))
                return false;
        }
    }
    /* If some masters have attributes, those without are not sharded. */
    for (size_t i = 0; attrs && i < x->master.n; i++) {
        struct optim_master *m = &x->master.at[i];

        m->attr = m->attr == LEGACY_ATTR_UNSAID ? LEGACY_ATTR_WHOLE : m->attr;
    }
    return true;
}

/* ---- proving ---- */

static bool optim_is_weight(const struct zf_tensor_ref *r)
{
    return r->packed && r->src && r->n > 0 && zf_dtype_info(r->dtype)->kind == 'f' &&
           r->dtype != ZF_DT_F32 && r->dtype != ZF_DT_F64;
}

static bool optim_fit(void *ctx, uint32_t group, uint32_t item, uint32_t candidate, bool *yes,
                      struct zf_err *err)
{
    struct optim_reading *x = ctx;
    const struct zf_tensor_ref *m = &x->master.at[x->group.at[group].first + item].ref;
    const struct zf_tensor_ref *w = &x->ls->part.at[x->r->first_part + candidate].weight.ref;
    struct zf_mismatch miss = {.found = false};

    *yes = zf_shape_equal(w->ndim, w->shape, m->ndim, m->shape) && m->packed &&
           zf_values_can_round(m->dtype, w->dtype);
    if (*yes && !zf_values_round_each((struct zf_values){m->src, m->off, m->dtype},
                                      (struct zf_values){w->src, w->off, w->dtype}, w->n,
                                      &x->sample, &miss, err))
        return false;
    *yes = *yes && !miss.found;
    return true;
}

/* *why (in the arena): the reason why the masters have no names. */
static bool optim_explain(struct optim_reading *x, const struct zf_assign *a, struct zf_err *err)
{
    const struct optim_master *m = &x->master.at[x->group.at[a->open.group].first + a->open.item];
    const struct legacy_part *part = x->ls->part.at + x->r->first_part;

    x->r->unproven =
        a->open.none
            ? zf_arena_fmt(x->ls->a, err,
                           "%s: fp32_from_fp16_params[%u][%u] does not round to any weight of its "
                           "shape that is left in the model's order",
                           x->r->file->path, m->group, m->i)
            : zf_arena_fmt(x->ls->a, err,
                           "%s: fp32_from_fp16_params[%u][%u] fits \"%.80s\" as well as \"%.80s\"",
                           x->r->file->path, m->group, m->i, part[a->open.two[0]].name,
                           part[a->open.two[1]].name);
    return x->r->unproven != NULL;
}

static bool optim_prove(struct optim_reading *x, struct zf_err *err)
{
    struct legacy_rank *r = x->r;
    struct zf_assign a = {.n_candidates = r->n_parts,
                          .group = x->group.at,
                          .n_groups = (uint32_t)x->group.n,
                          .fit = optim_fit,
                          .ctx = x,
                          .most = OPTIM_ASKED};
    uint64_t elements = 0;
    bool proven;

    a.used = zf_arena_get(x->ls->a, r->n_parts, sizeof *a.used, err);
    if (!a.used)
        return false;
    for (uint32_t i = 0; i < r->n_parts; i++) {
        const struct zf_tensor_ref *w = &x->ls->part.at[r->first_part + i].weight.ref;

        a.used[i] = !optim_is_weight(w);
        elements += w->n < UINT32_MAX ? w->n : UINT32_MAX;
    }
    x->sample = zf_sample_of(elements, r->n_parts);
    if (!zf_assign_prove(&a, &proven, err))
        return false;
    return proven || optim_explain(x, &a, err);
}

/* ---- giving ---- */

/* The prefix "1." for the numbers of optimizer 1, if there are several. */
static const char *optim_prefix(bool chained, uint32_t k, char room[16])
{
    room[0] = '\0';
    if (chained)
        (void)snprintf(room, 16, "%u.", k);
    return room;
}

static bool optim_hash(uint32_t optimizer, uint64_t id, uint64_t *out)
{
    *out = zf_hash_number((uint64_t)optimizer << 40 | id);
    return optimizer < 1u << 20 && id < 1ull << 40;
}

static bool optim_enter(struct optim_reading *x, const struct optim_master *m, uint32_t tensor,
                        struct zf_err *err)
{
    struct optim_owned *owned;
    uint64_t hash;

    if (!m->has_id || !optim_hash(m->optimizer, m->id, &hash))
        return true;
    owned = zf_table_make_id(x->by_id, hash, err);
    if (!owned)
        return false;
    owned->twice = owned->tensor != 0;
    owned->tensor = tensor + 1;
    return true;
}

/* The part that a state belongs to, by the number in the file; UINT32_MAX: unknown. */
static uint32_t optim_owner(const struct optim_reading *x, uint32_t optimizer, uint64_t id)
{
    const struct optim_owned *owned;
    uint64_t hash;

    owned = optim_hash(optimizer, id, &hash) ? zf_table_find_id(x->by_id, hash) : NULL;
    return owned && !owned->twice ? owned->tensor - 1 : UINT32_MAX;
}

/* Does the value have one element per element of the parameter, or one for all? */
static bool optim_suits(const struct legacy_value *v, const struct zf_tensor_ref *w)
{
    return v->number || v->ref.ndim == 0 ||
           zf_shape_equal(v->ref.ndim, v->ref.shape, w->ndim, w->shape);
}

/* Is this key reserved for the weight or its master, and not a state's? */
static bool optim_is_taken(const char *key)
{
    return strcmp(key, LEGACY_WEIGHT) == 0 || strcmp(key, LEGACY_MASTER) == 0;
}

static bool optim_give_value(struct optim_reading *x, uint32_t owner, const char *number,
                             const struct legacy_value *value, struct zf_err *err)
{
    const struct legacy_part *p = owner != UINT32_MAX ? &x->ls->part.at[owner] : NULL;

    if (!p || optim_is_taken(value->key))
        return optim_unowned(x->ls, number, value, err);
    return optim_suits(value, &p->weight.ref) ? legacy_give(x->ls, owner, value, err)
                                              : optim_unowned(x->ls, p->name, value, err);
}

/* Adds all values of one entry of a state to their parameter, or to the unowned values. */
static bool optim_give_entry(struct optim_reading *x, bool chained, uint32_t k,
                             const struct zf_pv *key, const struct zf_pv *entry, struct zf_err *err)
{
    char room[16];
    uint64_t id;

    if (!zf_pv_is_map(entry) || !zf_pv_u64(key, &id))
        return true;
    const char *number = zf_arena_fmt(x->ls->a, err, "%s%llu", optim_prefix(chained, k, room),
                                      (unsigned long long)id);
    uint32_t owner = optim_owner(x, k, id);
    for (uint64_t i = 0; number && i < zf_pv_len(entry); i++) {
        struct legacy_value value;
        bool yes;

        if (!optim_value(x, entry, i, &value, &yes, err) ||
            (yes && !optim_give_value(x, owner, number, &value, err)))
            return false;
    }
    return number != NULL;
}

static bool optim_give_masters(struct optim_reading *x, bool chained, struct zf_err *err)
{
    for (size_t g = 0; g < x->group.n; g++) {
        for (uint32_t i = 0; i < x->group.at[g].n; i++) {
            const struct optim_master *m = &x->master.at[x->group.at[g].first + i];
            const struct legacy_value value = {.key = LEGACY_MASTER, .ref = m->ref};

            if (!x->r->unproven) {
                uint32_t at = x->r->first_part + x->group.at[g].to[i];
                struct legacy_part *p = &x->ls->part.at[at];

                p->attr = m->attr;
                p->attr_dim = m->attr_dim;
                p->attr_stride = m->attr_stride;
                if (!legacy_give(x->ls, at, &value, err) || !optim_enter(x, m, at, err))
                    return false;
                continue;
            }
            char room[16];
            const char *name =
                zf_arena_fmt(x->ls->a, err, "%s%u.%u", optim_prefix(chained, m->optimizer, room),
                             m->group, m->i);
            if (!optim_unowned(x->ls, name, &value, err))
                return false;
        }
    }
    return true;
}

static bool optim_give(struct optim_reading *x, const struct zf_pv *v, struct zf_err *err)
{
    bool chained = optim_get(v, 1) != NULL;

    if (!optim_give_masters(x, chained, err))
        return false;
    for (uint64_t k = 0; optim_get(v, k); k++) {
        const struct zf_pv *state = zf_pv_get(optim_inner(optim_get(v, k)), "state");

        for (uint64_t i = 0; zf_pv_is_map(state) && i < zf_pv_len(state); i++)
            if (!optim_give_entry(x, chained, (uint32_t)k, zf_pv_key(state, i), zf_pv_val(state, i),
                                  err))
                return false;
    }
    return true;
}

bool legacy_optim_read(struct legacy_save *ls, struct legacy_rank *r, struct zf_torch *t,
                       struct zf_err *err)
{
    struct optim_reading x = {.ls = ls, .r = r, .t = t};
    const struct zf_pv *v = zf_pv_get(zf_torch_root(t), "optimizer");

    r->optim = zf_pv_is_map(v) && zf_pv_len(v) > 0;
    r->first_unowned = (uint32_t)ls->unowned.n;
    bool ok = optim_read_masters(&x, v, err) && (x.master.n == 0 || optim_prove(&x, err)) &&
              optim_give(&x, v, err);

    r->n_unowned = (uint32_t)ls->unowned.n - r->first_unowned;
    zf_vec_fini(&x.master);
    zf_vec_fini(&x.group);
    zf_table_free(x.by_id);
    return ok;
}
