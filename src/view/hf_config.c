/* SPDX-License-Identifier: Apache-2.0 */
/* hf/config.json below as/<dtype>/: the file that came along, with the type that is served in place
 * of the one that was saved; from_pretrained would cast back otherwise.  Every other byte is as it
 * was. */
#include <stdlib.h>
#include <string.h>

#include <zf/codec/hf_config.h>

#include "hf.h"

/* Longer ones are no configuration and are passed through. */
#define CONFIG_MAX (16ull << 20)

static bool hf_config_add_edited(const struct bulk *b, struct bulk_plan *p, const char *text,
                                 uint64_t n, struct zf_err *err)
{
    const char *served = zf_dtype_info(b->cast)->torch;
    struct zf_hf_dtype at[ZF_HF_DTYPES];
    uint32_t found = zf_hf_config_dtypes(text, n, at);
    uint64_t done = 0;

    for (uint32_t i = 0; i < found; i++) {
        if (!bulk_add_mem(p, text + done, at[i].off - done, err) ||
            !bulk_add_mem(p, "\"", 1, err) || !bulk_add_mem(p, served, strlen(served), err) ||
            !bulk_add_mem(p, "\"", 1, err)) {
            return false;
        }
        done = at[i].off + at[i].len;
    }
    return bulk_add_mem(p, text + done, n - done, err);
}

static bool hf_config_plan(const struct bulk *b, struct bulk_plan *p, struct zf_err *err)
{
    const struct zf_blob *file = b->shard;
    uint64_t n = zf_map_size(file->data);

    if (n > CONFIG_MAX) {
        return bulk_add_map(p, file->data, err);
    }
    zf_auto(mem) char *text = malloc(n + 1);
    if (!text) {
        return zf_fail_sys(err, "read config.json");
    }
    return zf_map_read(file->data, text, n, 0, err) && hf_config_add_edited(b, p, text, n, err);
}

const struct bulk_kind bulk_hf_config = {.name = HF_CONFIG, .plan = hf_config_plan};
