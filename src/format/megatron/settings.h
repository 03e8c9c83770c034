/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of the model and parallel sizes of the training job, as recorded in a checkpoint. */
#ifndef FORMAT_MEGATRON_SETTINGS_H
#define FORMAT_MEGATRON_SETTINGS_H

#include <zf/codec/pickle.h>
#include <zf/source/store.h>

/* X(name, most): numbers, by their names in Megatron's args; a value above `most` is refused. */
#define MEGATRON_SIZES(X)                                                                          \
    X(num_layers, 1u << 20)                                                                        \
    X(mtp_num_layers, 1u << 20)                                                                    \
    X(hidden_size, 1u << 30)                                                                       \
    X(ffn_hidden_size, 1u << 30)                                                                   \
    X(num_attention_heads, 1u << 24)                                                               \
    X(num_query_groups, 1u << 24)                                                                  \
    X(kv_channels, 1u << 24)                                                                       \
    X(padded_vocab_size, 1u << 30)                                                                 \
    X(max_position_embeddings, 1u << 30)                                                           \
    X(num_experts, 1u << 24)                                                                       \
    X(moe_ffn_hidden_size, 1u << 30)                                                               \
    X(moe_shared_expert_intermediate_size, 1u << 30)                                               \
    X(q_lora_rank, 1u << 24)                                                                       \
    X(kv_lora_rank, 1u << 24)                                                                      \
    X(qk_head_dim, 1u << 24)                                                                       \
    X(qk_pos_emb_head_dim, 1u << 24)                                                               \
    X(v_head_dim, 1u << 24)                                                                        \
    X(tensor_model_parallel_size, 1u << 20)                                                        \
    X(pipeline_model_parallel_size, 1u << 20)                                                      \
    X(virtual_pipeline_model_parallel_size, 1u << 20)                                              \
    X(expert_model_parallel_size, 1u << 20)                                                        \
    X(expert_tensor_parallel_size, 1u << 20)                                                       \
    X(world_size, 1u << 30)

#define MEGATRON_FLAGS(X)                                                                          \
    X(swiglu)                                                                                      \
    X(quick_geglu)                                                                                 \
    X(gated_linear_unit)                                                                           \
    X(group_query_attention)                                                                       \
    X(multi_latent_attention)                                                                      \
    X(attention_output_gate)                                                                       \
    X(untie_embeddings_and_output_weights)                                                         \
    X(use_distributed_optimizer)

/* The values of a flag. */
enum { MEGATRON_UNSAID, MEGATRON_NO, MEGATRON_YES };

struct megatron_settings {
    /* 0 = not recorded (also for None) */
#define X(name, most) uint64_t name;
    MEGATRON_SIZES(X)
#undef X
#define X(name) uint64_t name;
    MEGATRON_FLAGS(X)
#undef X
};

/* Sets the size of that name; unknown names are ignored.
 * Errors: ZF_E_FORMAT the value is out of its range. */
bool megatron_settings_size(struct megatron_settings *s, const char *name, uint64_t value,
                            struct zf_err *err) ZF_CHECKED;
void megatron_settings_flag(struct megatron_settings *s, const char *name, bool value);

/* The size, or the flag, of that name; 0: not recorded, or unknown name. */
uint64_t megatron_settings_get(const struct megatron_settings *s, const char *name);

/* Reads `args`: an argparse.Namespace, or a mapping; any other value has no settings.
 * Source: megatron/training/arguments.py (0.4 … 0.19), which all savers store whole.
 * Errors: ZF_E_FORMAT a size that is negative or out of its range. */
bool megatron_settings_args(const struct zf_pv *args, struct megatron_settings *out,
                            struct zf_err *err) ZF_CHECKED;

/* Megatron's defaults.  Source: megatron/training/arguments.py
 * (validate_args), megatron/core/transformer/transformer_config.py (__post_init__). */
/* Gated linear units: fc1 has twice as many rows as fc2 has columns. */
bool megatron_settings_gated(const struct megatron_settings *s);
uint64_t megatron_settings_groups(const struct megatron_settings *s);        /* of queries */
uint64_t megatron_settings_head(const struct megatron_settings *s);          /* channels; 0 = ? */
uint64_t megatron_settings_moe_ffn(const struct megatron_settings *s);       /* of one expert */
uint64_t megatron_settings_expert_tensor(const struct megatron_settings *s); /* parallel size */

/* Sizes from the YAML files that NeMo and Megatron-Bridge write instead of `args`. */

/* Looks for run_config.yaml, model_config.yaml, context/model.yaml or transformer_config.json in `save`, then in `outer`,
 * the directory that the save was found in (or NULL), and reads the first of them into *out,
 * whose sizes are all 0 otherwise. file[80]: the name of that file, or "".
 * Errors, in that file: ZF_E_FORMAT invalid YAML, a size out of range, or two different values of a
 * size; ZF_E_LIMIT; ZF_E_UNSUPPORTED built without libyaml.  They are not fatal, since the sizes
 * can be derived from the chunk grids. */
bool megatron_settings_yaml(struct zf_store *save, struct zf_store *outer,
                            const struct zf_limits *lim, struct megatron_settings *out,
                            char file[80], struct zf_err *err) ZF_CHECKED;

/* The same from the contents of such a file. */
bool megatron_settings_yaml_text(const char *text, size_t n, const struct zf_limits *lim,
                                 struct megatron_settings *out, struct zf_err *err) ZF_CHECKED;

#endif
