/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the parameters of masters and states without names.  Master i of group g is that of the id
 * param_groups[g].params[i], which is also the id in `state`.  Each group is a subsequence of the model's
 * order (that of the keys), and a master rounds to its weight: that proves its parameter, as in legacy saves.
 * Source: megatron/core/optimizer/optimizer.py (Float16OptimizerWithFloat16Params.state_dict,
 * ChainedOptimizer.state_dict), torch/optim/optimizer.py (state_dict), as torch_dcp of core 0.19
 * saves them. */
#include "steps.h"

#include <stdlib.h>
#include <string.h>

#include <zf/assemble/assign.h>
#include <zf/assemble/values.h>
#include <zf/base/hash.h>
#include <zf/base/table.h>

#define IDS_ASKED (1ull << 21) /* most comparisons: some seconds */

/* A master: item i of a group of one optimizer. */
struct ids_master {
    uint32_t chain;
    uint64_t group, i;
    uint32_t tensor; /* index in the list of tensors */
};

/* The parameter of an id. */
struct ids_owner {
    UT_hash_handle hh; /* key: hash of optimizer and id */
    uint32_t weight;   /* index + 1 */
};

struct ids {
    struct mg_save *s;
    zf_vec(struct ids_master) master;     /* sorted by optimizer, group and item */
    zf_vec(uint32_t) weight;              /* tensors that may have a master, in the model's order */
    zf_vec(struct zf_assign_group) group; /* first: in master */
    struct ids_owner *owner;              /* uthash */
    const char *why;                      /* why nothing is proved, or NULL */
};

static void zf_auto_ids(struct ids *x)
{
    zf_vec_fini(&x->master);
    zf_vec_fini(&x->weight);
    zf_vec_fini(&x->group);
    zf_table_free(x->owner);
}

static const struct mg_tensor *ids_tensor(const struct ids *x, uint32_t i)
{
    return &x->s->tensor.at[i];
}

static bool ids_is_master(const struct mg_tensor *t)
{
    return t->name.what == MG_STATE && mg_text_is(t->name.state, MG_FSDP_MASTERS);
}

/* Can the tensor be a weight that a master rounds to? */
static bool ids_is_weight(const struct mg_tensor *t)
{
    return t->name.what == MG_WEIGHT && zf_dtype_info(t->type.dtype)->kind == 'f' &&
           zf_dtype_info(t->type.dtype)->bytes < 4;
}

/* ---- masters and weights ------------------------------------------------------------------ */

/* Parses "<group>.<i>", such as "3.12". */
static bool ids_numbers(struct mg_text name, uint64_t *group, uint64_t *i)
{
    return mg_text_take_number(&name, group) && mg_text_take(&name, ".") && mg_text_number(name, i);
}

static int ids_by_place(const void *a, const void *b)
{
    const struct ids_master *x = a, *y = b;

    if (x->chain != y->chain)
        return x->chain < y->chain ? -1 : 1;
    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    return x->i < y->i ? -1 : x->i > y->i;
}

static bool ids_list(struct ids *x, struct zf_err *err)
{
    for (size_t i = 0; i < x->s->tensor.n; i++) {
        const struct mg_tensor *t = &x->s->tensor.at[i];
        struct ids_master *m = ids_is_master(t) ? zf_vec_push(&x->master, err) : NULL;
        uint32_t *w = ids_is_weight(t) ? zf_vec_push(&x->weight, err) : NULL;

        if ((ids_is_master(t) && !m) || (ids_is_weight(t) && !w))
            return false;
        if (w)
            *w = (uint32_t)i;
        if (m) {
            m->chain = t->name.chain;
            m->tensor = (uint32_t)i;
            x->why = ids_numbers(t->name.name, &m->group, &m->i)
                         ? x->why
                         : "the name of a master is not two numbers";
        }
    }
    if (x->master.n)
        qsort(x->master.at, x->master.n, sizeof *x->master.at, ids_by_place);
    return true;
}

static bool ids_find_groups(struct ids *x, struct zf_err *err)
{
    for (size_t i = 0; i < x->master.n; i++) {
        const struct ids_master *m = &x->master.at[i], *last = m - (i > 0);

        if (i == 0 || last->chain != m->chain || last->group != m->group) {
            struct zf_assign_group *group = zf_vec_push(&x->group, err);

            if (!group)
                return false;
            group->first = (uint32_t)i;
        }
        x->group.at[x->group.n - 1].n++;
        x->why = m->i == i - x->group.at[x->group.n - 1].first ? x->why
                                                               : "a master of a group is missing";
    }
    for (size_t g = 0; g < x->group.n; g++) {
        struct zf_assign_group *group = &x->group.at[g];

        group->to = zf_arena_get(x->s->arena, group->n, sizeof *group->to, err);
        if (!group->to)
            return false;
    }
    return true;
}

/* ---- parameters of masters ----------------------------------------------------------------- */

static bool ids_fit(void *ctx, uint32_t group, uint32_t item, uint32_t candidate, bool *yes,
                    struct zf_err *err)
{
    const struct ids *x = ctx;
    const struct mg_tensor *m = ids_tensor(x, x->master.at[x->group.at[group].first + item].tensor);
    const struct mg_tensor *w = ids_tensor(x, x->weight.at[candidate]);
    struct zf_mismatch miss;

    *yes = zf_shape_equal(m->type.ndim, m->type.shape, w->type.ndim, w->type.shape) &&
           zf_values_can_round(m->type.dtype, w->type.dtype);
    if (!*yes)
        return true;
    if (!zf_drafts_round(m->draft, w->draft, ZF_VALUES_ENDS, &miss, err))
        return false;
    *yes = !miss.found;
    return true;
}

/* Sets x->why, in the arena. */
static bool ids_explain(struct ids *x, const struct zf_assign *a, struct zf_err *err)
{
    const struct mg_tensor *m =
        ids_tensor(x, x->master.at[x->group.at[a->open.group].first + a->open.item].tensor);

    x->why = a->open.none ? zf_arena_fmt(x->s->arena, err,
                                         "\"%.120s\" does not round to any remaining weight of its "
                                         "shape, in the model's order",
                                         m->key)
                          : zf_arena_fmt(x->s->arena, err,
                                         "\"%.120s\" fits \"%.100s\" as well as \"%.100s\"", m->key,
                                         ids_tensor(x, x->weight.at[a->open.two[0]])->key,
                                         ids_tensor(x, x->weight.at[a->open.two[1]])->key);
    return x->why != NULL;
}

/* Turns a failure into the reason x->why: lost bytes (degraded), or more comparisons than the limit. */
static bool ids_forgive(struct ids *x, struct zf_err *err)
{
    const struct zf_err why = *err;
    char text[300];

    if (err->code != ZF_E_LIMIT && (!zf_build_degraded(x->s->b) || err->code == ZF_E_NOMEM))
        return false;
    (void)zf_err_text(err, text, sizeof text);
    zf_err_clear(err);
    x->why = zf_arena_str(x->s->arena, text, strlen(text), err);
    return x->why && zf_build_note_names(x->s->b, why.path, why.msg, err);
}

static bool ids_prove(struct ids *x, struct zf_err *err)
{
    struct zf_assign a = {.n_candidates = (uint32_t)x->weight.n,
                          .group = x->group.at,
                          .n_groups = (uint32_t)x->group.n,
                          .fit = ids_fit,
                          .ctx = x,
                          .most = IDS_ASKED};
    bool proven;

    a.used = zf_arena_get(x->s->arena, x->weight.n, sizeof *a.used, err);
    if (!a.used)
        return false;
    if (!zf_assign_prove(&a, &proven, err))
        return ids_forgive(x, err);
    return proven || ids_explain(x, &a, err);
}

/* ---- parameters of ids ---------------------------------------------------------------------- */

static bool ids_hash(uint32_t chain, uint64_t id, uint64_t *out)
{
    uint64_t optimizer = chain == MG_NO_CHAIN ? 0 : (uint64_t)chain + 1;

    *out = zf_hash_number(optimizer << 40 | id);
    return optimizer < 1u << 20 && id < 1ull << 40;
}

/* Enters the ids of a group's parameters. */
static bool ids_enter_list(struct ids *x, size_t g, const struct zf_pv *list, struct zf_err *err)
{
    const struct ids_master *m = &x->master.at[x->group.at[g].first];

    if (!zf_pv_is_seq(list) || zf_pv_len(list) != x->group.at[g].n) {
        x->why = "param_groups has a different number of parameters than there are masters";
        return true;
    }
    for (uint32_t i = 0; i < x->group.at[g].n; i++) {
        struct ids_owner *owner;
        uint64_t id, hash;

        if (!zf_pv_u64(zf_pv_item(list, i), &id) || !ids_hash(m->chain, id, &hash)) {
            x->why = "param_groups holds something that is not a number";
            return true;
        }
        owner = zf_table_make_id(x->owner, hash, err);
        if (!owner)
            return false;
        x->why = owner->weight ? "param_groups has the same number twice" : x->why;
        owner->weight = x->group.at[g].to[i] + 1;
    }
    return true;
}

/* "optimizer.optimizer.param_groups.0.params": next to the masters, or in the inner optimizer. */
static struct mg_object *ids_find_list(struct ids *x, const struct mg_tensor *m, uint64_t group,
                                       struct zf_err *err)
{
    struct mg_text c = m->name.container;

    for (int inner = 0; inner < 2; inner++) {
        char *key = zf_arena_fmt(x->s->arena, err, "%.*s%s.param_groups.%llu.params",
                                 (int)(c.n < 200 ? c.n : 200), c.p, inner ? ".optimizer" : "",
                                 (unsigned long long)group);
        struct mg_object *o = key ? mg_save_find_object(x->s, key, 0) : NULL;

        if (o || !key)
            return o;
    }
    x->why = "param_groups has no list of the group's numbers";
    return NULL;
}

static bool ids_number(struct ids *x, struct zf_err *err)
{
    for (size_t g = 0; g < x->group.n && !x->why; g++) {
        const struct ids_master *m = &x->master.at[x->group.at[g].first];
        struct mg_object *o = ids_find_list(x, ids_tensor(x, m->tensor), m->group, err);

        if (!o)
            return x->why != NULL;
        zf_auto(torch) struct zf_torch *t = zf_torch_open(o->src, x->s->lim, err);
        if (t ? !ids_enter_list(x, g, zf_torch_root(t), err) : !ids_forgive(x, err))
            return t ? false : zf_err_in(err, "%s", o->key);
    }
    return true;
}

/* ---- giving names --------------------------------------------------------------------------- */

/* The weight whose id in its optimizer is that of state t, or NULL. */
static const struct mg_tensor *ids_owner(const struct ids *x, const struct mg_tensor *t)
{
    const struct ids_owner *owner = NULL;
    uint64_t id, hash;

    if (t->name.what == MG_STATE && mg_text_number(t->name.name, &id) &&
        ids_hash(t->name.chain, id, &hash))
        owner = zf_table_find_id(x->owner, hash);
    return owner ? ids_tensor(x, x->weight.at[owner->weight - 1]) : NULL;
}

/* Is t one value for the whole parameter w, or one for each element? */
static bool ids_suits(const struct mg_tensor *t, const struct mg_tensor *w)
{
    return t->type.ndim == 0 ||
           zf_shape_equal(t->type.ndim, t->type.shape, w->type.ndim, w->type.shape);
}

static void ids_name(struct ids *x)
{
    for (size_t i = 0; i < x->s->tensor.n; i++) {
        struct mg_tensor *t = &x->s->tensor.at[i];
        const struct mg_tensor *w = ids_owner(x, t);

        if (w && ids_suits(t, w))
            t->name.name = w->name.name;
    }
    for (size_t g = 0; g < x->group.n; g++) {
        for (uint32_t i = 0; i < x->group.at[g].n; i++) {
            struct mg_tensor *m = &x->s->tensor.at[x->master.at[x->group.at[g].first + i].tensor];

            m->name.name = ids_tensor(x, x->weight.at[x->group.at[g].to[i]])->name.name;
            m->name.state = (struct mg_text){"param", 5};
        }
    }
}

bool mg_fsdp_ids(struct mg_save *s, struct zf_err *err)
{
    zf_auto(ids) struct ids x = {.s = s};

    if (!ids_list(&x, err) || !ids_find_groups(&x, err))
        return false;
    if (x.master.n == 0)
        return true;
    if ((!x.why && !ids_prove(&x, err)) || (!x.why && !ids_number(&x, err)))
        return false;
    if (x.why) {
        return zf_build_note(
            s->b, err, "the parameter numbers of the optimizer are not mapped to names: %.300s",
            x.why);
    }
    ids_name(&x);
    return true;
}
