/* SPDX-License-Identifier: Apache-2.0 */
/* The fields are those of Megatron-core's TransformerConfig, under one of these prefixes:
 *   model.            run_config.yaml, Megatron-Bridge (0.1 … 0.6); model.transformer. since its model
 *                     builders (models/gpt/gpt_builder.py)
 *   config.           context/model.yaml, NeMo 2 (lightning/io, 2.0 … 2.4)
 *   (nothing)         model_config.yaml, NeMo 1: the `model` section of its configuration by itself;
 *                     transformer_config.json, verl (0.9, megatron_checkpoint_manager.py): JSON is YAML
 * Sizes are read from no other part of such a file; two different values of a size are refused. */
#include "settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/auto.h>
#include <zf/codec/yaml.h>

/* A full training configuration has about 20 to 60 KiB. */
#define YAML_FILE_MAX (4u << 20)

static const char *const yaml_files[] = {"run_config.yaml", "model_config.yaml",
                                         "context/model.yaml", "transformer_config.json"};

static const char *const yaml_prefix[] = {"model.transformer.", "model.config.", "model.",
                                          "config."};

/* Fields with another name in args.
 * Source: megatron/training/arguments.py, core_transformer_config_from_args (core 0.5 … 0.19). */
static const struct yaml_alias {
    const char *field, *args;
    bool opposite;
} yaml_alias[] = {
    {"num_moe_experts", "num_experts", false},
    {"share_embeddings_and_output_weights", "untie_embeddings_and_output_weights", true},
};

/* NeMo 1 records the activation instead: those that are gated.  Source: nemo/collections/nlp/modules/common/megatron/mlp.py (1.23). */
static const char *const yaml_gated[] = {"swiglu", "fast-swiglu", "geglu", "fast-geglu",
                                         "reglu",  "fast-reglu",  NULL};

static const char *yaml_field(const char *path)
{
    for (size_t i = 0; i < sizeof yaml_prefix / sizeof yaml_prefix[0]; i++) {
        size_t n = strlen(yaml_prefix[i]);

        if (strncmp(path, yaml_prefix[i], n) == 0)
            return path + n;
    }
    return path;
}

/* YAML 1.1's spellings as PyYAML and OmegaConf write and read them. */
static bool yaml_bool(const char *p, bool *out)
{
    static const char *const word[] = {"false", "False", "FALSE", "no",  "off",
                                       "true",  "True",  "TRUE",  "yes", "on"};

    for (size_t i = 0; i < sizeof word / sizeof word[0]; i++) {
        if (strcmp(p, word[i]) == 0) {
            *out = i >= 5;
            return true;
        }
    }
    return false;
}

static bool yaml_is_gated(const char *activation)
{
    const char *const *word = yaml_gated;

    while (*word && strcmp(*word, activation) != 0)
        word++;
    return *word != NULL;
}

/* Sets a size or flag from a scalar; repeated values must be equal. */
static bool yaml_set(struct megatron_settings *out, const char *name, const char *value,
                     bool opposite, struct zf_err *err)
{
    size_t digits = strspn(value, "0123456789");
    bool yes;

    if (yaml_bool(value, &yes)) {
        megatron_settings_flag(out, name, yes != opposite);
        return true;
    }
    if (digits == 0 || value[digits] || digits > 18)
        return true; /* null, another name, ${interpolation}: not recorded */
    return megatron_settings_size(out, name, strtoull(value, NULL, 10), err);
}

static bool yaml_take(void *ctx, const struct zf_yaml_scalar *s, struct zf_err *err)
{
    struct megatron_settings *out = ctx;
    const char *name = yaml_field(s->path), *value = s->value;
    bool opposite = false;

    if (strlen(value) != s->value_len)
        return true;
    if (strcmp(name, "activation") == 0) {
        name = "gated_linear_unit";
        value = yaml_is_gated(value) ? "true" : "false";
    } else if (!s->plain) {
        return true;
    }
    for (size_t i = 0; i < sizeof yaml_alias / sizeof yaml_alias[0]; i++) {
        if (strcmp(name, yaml_alias[i].field) == 0) {
            name = yaml_alias[i].args;
            opposite = yaml_alias[i].opposite;
        }
    }
    uint64_t before = megatron_settings_get(out, name);
    if (!yaml_set(out, name, value, opposite, err))
        return zf_err_in(err, "!%.60s", s->path);
    uint64_t now = megatron_settings_get(out, name);
    return before == 0 || before == now ||
           zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "%.80s is %.20s, but an earlier line of the file gives another value", s->path,
                   value);
}

bool megatron_settings_yaml_text(const char *text, size_t n, const struct zf_limits *lim,
                                 struct megatron_settings *out, struct zf_err *err)
{
    *out = (struct megatron_settings){0};
    return zf_yaml_scalars(text, n, lim, yaml_take, out, err);
}

static bool yaml_read(struct zf_store *st, const char *file, const struct zf_limits *lim,
                      struct megatron_settings *out, struct zf_err *err)
{
    uint64_t n = 0;
    zf_auto(mem) char *text = zf_store_slurp(st, file, YAML_FILE_MAX, &n, err);

    return text && (megatron_settings_yaml_text(text, (size_t)n, lim, out, err) ||
                    zf_err_in(err, "%s", file));
}

bool megatron_settings_yaml(struct zf_store *save, struct zf_store *outer,
                            const struct zf_limits *lim, struct megatron_settings *out,
                            char file[80], struct zf_err *err)
{
    struct zf_store *const place[] = {save, outer};

    *out = (struct megatron_settings){0};
    file[0] = '\0';
    for (size_t i = 0; i < 2; i++) {
        for (size_t k = 0; place[i] && k < sizeof yaml_files / sizeof yaml_files[0]; k++) {
            if (!zf_store_has(place[i], yaml_files[k], ZF_ENTRY_FILE))
                continue;
            (void)snprintf(file, 80, "%s", yaml_files[k]);
            return yaml_read(place[i], file, lim, out, err);
        }
    }
    return true;
}
