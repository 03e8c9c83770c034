/* SPDX-License-Identifier: Apache-2.0 */
#include "settings.h"

#include <string.h>

static const struct settings_row {
    const char *name;
    size_t at;     /* in megatron_settings */
    uint64_t most; /* of a size */
    bool flag;
} settings_rows[] = {
#define X(name, most) {#name, offsetof(struct megatron_settings, name), most, false},
    MEGATRON_SIZES(X)
#undef X
#define X(name) {#name, offsetof(struct megatron_settings, name), 0, true},
        MEGATRON_FLAGS(X)
#undef X
};

enum { SETTINGS_N = sizeof settings_rows / sizeof *settings_rows };

static const struct settings_row *settings_find(const char *name)
{
    for (size_t i = 0; i < SETTINGS_N; i++)
        if (strcmp(settings_rows[i].name, name) == 0)
            return &settings_rows[i];
    return NULL;
}

static void settings_set(struct megatron_settings *s, const struct settings_row *row, uint64_t v)
{
    memcpy((char *)s + row->at, &v, sizeof v);
}

bool megatron_settings_size(struct megatron_settings *s, const char *name, uint64_t value,
                            struct zf_err *err)
{
    const struct settings_row *row = settings_find(name);

    if (!row || row->flag)
        return true;
    if (value > row->most) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "%s is %llu, expected at most %llu", name,
                       (unsigned long long)value, (unsigned long long)row->most);
    }
    settings_set(s, row, value);
    return true;
}

void megatron_settings_flag(struct megatron_settings *s, const char *name, bool value)
{
    const struct settings_row *row = settings_find(name);

    if (row && row->flag)
        settings_set(s, row, value ? MEGATRON_YES : MEGATRON_NO);
}

uint64_t megatron_settings_get(const struct megatron_settings *s, const char *name)
{
    const struct settings_row *row = settings_find(name);
    uint64_t v = 0;

    if (row)
        memcpy(&v, (const char *)s + row->at, sizeof v);
    return v;
}

/* The value of an attribute, or of a key. */
static const struct zf_pv *settings_value(const struct zf_pv *args, const char *name)
{
    return zf_pv_is_map(args) ? zf_pv_get(args, name) : zf_pv_attr(args, name);
}

bool megatron_settings_args(const struct zf_pv *args, struct megatron_settings *out,
                            struct zf_err *err)
{
    *out = (struct megatron_settings){0};
    for (size_t i = 0; i < SETTINGS_N; i++) {
        const struct settings_row *row = &settings_rows[i];
        const struct zf_pv *v = settings_value(args, row->name);
        uint64_t n;
        int64_t yes;

        if (row->flag) { /* int too: scripts pass 0 and 1 */
            if (zf_pv_int(v, &yes))
                settings_set(out, row, yes ? MEGATRON_YES : MEGATRON_NO);
            continue;
        }
        if (zf_pv_kind(v) != ZF_PV_INT && zf_pv_kind(v) != ZF_PV_BIGINT)
            continue; /* None, or a string of a script: not recorded */
        if (!zf_pv_u64(v, &n)) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "args.%s is negative or far too large, expected a size", row->name);
        }
        if (!megatron_settings_size(out, row->name, n, err))
            return zf_err_in(err, "!args");
    }
    return true;
}

bool megatron_settings_gated(const struct megatron_settings *s)
{
    return s->swiglu == MEGATRON_YES || s->quick_geglu == MEGATRON_YES ||
           s->gated_linear_unit == MEGATRON_YES;
}

uint64_t megatron_settings_groups(const struct megatron_settings *s)
{
    bool grouped = s->group_query_attention != MEGATRON_NO && s->num_query_groups > 0;

    return grouped ? s->num_query_groups : s->num_attention_heads;
}

uint64_t megatron_settings_head(const struct megatron_settings *s)
{
    if (s->kv_channels > 0)
        return s->kv_channels;
    return s->num_attention_heads > 0 ? s->hidden_size / s->num_attention_heads : 0;
}

uint64_t megatron_settings_moe_ffn(const struct megatron_settings *s)
{
    return s->moe_ffn_hidden_size > 0 ? s->moe_ffn_hidden_size : s->ffn_hidden_size;
}

uint64_t megatron_settings_expert_tensor(const struct megatron_settings *s)
{
    return s->expert_tensor_parallel_size > 0 ? s->expert_tensor_parallel_size
                                              : s->tensor_model_parallel_size;
}
