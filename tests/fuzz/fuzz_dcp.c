/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes are a DCP save, opened strictly and degraded; what opens is read.  Four bytes of
 * little-endian size, .metadata, and the rest is __0_0.distcp. */
#include <stdlib.h>

#include <zf/base/bytes.h>
#include <zf/find.h>

#include "fuzz.h"
#include "support/store_mem.h"
#include "opened.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_err err = {.code = ZF_OK};
    struct zf_bytes in = zf_bytes_of(data, size);
    uint64_t n = zf_bytes_le32(&in), left = zf_bytes_left(&in);
    const void *metadata = zf_bytes_take(&in, n < left ? n : left);
    const void *items;
    zf_auto(store) struct zf_store *st = NULL;

    if (!metadata)
        return 0;
    lim.pickle_memory = lim.model_memory = 64u << 20;
    lim.inflate_bytes = 16u << 20;
    lim.grid_cells = 1u << 16;
    n = n < left ? n : left;
    left = zf_bytes_left(&in);
    items = zf_bytes_take(&in, left);
    st = store_mem_new(&lim, &err);
    if (!st || !store_mem_add(st, ".metadata", metadata, n, &err) ||
        !store_mem_add(st, "__0_0.distcp", items, left, &err))
        return 0;
    opened_try(st, "dcp", &lim, false);
    opened_try(st, "dcp", &lim, true);
    return 0;
}
