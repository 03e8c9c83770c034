/* SPDX-License-Identifier: Apache-2.0 */
/* Megatron-DeepSpeed and AutoTP record lists of name patterns, one list per way of joining; AutoTP's
 * affine_map records the pieces of every parameter.  Source: deepspeed/checkpoint/constants.py, ds_to_universal.py
 * (merge_tp_slices), universal_checkpoint.py (SubparamShape), 0.11.2 … 0.19.8. */
#include "tp_info.h"

#include <stdio.h>
#include <string.h>

#include <zf/base/hash.h>

#define PATTERNS 20000

/* ---- patterns ---- */

static void tp_add(struct tp_info *info, const struct zf_take *text, struct tp_pattern what)
{
    struct zf_err err;

    what.text = ds_take_name(text);
    what.pattern = text->t->failed ? NULL
                                   : zf_pattern_new(what.text.p, what.text.n, ZF_PATTERN_FRONT,
                                                    text->t->arena, &err);
    if (what.pattern)
        info->pattern[info->n_patterns++] = what;
    else if (!text->t->failed) {
        (void)zf_take_refuse(text, err.code, "\"%.80s\": %s", what.text.p, err.msg);
        text->t->err.limit = err.limit;
    }
}

/* [n][n_ranks] the width on each rank of n sub-parameters, whose full widths are whole[i]: divided equally,
 * or as recorded in sub_param_shard_widths. */
static const uint64_t *tp_take_widths(const struct zf_take *whole, const struct zf_take *shards,
                                      uint64_t n, uint32_t n_ranks)
{
    uint64_t *width = zf_take_room(whole->t, n * n_ranks, sizeof *width);

    for (uint64_t i = 0; i < n && !whole->t->failed; i++) {
        const struct zf_take one = zf_take_item(whole, i), each = zf_take_item(shards, i);
        uint64_t all = zf_take_u64(&one), sum = 0;

        (void)(shards->v
                   ? zf_take_list_of(&each, n_ranks)
                   : zf_take_must(&one, all % n_ranks == 0, "%llu is not divisible by %u ranks",
                                  (unsigned long long)all, n_ranks));
        for (uint32_t r = 0; r < n_ranks && !whole->t->failed; r++) {
            const struct zf_take own = zf_take_item(&each, r);
            uint64_t w = shards->v ? zf_take_u64(&own) : all / n_ranks;

            (void)zf_take_must(&own, w <= all - sum,
                               "it and the widths before it add up to more than %llu",
                               (unsigned long long)all);
            width[i * n_ranks + r] = w;
            sum += w;
        }
        (void)zf_take_must(&each, sum == all, "the widths do not add up to %llu",
                           (unsigned long long)all);
    }
    return width;
}

/* Takes shape[partition_dim]: the full widths of the sub-parameters, or the number of equal ones. */
static void tp_take_subs(const struct zf_take *x, const struct zf_take *shards, uint32_t n_ranks,
                         struct tp_pattern *p)
{
    uint64_t n;

    if (zf_pv_u64(x->v, &n)) {
        (void)zf_take_must(x, n > 0 && n < 1000, "expected 1 to 999 sub-parameters, found %llu",
                           (unsigned long long)n);
    } else {
        n = zf_take_list(x);
        (void)zf_take_must(x, n > 0 && n <= 1000, "it has widths for %llu sub-parameters",
                           (unsigned long long)n);
        p->width = tp_take_widths(x, shards, n, n_ranks);
    }
    p->n_subs = (uint32_t)n;
}

/* Takes parameter_with_sub_params[i]: {patterns, shape, partition_dim}, a dataclass or a mapping. */
static void tp_take_sub_params(struct tp_info *info, const struct zf_take *one,
                               const struct zf_take *shards, uint32_t n_ranks)
{
    const struct zf_take texts = zf_take_key(one, "patterns"), shape = zf_take_key(one, "shape");
    const struct zf_take at = zf_take_key(one, "partition_dim");
    uint64_t d = zf_take_u64(&at), n_dims = zf_take_list(&shape);
    const struct zf_take dim = zf_take_item(&shape, d);

    (void)zf_take_must(&at, d < n_dims, "it is %llu, but the shape has %llu dimensions",
                       (unsigned long long)d, (unsigned long long)n_dims);
    for (uint64_t k = 0, n = zf_pv_len(texts.v); k < n && !one->t->failed; k++) {
        const struct zf_take text = zf_take_item(&texts, k);
        const struct zf_take own = zf_take_key(shards, zf_take_text(&text, NULL));
        struct tp_pattern p = {.kind = TP_SUBS, .dim = (uint32_t)d};

        tp_take_subs(&dim, &own, n_ranks, &p);
        tp_add(info, &text, p);
    }
}

static const struct {
    const char *key;
    enum tp_kind kind;
} tp_lists[] = {
    {"tp_replicated_parameter_patterns", TP_COPIES},
    {"parameter_to_average_patterns", TP_AVERAGE},
    {"parameter_with_2_sub_params_cat_dim_0", TP_TWO},
    {"parameter_with_row_parallelism_patterns", TP_ROW},
    {"vocabulary_parameter_patterns", TP_VOCABULARY},
};
#define TP_LISTS (sizeof tp_lists / sizeof tp_lists[0])

static void tp_take_patterns(const struct zf_take *v, uint32_t n_ranks, struct tp_info *out)
{
    const struct zf_take subs = zf_take_key(v, "parameter_with_sub_params");
    const struct zf_take shards = zf_take_key(v, "sub_param_shard_widths");
    const struct zf_take unsupported = zf_take_key(v, "autotp_unsupported_parameter_patterns");
    const struct zf_take vocabulary = zf_take_key(v, "original_vocab_size");
    uint64_t n = 0, n_subs = zf_pv_len(subs.v);

    for (size_t i = 0; i < TP_LISTS; i++) {
        const struct zf_take list = zf_take_key(v, tp_lists[i].key);

        n += zf_pv_len(list.v);
    }
    for (uint64_t i = 0; i < n_subs; i++) {
        const struct zf_take one = zf_take_item(&subs, i), texts = zf_take_key(&one, "patterns");

        n += zf_pv_len(texts.v);
    }
    (void)zf_take_can(v, n <= PATTERNS, "there are more than %d patterns", PATTERNS);
    (void)zf_take_can(
        &unsupported, zf_pv_len(unsupported.v) == 0,
        "AutoTP lists %llu patterns of parameters that it cannot describe the sharding of",
        (unsigned long long)zf_pv_len(unsupported.v));
    out->pattern = zf_take_room(v->t, n, sizeof *out->pattern);
    for (size_t i = 0; i < TP_LISTS; i++) {
        const struct zf_take list = zf_take_key(v, tp_lists[i].key);

        for (uint64_t k = 0; k < zf_pv_len(list.v) && !v->t->failed; k++) {
            const struct zf_take text = zf_take_item(&list, k);

            tp_add(out, &text, (struct tp_pattern){.kind = tp_lists[i].kind});
        }
    }
    if (!zf_pv_u64(vocabulary.v, &out->vocabulary))
        out->vocabulary = 0;
    for (uint64_t i = 0; i < n_subs && !v->t->failed; i++) {
        const struct zf_take one = zf_take_item(&subs, i);

        tp_take_sub_params(out, &one, &shards, n_ranks);
    }
}

/* ---- the affine map ---- */

/* Takes a name from a pattern: "^", the name escaped by re.escape, "$". */
static struct ds_name tp_take_escaped(const struct zf_take *key)
{
    struct ds_name text = ds_take_name(key);
    bool one = text.n >= 2 && text.p[0] == '^' && text.p[text.n - 1] == '$';
    char *p = zf_take_room(key->t, text.n + 1ull, 1);
    uint32_t n = 0;

    for (uint32_t i = 1; p && one && i + 1 < text.n; i++) {
        bool special = strchr(".*+?[](){}|^$\\", text.p[i]) != NULL && text.p[i] != '\0';

        one = !special || (text.p[i] == '\\' && i + 2 < text.n);
        p[n++] = text.p[i += special];
    }
    (void)zf_take_can(key, one, "\"%.*s\" matches more than one name", ds_name_shown(text), text.p);
    return (struct ds_name){p, n};
}

static void tp_take_affine(const struct zf_take *map, uint32_t n_ranks, struct tp_info *out)
{
    const struct zf_take version = zf_take_key(map, "version"), params = zf_take_key(map, "params");
    uint64_t v = zf_take_u64(&version), n = zf_take_map(&params);
    struct zf_err err;

    (void)zf_take_can(&version, v == 1, "it is of version %llu, not 1", (unsigned long long)v);
    out->has_affine = n > 0;
    for (uint64_t i = 0; i < n && !map->t->failed; i++) {
        const struct zf_take key = zf_take_name(&params, i), one = zf_take_item(&params, i);
        struct ds_name name = tp_take_escaped(&key);
        struct tp_affine *e =
            map->t->failed ? NULL : zf_table_make(out->affine, name.p, name.n, &err);

        if (!e) {
            (void)zf_take_fail(&key, &err);
        } else if (zf_take_must(&key, !e->name.p, "\"%.*s\" occurs twice", ds_name_shown(name),
                                name.p)) {
            e->name = name;
            affine_take(&one, n_ranks, e);
        }
    }
}

const struct tp_affine *tp_info_affine(const struct tp_info *info, const char *name, size_t n)
{
    return info->has_affine ? zf_table_find(info->affine, name, n) : NULL;
}

/* ---- universal_checkpoint_info ---- */

bool tp_info_read(struct ds_save *ds, const struct zf_pv *v, uint32_t n_ranks, struct tp_info *out,
                  struct zf_err *err)
{
    struct zf_taker taker = {.arena = ds->a};
    const struct zf_take root = zf_take_root(&taker, v), affine = zf_take_key(&root, "affine_map");

    out->there = zf_pv_is_map(v);
    if (!out->there)
        return true;
    tp_take_patterns(&root, n_ranks, out);
    if (zf_take_given(&affine))
        tp_take_affine(&affine, n_ranks, out);
    if (zf_take_ok(&taker, err))
        return true;
    if (err->code != ZF_E_FORMAT && err->code != ZF_E_UNSUPPORTED)
        return false;
    zf_say(out->why, sizeof out->why, "universal_checkpoint_info%s: %s", err->path, err->msg);
    zf_err_clear(err);
    return true;
}

void tp_info_fini(struct tp_info *info)
{
    zf_table_free(info->affine);
}
