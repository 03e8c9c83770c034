/* SPDX-License-Identifier: Apache-2.0 */
/* Files that belong to a model but contain no weights: they are shown unchanged. */
#include "beside.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include <zf/base/name.h>

#include "save_name.h"

/* Files that from_pretrained looks for next to the weights.  Source: transformers 4.5x, utils/__init__.py
 * and tokenization_utils_base.py (the names ending in _NAME and _FILE), vocab_files_names of the
 * tokenizers; tekken.json of mistral-common, hf_quant_config.json of TensorRT Model Optimizer. */
static const char *const sidefiles_pattern[] = {
    "config.json",
    "generation_config.json",
    "adapter_config.json",
    "quantize_config.json",
    "quantization_config.json",
    "hf_quant_config.json",
    "tokenizer*",
    "tekken.json",
    "*.model",
    "*.spm",
    "*.tiktoken",
    "vocab*",
    "merges.txt",
    "params.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "preprocessor_config.json",
    "processor_config.json",
    "video_preprocessor_config.json",
    "image_processor_config.json",
    "feature_extractor_config.json",
    "chat_template*",
    "modules.json",
    "sentence_bert_config.json",
    "configuration_*.py",
    "modeling_*.py",
    "tokenization_*.py",
    "processing_*.py",
    "image_processing_*.py",
    "video_processing_*.py",
    "feature_extraction_*.py",
    NULL,
};

/* Settings of training programs, shown unchanged under state/.
 * Source: transformers trainer.py (4.x, 5.x); NeMo-RL utils/checkpoint.py (0.3); Megatron-Bridge
 * training/utils/checkpoint_utils.py (0.2 … 0.6), CONFIG_FILE; NeMo 1 core/connectors/
 * save_restore_connector.py, model_config_yaml; OLMo olmo/checkpoint.py (0.2 … 0.6), config.yaml; verl
 * utils/checkpoint/megatron_checkpoint_manager.py (0.9), the last two. */
static const char *const sidefiles_state[] = {"trainer_state.json",
                                              "training_info.json",
                                              "training_args.json",
                                              "fsdp_config.json",
                                              "run_config.yaml",
                                              "model_config.yaml",
                                              "config.yaml",
                                              "losses.json",
                                              "transformer_config.json",
                                              "ckpt_contents.json",
                                              NULL};

/* Directories with side files next to the weights: the tokenizer (Megatron-Bridge, NeMo-RL), verl's
 * model/huggingface, and NeMo 2's description of the model and its trainer.
 * Source: NeMo nemo/lightning/io/mixin.py and pl.py (2.0 … 2.4), "context", "nemo_tokenizer". */
static const char *const sidefiles_dir[] = {
    "tokenizer", "context", "context/nemo_tokenizer", "model/huggingface", "huggingface", NULL};

/* Settings in NeMo 2's context/, also shown under state/. */
static const char *const sidefiles_context[] = {"model.yaml", "io.json", NULL};

/* GPT-NeoX copies its settings files to this directory.  Source: gpt-neox megatron/checkpointing.py (2.0). */
#define SIDEFILES_CONFIGS "configs"
static const char *const sidefiles_yaml[] = {"*.yml", "*.yaml", NULL};

static bool sidefiles_is_state(const char *name)
{
    return save_name_fits(name, sidefiles_state, FNM_PERIOD);
}

bool sidefiles_is(const char *name)
{
    return save_name_fits(name, sidefiles_pattern, FNM_PERIOD) || sidefiles_is_state(name);
}

/* Adds the file, below state/ or at the root.  fill: does not replace a file that is already there. */
static bool sidefiles_pass(struct zf_store *st, const char *name, bool state, bool fill,
                           struct zf_build *b, struct zf_err *err)
{
    char file[sizeof "state/" + ZF_NAME_MAX] = "state/";
    size_t n = state ? strlen(file) : 0;

    (void)zf_name_encode(file + n, name, strlen(name), "");
    const bool taken = zf_build_has_file(b, file);
    if (taken && fill)
        return true;
    zf_auto(source) struct zf_source *src = zf_store_open(st, name, err);
    if (src && taken)
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "the checkpoint has its own %s", file);
    return src && zf_build_blob(b, file, src, 0, src->size, err);
}

/* Records that a note says why the file is not shown. */
static bool sidefiles_noted(struct zf_build *b, const char *name, const struct zf_err *why,
                            struct zf_err *err)
{
    return zf_build_note_names(b, why->path[0] ? why->path : name, why->msg, err);
}

/* Adds the file, or notes why it is not shown. */
static bool sidefiles_try(struct zf_store *st, const char *name, struct zf_build *b,
                          struct zf_err *err)
{
    struct zf_err why = {.code = ZF_OK};

    return sidefiles_pass(st, name, sidefiles_is_state(name), false, b, &why) ||
           (zf_build_note_on(b, ZF_NOTE_UNSHOWN, name, err,
                             "%s next to the checkpoint is not shown: %s", name, why.msg) &&
            sidefiles_noted(b, name, &why, err));
}

bool sidefiles_add(struct zf_store *st, struct zf_store *but, struct zf_build *b,
                   struct zf_err *err)
{
    const struct zf_entry *e;
    size_t n;

    if (!zf_store_list(st, "", &e, &n, err))
        return false;
    for (size_t i = 0; i < n; i++) {
        bool side = e[i].kind != ZF_ENTRY_DIR && sidefiles_is(e[i].name);

        if (side && !(but && zf_store_has(but, e[i].name, ZF_ENTRY_FILE)) &&
            !sidefiles_try(st, e[i].name, b, err))
            return false;
    }
    return true;
}

/* Adds the side files of the directory `dir` of st that are not there already. */
static bool sidefiles_of_dir(struct zf_store *st, const char *dir, struct zf_build *b,
                             struct zf_err *err)
{
    struct zf_err ignored = {.code = ZF_OK};
    zf_auto(store) struct zf_store *sub = zf_store_sub(st, dir, &ignored);
    bool context = strcmp(dir, "context") == 0;

    for (struct zf_entries l = zf_store_entries(st, dir); sub && l.e < l.end; l.e++) {
        bool state = context && save_name_fits(l.e->name, sidefiles_context, FNM_PERIOD);
        struct zf_err why = {.code = ZF_OK};

        if (l.e->kind == ZF_ENTRY_DIR || !(state || sidefiles_is(l.e->name)))
            continue;
        if (!sidefiles_pass(sub, l.e->name, state || sidefiles_is_state(l.e->name), true, b,
                            &why) &&
            !(zf_build_note_on(b, ZF_NOTE_UNSHOWN, l.e->name, err, "%s/%s is not shown: %s", dir,
                               l.e->name, why.msg) &&
              sidefiles_noted(b, l.e->name, &why, err)))
            return false;
    }
    return true;
}

/* Adds all settings of the directory as state/DIRECTORY/NAME. */
static bool sidefiles_configs(struct zf_store *st, struct zf_build *b, struct zf_err *err)
{
    for (struct zf_entries l = zf_store_entries(st, SIDEFILES_CONFIGS); l.e < l.end; l.e++) {
        char from[sizeof SIDEFILES_CONFIGS "/" + ZF_NAME_MAX];
        char file[sizeof "state/" SIDEFILES_CONFIGS "/" + ZF_NAME_MAX] =
            "state/" SIDEFILES_CONFIGS "/";
        struct zf_err why = {.code = ZF_OK};

        if (l.e->kind == ZF_ENTRY_DIR || !save_name_fits(l.e->name, sidefiles_yaml, FNM_PERIOD))
            continue;
        (void)snprintf(from, sizeof from, SIDEFILES_CONFIGS "/%s", l.e->name);
        (void)zf_name_encode(file + strlen(file), l.e->name, strlen(l.e->name), "");
        if (zf_build_has_file(b, file))
            continue;
        zf_auto(source) struct zf_source *src = zf_store_open(st, from, &why);
        if (!(src && zf_build_blob(b, file, src, 0, src->size, &why)) &&
            !(zf_build_note_on(b, ZF_NOTE_UNSHOWN, from, err, "%s is not shown: %s", from,
                               why.msg) &&
              sidefiles_noted(b, from, &why, err)))
            return false;
    }
    return true;
}

const char *sidefiles_below_dir(size_t i)
{
    return sidefiles_dir[i];
}

bool sidefiles_below(struct zf_store *st, struct zf_build *b, struct zf_err *err)
{
    if (!sidefiles_configs(st, b, err))
        return false;
    for (size_t i = 0; sidefiles_dir[i]; i++)
        if (!sidefiles_of_dir(st, sidefiles_dir[i], b, err))
            return false;
    return true;
}

bool sidefiles_adapter(struct zf_store *st, struct zf_build *b, struct zf_err *err)
{
    static const char name[] = "adapter_model.safetensors";

    return !zf_store_has(st, "adapter_config.json", ZF_ENTRY_FILE) ||
           !zf_store_has(st, name, ZF_ENTRY_FILE) || zf_build_has_file(b, name) ||
           sidefiles_try(st, name, b, err);
}

bool sidefiles_from(const char *dir, const struct zf_open_opts *o, struct zf_build *b,
                    struct zf_err *err)
{
    struct zf_err why = {.code = ZF_OK};
    zf_auto(store) struct zf_store *st = zf_store_by(o->opener, dir, o->lim, &why);
    const struct zf_entry *e;
    size_t n, taken = 0;

    if (!st || !zf_store_list(st, "", &e, &n, &why))
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "side=%.200s: %s", dir, why.msg);
    if (zf_store_focus(st))
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "side=%.200s is a file, not a directory", dir);
    for (size_t i = 0; i < n; i++) {
        /* A training program's own JSON is not part of the model. */
        if (e[i].kind == ZF_ENTRY_DIR || !sidefiles_is(e[i].name) || sidefiles_is_state(e[i].name))
            continue;
        taken++;
        why = (struct zf_err){.code = ZF_OK};
        /* A trainer may use this name for its own settings, but hf/ needs the model's file. */
        const bool second =
            strcmp(e[i].name, "config.json") == 0 && zf_build_has_file(b, e[i].name);
        if (!sidefiles_pass(st, e[i].name, second, true, b, &why) &&
            !(zf_build_note_on(b, ZF_NOTE_UNSHOWN, e[i].name, err,
                               "%s in side=%.200s is not shown: %s", e[i].name, dir, why.msg) &&
              sidefiles_noted(b, e[i].name, &why, err)))
            return false;
    }
    return taken > 0 ||
           zf_build_note(b, err, "side=%.200s holds no config.json, tokenizer or other side file",
                         dir);
}
