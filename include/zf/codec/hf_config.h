/* SPDX-License-Identifier: Apache-2.0 */
/* The dtypes of the weights in config.json of transformers: the keys "dtype" (transformers 5) and "torch_dtype"
 * (before), in the object itself and in the nested configurations of its parts ("text_config" and the like).
 * Source: transformers configuration_utils.py (4.5x, 5.x): to_dict, dict_dtype_to_str,
 * sub_configs. */
#ifndef ZF_CODEC_HF_CONFIG_H
#define ZF_CODEC_HF_CONFIG_H

#include <zf/base/dtype.h>

/* One value: a type's name, or null. */
struct zf_hf_dtype {
    uint64_t off, len; /* bytes of the value in the text, quotes included */
    bool top;          /* it belongs to the object itself, not to a part */
    bool known;        /* it names a supported type */
    enum zf_dtype dtype;
};
#define ZF_HF_DTYPES 64

/* Finds the values in p[n], in order, and returns their number; 0 if p is no JSON object or has more than
 * ZF_HF_DTYPES. */
uint32_t zf_hf_config_dtypes(const char *p, uint64_t n, struct zf_hf_dtype out[ZF_HF_DTYPES]);

#endif
