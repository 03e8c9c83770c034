/* SPDX-License-Identifier: Apache-2.0 */
/* The meaning of Megatron's keys.  Pure: texts in, texts out.
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
    MG_STATE,  /* of an optimizer, for one parameter */
    MG_BUCKET, /* of an optimizer, for many */
    MG_OBJECT,
    MG_OTHER, /* of an optimizer, of a form not known; or random numbers' state */
};

#define MG_NO_CHAIN UINT32_MAX

struct mg_key {
    enum mg_what what;
    uint32_t chain;           /* N of "chained_N.", or MG_NO_CHAIN */
    struct mg_text state;     /* STATE, BUCKET: "exp_avg"; BUCKET of several values: "" */
    struct mg_text container; /* STATE: the optimizer that has it, "chained_1.optimizer" */
    /* WEIGHT, STATE: the parameter, without model. and module.; OBJECT: what the whole grid is called */
    struct mg_text name;
    /* WEIGHT, STATE: where in `name` the number of the layer, or of the expert, would be if the tensor
     * were not stacked: behind "layers." and "experts.experts.".  0 = the name has no such place. */
    size_t layer_at, expert_at;
    struct {
        uint64_t group, gbuf, bucket;
        struct mg_text dtype; /* "(torch.bfloat16, torch.float32)" */
    } flat;                   /* BUCKET */
};

/* Always succeeds: what is not understood is a weight, or, of an optimizer, MG_OTHER. */
void mg_key_parse(const char *key, size_t n, struct mg_key *out);

#define MG_FSDP_MASTERS "fp32_from_fp16_params"

/* The same of a flattened key; what is not understood is MG_OTHER.  A master without a name is MG_STATE of the
 * state MG_FSDP_MASTERS, its name "<group>.<i>". */
void mg_fsdp_key(const char *key, size_t n, struct mg_key *out);

/* Sets the places of layer_at and expert_at in `name`. */
void mg_key_find_axes(struct mg_key *k);

/* Is the state a copy in full precision of the parameter itself? */
bool mg_key_is_master(struct mg_text state);
/* Is the name that of a module's buffer or state, which no optimizer has? */
bool mg_key_is_buffer(struct mg_text name);
bool mg_text_is(struct mg_text t, const char *text);
bool mg_text_same(struct mg_text a, struct mg_text b);
bool mg_text_ends(struct mg_text t, const char *end);
/* Takes `word` from the front of *t; false: it does not begin so. */
bool mg_text_take(struct mg_text *t, const char *word);
/* Takes a decimal number of at most 18 digits from the front of *t; false: there is none. */
bool mg_text_take_number(struct mg_text *t, uint64_t *out);
/* The number that is all of the text; false: it is none. */
bool mg_text_number(struct mg_text t, uint64_t *out);
/* Takes "<word>N." from the front of *t, N below MG_NO_CHAIN; false: it does not begin so. */
bool mg_text_take_chain(struct mg_text *t, const char *word, uint32_t *chain);

#define MG_NONE UINT64_MAX /* no layer, no expert */
/* k->name with the numbers of layer and expert inserted, as the numbered form of the same model has
 * them.  Writes up to `size` bytes, terminated; the number of bytes it would take, without the end. */
size_t mg_key_numbered(const struct mg_key *k, uint64_t layer, uint64_t expert, char *out,
                       size_t size);

#endif
