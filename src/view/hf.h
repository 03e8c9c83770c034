/* SPDX-License-Identifier: Apache-2.0 */
/* hf/: the set cut into safetensors shards of a given size, with the index that
 * lists them, in the layout of save_pretrained.  Source: huggingface_hub
 * serialization (split_torch_state_dict_into_shards). */
#ifndef VIEW_HF_H
#define VIEW_HF_H

#include "bulk.h"

/* One shard: tensors [lo, hi) of the set, in natural order. */
struct hf_shard {
    uint32_t lo, hi;
};
struct hf_plan {
    struct hf_shard *shard;
    uint32_t n;
};

/* Cuts greedily: a tensor larger than `size` bytes has a shard of its own.  At least one shard. */
bool hf_cut(struct hf_plan *out, const struct shelf_set *ss, enum zf_dtype cast, uint64_t size,
            struct zf_arena *a, struct zf_err *err) ZF_CHECKED;

/* The side file that contains the dtype of the weights. */
#define HF_CONFIG "config.json"

/* The file that PEFT looks for next to adapter_config.json. */
#define HF_ADAPTER "adapter_model.safetensors"

/* Writes the name of shard i: "model-00001-of-00003.safetensors", or "model.safetensors" if it is the only one. */
void hf_name(const struct hf_plan *p, uint32_t i, char out[64]);

/* Is tensor i in the shards at all (can its type and name be written)? */
bool hf_holds(const struct shelf_set *ss, uint32_t i, enum zf_dtype cast);

/* model.safetensors.index.json; its shard is the struct hf_plan. */
extern const struct bulk_kind bulk_hf_index;

/* config.json below as/<dtype>/; its shard is the struct zf_blob of the checkpoint's own config.json. */
extern const struct bulk_kind bulk_hf_config;

#endif
