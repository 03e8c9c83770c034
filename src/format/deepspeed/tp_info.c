/* SPDX-License-Identifier: Apache-2.0 */
/* Megatron-DeepSpeed and AutoTP give lists of patterns, one list for each way of joining; AutoTP's affine_map
 * gives every parameter's pieces.  Source: deepspeed/checkpoint/constants.py, ds_to_universal.py
 * (merge_tp_slices), universal_checkpoint.py (SubparamShape), 0.11.2 … 0.19.8. */
#include "tp_info.h"

#include <stdio.h>
#include <string.h>

#include <zf/base/hash.h>

#include "affine.h"

#define PATTERNS 20000

/* ---- patterns ---- */

static bool tp_add(struct ds_save *ds, struct tp_info *info, const struct zf_pv *text,
                   struct tp_pattern what, struct zf_err *err)
{
    struct tp_pattern *p = &info->pattern[info->n_patterns];

    *p = what;
    if (!ds_name_of(ds->a, text, "a list of patterns", &p->text, err)) {
        return false;
    }
    p->pattern = zf_pattern_new(p->text.p, p->text.n, ZF_PATTERN_FRONT, ds->a, err);
    if (!p->pattern) {
        char msg[200];

        (void)snprintf(msg, sizeof msg, "%.180s", err->msg);
        return zf_fail(err, err->code, ZF_OFF_NONE, "the pattern \"%.*s\": %s",
                       (int)(p->text.n < 80 ? p->text.n : 80), p->text.p, msg);
    }
    info->n_patterns++;
    return true;
}

static bool tp_read_list(struct ds_save *ds, struct tp_info *info, const struct zf_pv *list,
                         enum tp_kind kind, struct zf_err *err)
{
    for (uint64_t i = 0; i < zf_pv_len(list); i++) {
        if (!tp_add(ds, info, zf_pv_item(list, i), (struct tp_pattern){.kind = kind}, err)) {
            return false;
        }
    }
    return true;
}

/* A field of a dataclass, or of the mapping it was before. */
static const struct zf_pv *tp_field(const struct zf_pv *v, const char *name)
{
    const struct zf_pv *in = zf_pv_attr(v, name);

    return in ? in : zf_pv_get(v, name);
}

/* shape[partition_dim]: the widths of the sub-parameters in the whole, or how many of equal width. */
static bool tp_read_widths(struct ds_save *ds, const struct zf_pv *v, const struct zf_pv *shards,
                           uint32_t n_ranks, struct tp_pattern *p, struct zf_err *err)
{
    uint64_t n, *width;

    if (zf_pv_u64(v, &n) && n > 0 && n < 1000) {
        p->n_subs = (uint32_t)n;
        return true;
    }
    n = zf_pv_len(v);
    if (!zf_pv_is_seq(v) || n == 0 || n > 1000) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "the sub-parameters of a pattern have no widths");
    }
    p->n_subs = (uint32_t)n;
    p->width = width = zf_arena_get(ds->a, n * n_ranks, sizeof *width, err);
    for (uint64_t i = 0; width && i < n; i++) {
        const struct zf_pv *each = zf_pv_item(shards, i);
        uint64_t whole = 0, sum = 0;

        if (!zf_pv_u64(zf_pv_item(v, i), &whole) ||
            (shards ? zf_pv_len(each) != n_ranks : whole % n_ranks != 0)) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "the sub-parameters of a pattern are not divided over %u ranks",
                           n_ranks);
        }
        for (uint32_t r = 0; r < n_ranks; r++) {
            uint64_t *w = &width[i * n_ranks + r];

            *w = whole / n_ranks;
            if (shards && (!zf_pv_u64(zf_pv_item(each, r), w) || *w > whole - sum)) {
                return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                               "sub_param_shard_widths do not go with the sub-parameters");
            }
            sum += *w;
        }
        if (sum != whole) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "sub_param_shard_widths do not add up to the sub-parameters");
        }
    }
    return width != NULL;
}

/* parameter_with_sub_params: [{patterns, shape, partition_dim}]. */
static bool tp_read_subs(struct ds_save *ds, struct tp_info *info, const struct zf_pv *v,
                         uint32_t n_ranks, struct zf_err *err)
{
    const struct zf_pv *list = zf_pv_get(v, "parameter_with_sub_params");
    const struct zf_pv *shards = zf_pv_get(v, "sub_param_shard_widths");

    for (uint64_t i = 0; i < zf_pv_len(list); i++) {
        const struct zf_pv *one = zf_pv_item(list, i), *texts = tp_field(one, "patterns");
        const struct zf_pv *shape = tp_field(one, "shape");
        uint64_t dim = 0;

        if (!zf_pv_u64(tp_field(one, "partition_dim"), &dim) || dim >= zf_pv_len(shape)) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "parameter_with_sub_params[%llu] has no shape with its partition_dim",
                           (unsigned long long)i);
        }
        for (uint64_t k = 0; k < zf_pv_len(texts); k++) {
            struct tp_pattern p = {.kind = TP_SUBS, .dim = (uint32_t)dim};
            uint64_t n = 0;
            const char *key = zf_pv_text(zf_pv_item(texts, k), &n);

            if (!tp_read_widths(ds, zf_pv_item(shape, dim), key ? zf_pv_get(shards, key) : NULL,
                                n_ranks, &p, err) ||
                !tp_add(ds, info, zf_pv_item(texts, k), p, err)) {
                return false;
            }
        }
    }
    return true;
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

static bool tp_read_patterns(struct ds_save *ds, const struct zf_pv *v, uint32_t n_ranks,
                             struct tp_info *out, struct zf_err *err)
{
    const struct zf_pv *subs = zf_pv_get(v, "parameter_with_sub_params");
    const struct zf_pv *unsupported = zf_pv_get(v, "autotp_unsupported_parameter_patterns");
    uint64_t n = 0;

    for (size_t i = 0; i < sizeof tp_lists / sizeof tp_lists[0]; i++) {
        n += zf_pv_len(zf_pv_get(v, tp_lists[i].key));
    }
    for (uint64_t i = 0; i < zf_pv_len(subs); i++) {
        n += zf_pv_len(tp_field(zf_pv_item(subs, i), "patterns"));
    }
    if (n > PATTERNS) {
        return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE, "there are more than %d patterns",
                       PATTERNS);
    }
    if (zf_pv_len(unsupported) > 0) {
        return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                       "AutoTP says itself of %llu patterns of parameters that it cannot tell how "
                       "they are cut",
                       (unsigned long long)zf_pv_len(unsupported));
    }
    out->pattern = zf_arena_get(ds->a, n, sizeof *out->pattern, err);
    for (size_t i = 0; out->pattern && i < sizeof tp_lists / sizeof tp_lists[0]; i++) {
        if (!tp_read_list(ds, out, zf_pv_get(v, tp_lists[i].key), tp_lists[i].kind, err)) {
            return false;
        }
    }
    if (!zf_pv_u64(zf_pv_get(v, "original_vocab_size"), &out->vocabulary)) {
        out->vocabulary = 0;
    }
    return out->pattern && tp_read_subs(ds, out, v, n_ranks, err);
}

/* ---- the affine map ---- */

/* Its keys are names as re.escape writes them, between ^ and $. */
static bool tp_unescape(struct zf_arena *a, const struct zf_pv *key, struct ds_name *out,
                        struct zf_err *err)
{
    struct ds_name text;

    if (!ds_name_of(a, key, "affine_map", &text, err)) {
        return false;
    }
    if (text.n < 2 || text.p[0] != '^' || text.p[text.n - 1] != '$') {
        return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE, "\"%.*s\" in affine_map is not one name",
                       ds_name_shown(text), text.p);
    }
    char *p = zf_arena_get(a, text.n, 1, err);
    uint32_t n = 0;
    for (uint32_t i = 1; p && i + 1 < text.n; i++) {
        bool special = strchr(".*+?[](){}|^$\\", text.p[i]) != NULL && text.p[i] != '\0';

        if (special && (text.p[i] != '\\' || i + 2 >= text.n)) {
            return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                           "\"%.*s\" in affine_map is not one name", ds_name_shown(text), text.p);
        }
        p[n++] = text.p[i += special];
    }
    *out = (struct ds_name){p, n};
    return p != NULL;
}

static bool tp_read_affine(struct ds_save *ds, const struct zf_pv *map, uint32_t n_ranks,
                           struct tp_info *out, struct zf_err *err)
{
    const struct zf_pv *params = zf_pv_get(map, "params");
    uint64_t version = 0, n = zf_pv_is_map(params) ? zf_pv_len(params) : 0;

    if (!zf_pv_u64(zf_pv_get(map, "version"), &version) || version != 1) {
        return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE, "affine_map is of version %llu, not 1",
                       (unsigned long long)version);
    }
    out->has_affine = n > 0;
    for (uint64_t i = 0; i < n; i++) {
        struct ds_name name;

        if (!tp_unescape(ds->a, zf_pv_key(params, i), &name, err)) {
            return false;
        }
        struct tp_affine *e = zf_table_make(out->affine, name.p, name.n, err);
        if (!e) {
            return false;
        }
        if (e->name.p) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "\"%.*s\" is in affine_map twice",
                           ds_name_shown(name), name.p);
        }
        e->name = name;
        if (!affine_read(ds->a, zf_pv_val(params, i), n_ranks, e, err)) {
            char msg[200];

            (void)snprintf(msg, sizeof msg, "%.190s", err->msg);
            return zf_fail(err, err->code, ZF_OFF_NONE, "\"%.*s\" in affine_map: %s",
                           ds_name_shown(name), name.p, msg);
        }
    }
    return true;
}

const struct tp_affine *tp_info_affine(const struct tp_info *info, const char *name, size_t n)
{
    return info->has_affine ? zf_table_find(info->affine, name, n) : NULL;
}

/* ---- all of it ---- */

bool tp_info_read(struct ds_save *ds, const struct zf_pv *v, uint32_t n_ranks, struct tp_info *out,
                  struct zf_err *err)
{
    const struct zf_pv *affine = zf_pv_get(v, "affine_map");

    out->there = zf_pv_is_map(v);
    if (!out->there) {
        return true;
    }
    if (tp_read_patterns(ds, v, n_ranks, out, err) &&
        (zf_pv_kind(affine) == ZF_PV_NONE || tp_read_affine(ds, affine, n_ranks, out, err))) {
        return true;
    }
    if (err->code != ZF_E_FORMAT && err->code != ZF_E_UNSUPPORTED) {
        return false;
    }
    (void)snprintf(out->why, sizeof out->why, "%.290s", err->msg);
    zf_err_clear(err);
    return true;
}

void tp_info_fini(struct tp_info *info)
{
    zf_table_free(info->affine);
}
