/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the dtype named in config.json against the weights. */
#include "info.h"

#include <stdio.h>
#include <stdlib.h>

#include <zf/codec/hf_config.h>

/* The type that config.json names for the whole model. */
static bool config_dtype(const struct zf_blob *b, const struct zf_limits *lim, enum zf_dtype *out)
{
    struct zf_hf_dtype at[ZF_HF_DTYPES];
    struct zf_err ignored = {.code = ZF_OK};
    uint64_t n = zf_map_size(b->data);
    zf_auto(mem) char *text = n <= lim->json_bytes ? malloc(n + 1) : NULL;

    if (!text || !zf_map_read(b->data, text, n, 0, &ignored))
        return false;
    uint32_t found = zf_hf_config_dtypes(text, n, at);
    /* If a key occurs twice, the last one counts. */
    for (uint32_t i = found; i-- > 0;) {
        if (at[i].top && at[i].known) {
            *out = at[i].dtype;
            return true;
        }
    }
    return false;
}

/* Finds the dtype with the most bytes.  Integers and 8-bit types are ignored: they are storage formats,
 * which config.json does not name. */
static bool note_weights_dtype(const struct zf_set *set, enum zf_dtype *out)
{
    static const enum zf_dtype types[] = {ZF_DT_F32, ZF_DT_BF16, ZF_DT_F16, ZF_DT_F64};
    uint64_t bytes[ZF_DT_COUNT] = {0}, most = 0;

    for (uint32_t i = 0; set && i < set->n; i++)
        bytes[set->tensor[i].dtype] += zf_map_size(set->tensor[i].data);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (bytes[types[i]] > most) {
            most = bytes[types[i]];
            *out = types[i];
        }
    }
    return most > 0;
}

char *config_note(const struct zf_checkpoint *c, const struct zf_limits *lim)
{
    const struct zf_blob *config = zf_checkpoint_blob(c, "config.json");
    enum zf_dtype says, have;
    char *text;

    if (!config || !config_dtype(config, lim, &says) ||
        !note_weights_dtype(zf_checkpoint_set(c, ""), &have) || says == have)
        return NULL;
    return asprintf(&text,
                    "config.json says %s, but most of the weights are %s; below as/ it says what "
                    "is served",
                    zf_dtype_info(says)->torch, zf_dtype_info(have)->torch) < 0
               ? NULL
               : text;
}
