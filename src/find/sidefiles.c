/* SPDX-License-Identifier: Apache-2.0 */
#include "sidefiles.h"

#include <fnmatch.h>
#include <string.h>

#include <zf/base/name.h>

#include "save_name.h"

/* Files that from_pretrained looks for beside the weights.  Source: transformers 4.5x, utils/__init__.py
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

/* JSON files of training programs, shown under state/ as they are.
 * Source: transformers trainer.py (4.x, 5.x); NeMo-RL utils/checkpoint.py (0.3). */
static const char *const sidefiles_state[] = {"trainer_state.json", "training_info.json",
                                              "training_args.json", "fsdp_config.json", NULL};

static bool sidefiles_is_state(const char *name)
{
    return save_name_fits(name, sidefiles_state, FNM_PERIOD);
}

bool sidefiles_is(const char *name)
{
    return save_name_fits(name, sidefiles_pattern, FNM_PERIOD) || sidefiles_is_state(name);
}

/* Where the file is shown. */
static void sidefiles_path(char out[sizeof "state/" + ZF_NAME_MAX], const char *name)
{
    static const char state_dir[] = "state/";
    size_t n = sidefiles_is_state(name) ? sizeof state_dir - 1 : 0;

    memcpy(out, state_dir, n);
    (void)zf_name_encode(out + n, name, strlen(name), "");
}

static bool sidefiles_pass(struct zf_store *st, const char *name, struct zf_build *b,
                           struct zf_err *err)
{
    char file[sizeof "state/" + ZF_NAME_MAX];
    zf_auto(source) struct zf_source *src = zf_store_open(st, name, err);

    if (!src) {
        return false;
    }
    sidefiles_path(file, name);
    if (zf_build_has_file(b, file)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "the checkpoint itself holds a %s", file);
    }
    return zf_build_blob(b, file, src, 0, src->size, err);
}

/* Adds the file, or notes why it is not shown. */
static bool sidefiles_try(struct zf_store *st, const char *name, struct zf_build *b,
                          struct zf_err *err)
{
    struct zf_err why = {.code = ZF_OK};

    return sidefiles_pass(st, name, b, &why) ||
           zf_build_note(b, err, "%s beside the checkpoint is not shown: %s", name, why.msg);
}

bool sidefiles_add(struct zf_store *st, struct zf_store *but, struct zf_build *b,
                   struct zf_err *err)
{
    const struct zf_entry *e;
    size_t n;

    if (!zf_store_list(st, "", &e, &n, err)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        bool side = e[i].kind != ZF_ENTRY_DIR && sidefiles_is(e[i].name);

        if (side && !(but && zf_store_has(but, e[i].name, ZF_ENTRY_FILE)) &&
            !sidefiles_try(st, e[i].name, b, err)) {
            return false;
        }
    }
    return true;
}

bool sidefiles_adapter(struct zf_store *st, struct zf_build *b, struct zf_err *err)
{
    static const char name[] = "adapter_model.safetensors";

    return !zf_store_has(st, "adapter_config.json", ZF_ENTRY_FILE) ||
           !zf_store_has(st, name, ZF_ENTRY_FILE) || zf_build_has_file(b, name) ||
           sidefiles_try(st, name, b, err);
}

bool sidefiles_from(const char *dir, const struct zf_limits *lim, struct zf_build *b,
                    struct zf_err *err)
{
    struct zf_err why = {.code = ZF_OK};
    zf_auto(store) struct zf_store *st = zf_store_dir(dir, lim, &why);
    char file[sizeof "state/" + ZF_NAME_MAX];
    const struct zf_entry *e;
    size_t n, taken = 0;

    if (!st || !zf_store_list(st, "", &e, &n, &why)) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "side=%.200s: %s", dir, why.msg);
    }
    if (zf_store_focus(st)) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "side=%.200s is a file, not a directory", dir);
    }
    for (size_t i = 0; i < n; i++) {
        /* A training program's own JSON is no part of the model. */
        if (e[i].kind == ZF_ENTRY_DIR || !sidefiles_is(e[i].name) ||
            sidefiles_is_state(e[i].name)) {
            continue;
        }
        sidefiles_path(file, e[i].name);
        taken++;
        why = (struct zf_err){.code = ZF_OK};
        if (!zf_build_has_file(b, file) && !sidefiles_pass(st, e[i].name, b, &why) &&
            !zf_build_note(b, err, "%s in side=%.200s is not shown: %s", e[i].name, dir, why.msg)) {
            return false;
        }
    }
    return taken > 0 ||
           zf_build_note(b, err, "side=%.200s holds no config.json, tokenizer or other side file",
                         dir);
}
