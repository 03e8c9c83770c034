/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes are read as YAML settings: there are never more scalars than bytes, and what the settings say
 * is in their range. */
#include <stdlib.h>
#include <string.h>

#include <zf/codec/yaml.h>

#include "fuzz.h"
#include "src/format/megatron/settings.h"

static bool count(void *ctx, const struct zf_yaml_scalar *s, struct zf_err *err)
{
    uint64_t *left = ctx;

    (void)err;
    if ((*left)-- == 0 || s->value[s->value_len] != '\0' || !s->path)
        abort();
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_err err = {.code = ZF_OK};
    struct megatron_settings s;
    uint64_t left = size + 1; /* an empty value is a scalar as well */

    bool ok = zf_yaml_scalars((const char *)data, size, &lim, count, &left, &err);
    if (megatron_settings_yaml_text((const char *)data, size, &lim, &s, &err)) {
        if (!ok)
            abort();
#define X(name, most)                                                                              \
    if (s.name > (most))                                                                           \
        abort();
        MEGATRON_SIZES(X)
#undef X
    }
    return 0;
}
