/* SPDX-License-Identifier: Apache-2.0 */
/* Parses Megatron's keys.  Pure string functions.
 *
 *   [model.][module.…]<parameter>                                a weight
 *   [chained_N.]optimizer.state.<state>.[module.…]<parameter>    a value of an optimizer's state
 *   [chained_N.]optimizer.distributed.dp_group_idx_G.gbuf_idx_B.dtype_D.bucket_idx_K.<state>
 *                                                                a flat buffer of many parameters
 *   <anything>/shard_<offset>_<shape>                            an object, one of a grid of them
 *
 * Source: megatron/core/dist_checkpointing/mapping.py (ShardedObject.unique_key), optimizer/optimizer.py,
 * optimizer/distrib_optimizer.py (sharded_param_state_*; 0.6 … 0.19).
 *
 * In a state dict that torch.distributed.checkpoint flattened by itself:
 *
 *   model.[module.…]<parameter>                                  a weight
 *   optimizer.[N.][optimizer.]state.[module.…]<parameter>.<state>
 *                                                                a value of an optimizer's state; the
 *                                                                parameter may be an integer id
 *   optimizer.[N.][optimizer.]fp32_from_fp16_params.<group>.<i>  a master copy, without a name
 *
 * Source: megatron/training/checkpointing.py (generate_state_dict; preprocess_fsdp_dtensor_state_dict,
 * core 0.15 … 0.19), megatron/core/optimizer/optimizer.py (Float16OptimizerWithFloat16Params.state_dict). */
#ifndef FORMAT_MEGATRON_KEYS_H
#define FORMAT_MEGATRON_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Borrowed, not terminated. */
struct mg_text {
    const char *p;
    size_t n;
};

enum mg_what {
    MG_WEIGHT,
    MG_STATE,  /* optimizer state of one parameter */
    MG_BUCKET, /* flat buffer: optimizer state of many parameters */
    MG_OBJECT,
    MG_OTHER, /* an optimizer's key of unknown form; or a random state */
};

#define MG_NO_CHAIN UINT32_MAX

struct mg_key {
    enum mg_what what;
    uint32_t chain;           /* N of "chained_N.", or MG_NO_CHAIN */
    struct mg_text state;     /* STATE, BUCKET: "exp_avg"; BUCKET of several values: "" */
    struct mg_text container; /* STATE: its optimizer, "chained_1.optimizer" */
    /* WEIGHT, STATE: the parameter, without model. and module.; OBJECT: the name of the whole grid */
    struct mg_text name;
    /* WEIGHT, STATE: index in `name` at which the number of the layer, or of the expert, is missing
     * because the tensor is stacked: after "layers." and "experts.experts.".  0 = none is missing. */
    size_t layer_at, expert_at;
    struct {
        uint64_t group, gbuf, bucket;
        struct mg_text dtype; /* "(torch.bfloat16, torch.float32)" */
    } flat;                   /* BUCKET */
};

/* Always succeeds: a key of unknown form is a weight, or, if an optimizer's, MG_OTHER. */
void mg_key_parse(const char *key, size_t n, struct mg_key *out);

#define MG_FSDP_MASTERS "fp32_from_fp16_params"

/* The same for a flattened key; a key of unknown form is MG_OTHER.  A master without a name is MG_STATE with the
 * state MG_FSDP_MASTERS and the name "<group>.<i>". */
void mg_fsdp_key(const char *key, size_t n, struct mg_key *out);

/* Sets layer_at and expert_at from `name`. */
void mg_key_find_axes(struct mg_key *k);

/* Is the state the parameter's fp32 master? */
bool mg_key_is_master(struct mg_text state);
/* Is the name that of a module's buffer or extra state, which is in no optimizer? */
bool mg_key_is_buffer(struct mg_text name);
bool mg_text_is(struct mg_text t, const char *text);
bool mg_text_same(struct mg_text a, struct mg_text b);
bool mg_text_ends(struct mg_text t, const char *end);
/* Takes `word` from the front of *t; false: it does not begin with it. */
bool mg_text_take(struct mg_text *t, const char *word);
/* Takes a decimal number of at most 18 digits from the front of *t; false: there is none. */
bool mg_text_take_number(struct mg_text *t, uint64_t *out);
/* Parses the whole text as a number; false: it is none. */
bool mg_text_number(struct mg_text t, uint64_t *out);
/* Takes "<word>N." from the front of *t, N below MG_NO_CHAIN; false: it does not begin like that. */
bool mg_text_take_chain(struct mg_text *t, const char *word, uint32_t *chain);

#define MG_NONE UINT64_MAX /* no layer, no expert */
/* k->name with the numbers of layer and expert inserted, as in a save without stacked tensors.  Writes at
 * most `size` bytes, terminated.  Returns the full length, without the terminator. */
size_t mg_key_numbered(const struct mg_key *k, uint64_t layer, uint64_t expert, char *out,
                       size_t size);

#endif
