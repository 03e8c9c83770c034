/* SPDX-License-Identifier: Apache-2.0 */
/* "decoder.layers.mlp.linear_fc1.weight" of shape (L, …) holds the weights of all L layers, unless it is a
 * single tensor of that name.  A layer axis is recognised by two facts: all such tensors of one stack
 * ("decoder.layers.", T5 has two) have the same length along it, and their chunks are single layers.
 * "experts.experts." of shape (E, …) or (L, E, …) is recognised by the name alone, since the chunks of
 * grouped experts are those of ranks, and those of others single experts.
 * Source: megatron/core/transformer/transformer_block.py, moe/experts.py sharded_state_dict (0.4 … 0.19). */
#include "steps.h"

#include <zf/base/hash.h>
#include <zf/base/num.h>
#include <zf/base/table.h>

/* The tensors with the same name before the number of the layer or expert. */
struct axes_stack {
    UT_hash_handle hh;
    uint64_t n;   /* the length of the axis; 0 = not known so far */
    bool differ;  /* the tensors have different lengths */
    bool as_told; /* one of them has the length recorded in the settings */
};

struct axes_found {
    struct axes_stack *layers, *experts; /* uthash */
};

static void zf_auto_axes_found(struct axes_found *f)
{
    zf_table_free(f->layers);
    zf_table_free(f->experts);
}

static bool axes_is_param(const struct mg_tensor *t)
{
    return t->name.what == MG_WEIGHT || t->name.what == MG_STATE;
}

/* Can the first axis be a layer axis? */
static bool axes_may_stack(const struct mg_tensor *t)
{
    return axes_is_param(t) && t->name.layer_at && t->type.ndim > 0 && t->type.shape[0] > 0 &&
           (!t->cuts || t->cuts[0] == t->type.shape[0]);
}

static bool axes_meet(struct axes_stack **stacks, struct mg_text name, size_t at, uint64_t n,
                      uint64_t told, struct zf_err *err)
{
    struct axes_stack *stack = zf_table_make(*stacks, name.p, at, err);

    if (!stack)
        return false;
    stack->differ = stack->differ || (stack->n && stack->n != n);
    stack->as_told = stack->as_told || n == told;
    stack->n = n;
    return true;
}

/* The length of the stack's axis: that of all its tensors, else `told` if one has that; 0 = unknown. */
static uint64_t axes_length(const struct axes_stack *stacks, struct mg_text name, size_t at,
                            uint64_t told)
{
    const struct axes_stack *stack = zf_table_find(stacks, name.p, at);

    if (!stack || (stack->differ && !stack->as_told))
        return 0;
    return stack->differ ? told : stack->n;
}

static bool axes_find_layers(struct mg_save *s, struct axes_found *f, struct zf_err *err)
{
    for (size_t i = 0; i < s->tensor.n; i++) {
        const struct mg_tensor *t = &s->tensor.at[i];

        if (axes_may_stack(t) && !axes_meet(&f->layers, t->name.name, t->name.layer_at,
                                            t->type.shape[0], s->settings.num_layers, err))
            return false;
    }
    return true;
}

/* *n_out: the number of stacked layers, 1 if there is no layer axis.  False: the name lacks a layer number,
 * but the shape has no layer axis. */
static bool axes_layers(const struct mg_save *s, const struct axes_found *f,
                        const struct mg_tensor *t, uint64_t *n_out)
{
    *n_out = 1;
    if (!t->name.layer_at)
        return true;
    *n_out = axes_may_stack(t)
                 ? axes_length(f->layers, t->name.name, t->name.layer_at, s->settings.num_layers)
                 : 0;
    return *n_out && *n_out == t->type.shape[0];
}

/* The expert axis of a tensor whose layer axis is settled, or ndim. */
static uint32_t axes_expert_axis(const struct mg_tensor *t)
{
    uint32_t axis = t->name.layer_at ? 1 : 0;

    return t->name.expert_at && axis < t->type.ndim && t->type.shape[axis] ? axis : t->type.ndim;
}

static bool axes_find_experts(struct mg_save *s, struct axes_found *f, struct zf_err *err)
{
    uint64_t n;

    for (size_t i = 0; i < s->tensor.n; i++) {
        const struct mg_tensor *t = &s->tensor.at[i];
        uint32_t axis =
            axes_is_param(t) && axes_layers(s, f, t, &n) ? axes_expert_axis(t) : t->type.ndim;

        if (axis < t->type.ndim && !axes_meet(&f->experts, t->name.name, t->name.expert_at,
                                              t->type.shape[axis], s->settings.num_experts, err))
            return false;
    }
    return true;
}

static bool axes_experts(const struct mg_save *s, const struct axes_found *f,
                         const struct mg_tensor *t, uint64_t *n_out)
{
    uint32_t axis = axes_expert_axis(t);

    *n_out = axis < t->type.ndim
                 ? axes_length(f->experts, t->name.name, t->name.expert_at, s->settings.num_experts)
                 : 0;
    return *n_out && *n_out == t->type.shape[axis];
}

/* Adds one parameter per layer and expert; MG_NONE: there is no such axis. */
static bool axes_add(struct mg_save *s, struct mg_tensor *t, uint64_t layers, uint64_t experts,
                     struct zf_err *err)
{
    uint32_t axes = (layers != MG_NONE ? 1u : 0u) + (experts != MG_NONE ? 1u : 0u);
    uint64_t n_layers = layers == MG_NONE ? 1 : layers, n = 1, inner = 0;
    uint64_t n_experts = experts == MG_NONE ? 1 : experts;
    char name[512];

    if (!zf_mul(n_layers, n_experts, &n) || n > s->lim->tensors ||
        s->param.n > s->lim->tensors - n) {
        return zf_fail_limit(err, ZF_LIMIT_tensors, ZF_OFF_NONE,
                             "\"%.120s\" has slices for more than %llu tensors (limit tensors)",
                             t->key, (unsigned long long)s->lim->tensors);
    }
    struct mg_param p = {.state = t->name.state,
                         .type = {t->type.dtype, t->type.ndim - axes, t->type.shape + axes},
                         .of = t->draft,
                         .from = t};
    if (!zf_elems(p.type.ndim, p.type.shape, &inner))
        return true; /* the draft's own elements were counted */
    t->sliced = axes > 0;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t layer = layers == MG_NONE ? MG_NONE : i / n_experts;
        uint64_t expert = experts == MG_NONE ? MG_NONE : i % n_experts;

        p.first = i * inner;
        p.name = t->name.name;
        if (axes) {
            size_t len = mg_key_numbered(&t->name, layer, expert, name, sizeof name);
            char *own = zf_arena_get(s->arena, len + 1, 1, err);

            if (!own)
                return false;
            (void)mg_key_numbered(&t->name, layer, expert, own, len + 1);
            p.name = (struct mg_text){own, len};
        }
        if (!mg_save_param(s, &p, err))
            return false;
    }
    return true;
}

bool mg_axes_slice(struct mg_save *s, struct zf_err *err)
{
    zf_auto(axes_found) struct axes_found f = {0};

    if (!axes_find_layers(s, &f, err) || !axes_find_experts(s, &f, err))
        return false;
    for (size_t i = 0; i < s->tensor.n; i++) {
        struct mg_tensor *t = &s->tensor.at[i];
        uint64_t layers, experts = MG_NONE;

        if (!axes_is_param(t))
            continue;
        if (!axes_layers(s, &f, t, &layers))
            layers = MG_NONE;
        else if (!axes_experts(s, &f, t, &experts))
            experts = MG_NONE;
        layers = t->name.layer_at ? layers : MG_NONE;
        if (!axes_add(s, t, layers, experts, err))
            return false;
    }
    return true;
}
