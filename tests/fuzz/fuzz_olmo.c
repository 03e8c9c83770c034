/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes are what OLMo wrote, opened strictly and degraded; what opens is read.  The first byte says
 * what: '6' the name of a tensor in base64; 'c' four bytes of little-endian size, model/metadata.json of
 * OLMo-core 0.x, and the rest is model/rank_0.safetensors; else a size, model/rank0.pt with flat parameters,
 * and the rest is optim/rank0.pt. */
#include <stdlib.h>

#include <zf/base/bytes.h>
#include <zf/find.h>

#include "fuzz.h"
#include "support/store_mem.h"
#include "opened.h"
#include "src/format/olmo/key64.h"

static void try_name(const void *p, size_t n, const struct zf_limits *lim)
{
    struct zf_err err = {.code = ZF_OK};
    zf_auto(arena) struct zf_arena *a = zf_arena_new(lim->model_memory, &err);
    struct zf_path path;
    bool pickled;

    if (a && key64_read(p, n, lim, a, &path, &pickled, &err))
        for (uint32_t i = 0; i < path.n; i++)
            (void)(path.step[i].n > 0 && path.step[i].p[path.step[i].n - 1]);
    else if (err.code == ZF_OK)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_err err = {.code = ZF_OK};
    struct zf_bytes in = zf_bytes_of(data, size);
    uint8_t kind = zf_bytes_u8(&in);
    uint64_t n = kind == '6' ? 0 : zf_bytes_le32(&in), left = zf_bytes_left(&in);
    bool core = kind == 'c';

    lim.pickle_memory = lim.model_memory = 64u << 20;
    lim.inflate_bytes = lim.json_bytes = lim.text_bytes = 4u << 20;
    lim.grid_cells = 1u << 16;
    lim.pickle_depth = 500;
    if (kind == '6') {
        try_name(data + 1, size - 1, &lim);
        return 0;
    }
    n = n < left ? n : left;
    const void *first = zf_bytes_take(&in, n);
    left = zf_bytes_left(&in);
    const void *second = zf_bytes_take(&in, left);
    zf_auto(store) struct zf_store *st = store_mem_new(&lim, &err);
    if (!first || !second || !st ||
        !store_mem_add(st, core ? "model/metadata.json" : "model/rank0.pt", first, n, &err) ||
        !store_mem_add(st, core ? "model/rank_0.safetensors" : "optim/rank0.pt", second, left,
                       &err))
        return 0;
    opened_try(st, "olmo", &lim, false);
    opened_try(st, "olmo", &lim, true);
    return 0;
}
