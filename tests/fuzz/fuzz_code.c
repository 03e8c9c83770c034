/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes are looked through for pickles and what they would import.  What our reader takes as a pickle is walked to
 * the same end. */
#include <stdlib.h>

#include <zf/codec/code.h>
#include <zf/codec/pickle.h>

#include "fuzz.h"

static bool ask(void *ctx, const struct zf_code_pickle *p, struct zf_err *err)
{
    (void)ctx;
    (void)err;
    for (size_t i = 0; i < p->walk->use.n; i++) {
        const struct zf_code_use *u = &p->walk->use.at[i];

        if (u->at >= p->in->size || (u->called != ZF_OFF_NONE && u->called < u->at) ||
            zf_code_class(u) >= ZF_CODE_CLASSES)
            abort();
    }
    return true;
}

static void same_end(const uint8_t *data, size_t size, const struct zf_limits *lim)
{
    struct zf_err err;
    zf_auto(arena) struct zf_arena *arena = zf_arena_new(16 * (uint64_t)size + (64 << 20), &err);
    struct zf_bytes in = zf_bytes_of(data, size);
    struct zf_code_walk walk;

    if (!arena || !zf_code_walk(&in, lim, &walk, &err))
        return;
    if (zf_pickle_load(&in, arena, lim, &err) &&
        (walk.why.code == ZF_E_FORMAT || (walk.why.code == ZF_OK && walk.end != in.at)))
        abort();
    zf_code_walk_fini(&walk);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_err err;
    zf_auto(source) struct zf_source *src =
        zf_mem_new("x.pkl", (void *)(uintptr_t)data, size, false, &err);

    lim.pickle_memory = 64 * (uint64_t)size + (1 << 20);
    if (src && !zf_code_file(src, &lim, ask, NULL, &err) && err.msg[0] == '\0')
        abort();
    same_end(data, size, &lim);
    return 0;
}
