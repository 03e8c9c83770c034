/* SPDX-License-Identifier: Apache-2.0 */
/* config.json of transformers, as far as it says which type the weights have: by the keys "dtype"
 * (transformers 5) and "torch_dtype" (before), in the object itself and in the configurations of
 * parts inside it ("text_config" and the like).
 * Source: transformers configuration_utils.py (4.5x, 5.x): to_dict, dict_dtype_to_str,
 * sub_configs. */
#ifndef ZF_CODEC_HF_CONFIG_H
#define ZF_CODEC_HF_CONFIG_H

#include <zf/base/dtype.h>

/* One value: a type's name, or null. */
struct zf_hf_dtype {
    uint64_t off, len; /* bytes of the text, quotes included */
    bool top;          /* of the object itself, not of a part */
    bool known;        /* names a type we know */
    enum zf_dtype dtype;
};
#define ZF_HF_DTYPES 64

/* Finds the values in p[n], in order, at most ZF_HF_DTYPES; returns their number.  0 for what is no
 * JSON object or has more of them. */
uint32_t zf_hf_config_dtypes(const char *p, uint64_t n, struct zf_hf_dtype out[ZF_HF_DTYPES]);

#endif
