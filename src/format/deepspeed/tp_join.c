/* SPDX-License-Identifier: Apache-2.0 */
/* Joins tensor-parallel ranks by the user's rules; else by the affine map; else by patterns, like
 * DeepSpeed's converter: a parameter that matches no pattern is concatenated along dimension 0.  That
 * would be silently wrong with patterns written for other names, so each pattern must match some
 * parameter, as in the converter.  Buffers must be equal on all ranks.
 * Source: deepspeed/checkpoint/ds_to_universal.py (merge_tp_slices), 0.11.2 … 0.19.8. */
#include "tp_info.h"

#include <string.h>

#include <zf/assemble/tp_rules.h>
#include <zf/assemble/tree_join.h>

struct tp_join {
    struct ds_save *ds;
    const struct ds_ranks *all;
    const struct zf_tp_rules *rules; /* or NULL */
    struct zf_tp_rules *neox;        /* built-in rules for GPT-NeoX, owned, or NULL */
    struct tp_info info;
};

/* Is the name a buffer of any pipeline stage? */
static bool tp_is_buffer(const struct tp_join *j, struct ds_name name, enum zf_dtype dtype)
{
    for (uint32_t i = 0; i < j->all->n; i += j->ds->tp) {
        const struct ds_model *m = &j->all->rank[i].model;

        if (m->has_buffers ? ds_name_listed(m->buffer, m->n_buffers, name)
                           : zf_dtype_info(dtype)->kind != 'f')
            return true;
    }
    return false;
}

static bool tp_lay(const struct tp_join *j, const struct zf_tree_tensor *t,
                   const struct zf_cut_rule *rule, struct zf_cut *out, struct zf_err *err)
{
    return zf_cut_lay(rule, t->ndim, t->shard, t->n_ranks, j->ds->a, out, err);
}

/* Uses the affine map of a tensor; its shards must have the shapes in the map. */
static bool tp_use_affine(const struct tp_affine *e, const struct zf_tree_tensor *t,
                          struct zf_cut *out, struct zf_err *err)
{
    for (uint32_t r = 0; r < t->n_ranks; r++) {
        if (!zf_shape_equal(e->cut.ndim, e->shard[r], t->ndim, t->shard[r])) {
            return zf_fail(
                err, ZF_E_FORMAT, ZF_OFF_NONE,
                "the shard of tensor-parallel rank %u has another shape than affine_map gives", r);
        }
    }
    *out = e->cut;
    return true;
}

/* *out: the pattern that matches the name, or NULL; *vocab: one marks it as a vocabulary parameter. */
static bool tp_match(struct tp_join *j, struct ds_name name, struct tp_pattern **out, bool *vocab,
                     struct zf_err *err)
{
    *out = NULL;
    *vocab = false;
    for (uint32_t i = 0; i < j->info.n_patterns; i++) {
        struct tp_pattern *p = &j->info.pattern[i];

        bool fits;

        if (!zf_pattern_match(p->pattern, name.p, name.n, NULL, &fits, err))
            return false;
        if (!fits)
            continue;
        p->used = true;
        if (p->kind == TP_VOCABULARY) {
            *vocab = true;
            continue;
        }
        if (*out) {
            return zf_fail(
                err, ZF_E_FORMAT, ZF_OFF_NONE,
                "two patterns of universal_checkpoint_info match it: \"%.*s\" and \"%.*s\"",
                (int)((*out)->text.n < 80 ? (*out)->text.n : 80), (*out)->text.p,
                (int)(p->text.n < 80 ? p->text.n : 80), p->text.p);
        }
        *out = p;
    }
    return true;
}

static struct zf_cut_rule tp_rule(const struct tp_pattern *p)
{
    switch (p ? p->kind : TP_VOCABULARY) {
    case TP_COPIES:
    case TP_AVERAGE: /* the mean of equal copies is the copy; unequal ones are refused */
        return (struct zf_cut_rule){.kind = ZF_CUT_COPIES};
    case TP_TWO:
        return (struct zf_cut_rule){.kind = ZF_CUT_SUBS, .n_subs = 2};
    case TP_SUBS:
        return (struct zf_cut_rule){
            .kind = ZF_CUT_SUBS, .dim = p->dim, .n_subs = p->n_subs, .width = p->width};
    case TP_ROW:
        return (struct zf_cut_rule){.kind = ZF_CUT_DIM, .dim = 1};
    default:
        return (struct zf_cut_rule){.kind = ZF_CUT_DIM};
    }
}

static bool tp_use_patterns(struct tp_join *j, const struct zf_tree_tensor *t, struct ds_name name,
                            struct zf_cut *out, struct zf_err *err)
{
    struct tp_pattern *p;
    struct zf_cut_rule rule;
    bool vocab;

    if (!tp_match(j, name, &p, &vocab, err))
        return false;
    if (!p && !vocab && tp_is_buffer(j, name, t->dtype))
        return tp_lay(j, t, &(struct zf_cut_rule){.kind = ZF_CUT_COPIES}, out, err);
    if (!p && !vocab && j->info.has_affine) {
        return zf_fail(
            err, ZF_E_FORMAT, ZF_OFF_NONE,
            "affine_map does not list it, and no pattern of universal_checkpoint_info matches it");
    }
    rule = tp_rule(p);
    rule.rows = vocab ? j->info.vocabulary : 0;
    return tp_lay(j, t, &rule, out, err);
}

static bool tp_cut(void *ctx, const struct zf_tree_tensor *t, struct zf_cut *out,
                   struct zf_err *err)
{
    struct tp_join *j = ctx;
    const struct zf_cut_rule copies = {.kind = ZF_CUT_COPIES};
    struct ds_name name = {t->name, (uint32_t)t->name_len};
    const struct tp_affine *e = tp_info_affine(&j->info, t->name, t->name_len);
    struct zf_cut_rule rule;

    if (t->ndim == 0) {
        struct tp_pattern *p; /* nothing to cut, but it counts as a match of a pattern */
        bool vocab;

        return tp_match(j, name, &p, &vocab, err) && tp_lay(j, t, &copies, out, err);
    }
    if (j->rules) {
        if (!zf_tp_rules_find(j->rules, t->name, t->name_len, &rule, err)) {
            if (!tp_is_buffer(j, name, t->dtype))
                return false;
            rule = copies;
        }
        return tp_lay(j, t, &rule, out, err);
    }
    return e ? tp_use_affine(e, t, out, err) : tp_use_patterns(j, t, name, out, err);
}

static bool tp_done(void *ctx, struct zf_err *err)
{
    const struct tp_join *j = ctx;

    for (uint32_t i = 0; !j->rules && !j->info.has_affine && i < j->info.n_patterns; i++) {
        const struct tp_pattern *p = &j->info.pattern[i];

        if (!p->used) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "the pattern \"%.*s\" of universal_checkpoint_info matches no parameter",
                           ds_name_shown(p->text), p->text.p);
        }
    }
    return true;
}

/* ---- rules recorded in the save, or known ---- */

/* GPT-NeoX records no rules, but its layer names are always the same.  With parallel attention and feed-forward
 * (gpt-j-residual), each rank has its own biases of row-parallel layers, to be summed: they differ, and are not joined.
 * Source: gpt-neox megatron/model/transformer.py, word_embeddings.py (2.0), tools/ckpts/convert_neox_to_hf.py. */
static const char tp_neox[] =
    "(tied_modules\\.embed|(sequential\\.)?[0-9]+)\\.word_embeddings\\.weight 0\n"
    "(sequential\\.)?[0-9]+\\.final_linear\\.weight 0\n"
    "(sequential\\.)?[0-9]+\\.attention\\.query_key_value\\.(weight|bias) 0\n"
    "(sequential\\.)?[0-9]+\\.mlp\\.(dense_h_to_4h|linear1)\\.(weight|bias) 0\n"
    "(sequential\\.)?[0-9]+\\.attention\\.dense\\.weight 1\n"
    "(sequential\\.)?[0-9]+\\.mlp\\.(dense_4h_to_h|linear2)\\.weight 1\n"
    "(sequential\\.)?[0-9]+\\.(attention\\.dense|mlp\\.dense_4h_to_h|mlp\\.linear2)\\.bias "
    "replicated\n"
    "(sequential\\.)?[0-9]+\\.(input_layernorm|post_attention_layernorm|norm)\\.(weight|bias) "
    "replicated\n"
    "(sequential\\.)?[0-9]+\\.attention\\.rotary_emb\\.inv_freq replicated\n";

/* The client state of a GPT-NeoX run contains its arguments. */
static bool tp_is_neox(const struct zf_pv *root)
{
    const struct zf_pv *args = zf_pv_get(root, "args");

    return zf_pv_get(args, "make_vocab_size_divisible_by") &&
           zf_pv_get(args, "padded_vocab_size") && zf_pv_get(args, "model_parallel_size");
}

/* Reads the rules recorded in the first rank's file; agree.c compares those of the other ranks. */
static bool tp_read_info(struct tp_join *j, struct zf_err *err)
{
    const char *path = ds_ranks_first(j->all)->model.path;
    zf_auto(source) struct zf_source *src = zf_store_open(j->ds->st, path, err);
    zf_auto(torch) struct zf_torch *t = src ? zf_torch_open(src, j->ds->o->lim, err) : NULL;

    if (!t || !tp_info_read(j->ds, zf_pv_get(zf_torch_root(t), "universal_checkpoint_info"),
                            j->ds->tp, &j->info, err))
        return false;
    if (!j->info.there && tp_is_neox(zf_torch_root(t))) {
        j->rules = j->neox =
            zf_tp_rules_parse(tp_neox, sizeof tp_neox - 1, "the rules for GPT-NeoX", err);
    }
    return j->info.there || !tp_is_neox(zf_torch_root(t)) || j->rules;
}

/* Finds the rules to join by.  *why: NULL, or the note that says why there are none. */
static bool tp_find_way(struct tp_join *j, const char **why, struct zf_err *err)
{
    *why = NULL;
    if (j->ds->tp == 1 || j->rules)
        return true;
    if (!tp_read_info(j, err))
        return false;
    if (j->rules)
        return true;
    if (!j->info.there) {
        *why = "the save does not record how to join tensor-parallel ranks "
               "(universal_checkpoint_info). Give the rules with -o tp_rules=FILE";
    } else if (j->info.why[0]) {
        *why = j->info.why;
    } else if (j->info.n_patterns == 0 && !j->info.has_affine) {
        *why = "universal_checkpoint_info has no patterns. Give the rules with -o tp_rules=FILE";
    }
    return true;
}

static bool tp_join(struct tp_join *j, struct zf_err *err)
{
    const char **tree = zf_arena_get(j->ds->a, j->all->n, sizeof(*tree), err);
    struct zf_tree_join t = {.b = j->ds->b,
                             .tree = tree,
                             .n_stages = j->ds->pp,
                             .n_ranks = j->ds->tp,
                             .cut = tp_cut,
                             .done = tp_done,
                             .ctx = j};
    const char *why;

    if (!tree || !tp_find_way(j, &why, err))
        return false;
    t.told = j->rules && !j->neox;
    if (why)
        return zf_tree_stay(t.b, j->all->n, why, err);
    for (uint32_t i = 0; i < j->all->n; i++)
        tree[i] = j->all->rank[i].tree;
    return zf_tree_join_or_stay(&t, err);
}

bool ds_tp_join(struct ds_save *ds, struct ds_ranks *all, struct zf_err *err)
{
    struct tp_join j = {.ds = ds, .all = all};
    bool ok;

    if (ds->dir.n_mp == 1)
        return true;
    if (all->n != ds->dir.n_mp)
        return zf_tree_stay(ds->b, all->n, "the files of a rank are missing", err);
    zf_auto(tp_rules) struct zf_tp_rules *rules =
        ds->o->tp_rules ? zf_tp_rules_load(ds->o->tp_rules, err) : NULL;
    j.rules = rules;
    ok = (rules || !ds->o->tp_rules) && tp_join(&j, err);
    tp_info_fini(&j.info);
    zf_tp_rules_free(j.neox);
    return ok;
}
