/* SPDX-License-Identifier: Apache-2.0 */
/* Detects whether a checkpoint's root holds what PEFT calls an adapter. */
#include "layout.h"

#include <string.h>

/* Does a tensor's piece come from a file of this name? */
static bool adapter_is_file(void *ctx, struct zf_source *src, uint64_t off, uint64_t len)
{
    const char *name = zf_source_origin(src, &off)->name, *slash = strrchr(name, '/');
    bool *out = ctx;

    (void)len;
    *out = strncmp(slash ? slash + 1 : name, "adapter_model.", 14) == 0;
    return false;
}

bool adapter_is(const struct zf_checkpoint *c)
{
    const struct zf_set *root = zf_checkpoint_set(c, "");
    bool config = zf_checkpoint_blob(c, "adapter_config.json") != NULL, file = false;

    for (uint32_t i = 0; config && root && i < root->n && !file; i++) {
        (void)zf_map_each_source(root->tensor[i].data, adapter_is_file, &file);
        if (!file && zf_map_size(root->tensor[i].data) > 0)
            return false;
    }
    return file;
}
