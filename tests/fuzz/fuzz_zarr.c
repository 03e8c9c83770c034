/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes are a `.zarray`, a zero byte, and a chunk of that array.  What is read of the chunk in pieces,
 * from behind, is what reading it in one go gives, or both fail; every chunk has a name that says
 * which it is. */
#include <stdlib.h>
#include <string.h>

#include <zf/codec/zarr.h>

#include "fuzz.h"

#define MAX (1u << 18)
#define STEP 4099u

static void check_names(const struct zf_zarr *z)
{
    const uint64_t some[] = {0, z->n_chunks / 3, z->n_chunks - 1};

    for (size_t i = 0; z->n_chunks > 0 && i < sizeof some / sizeof some[0]; i++) {
        char name[ZF_ZARR_NAME];
        uint64_t number = 0;
        bool outside;

        if (zf_zarr_name(z, some[i], name) != strlen(name) ||
            !zf_zarr_number(z, name, &number, &outside) || number != some[i] || outside)
            abort();
    }
}

static bool read_back(struct zf_source *src, uint8_t *out, struct zf_err *err)
{
    for (uint64_t end = src->size; end > 0;) {
        uint64_t start = (end - 1) / STEP * STEP;

        if (!zf_source_pread(src, out + start, (size_t)(end - start), start, err))
            return false;
        end = start;
    }
    return true;
}

static void check_chunk(const struct zf_zarr *z, const void *p, uint64_t n,
                        const struct zf_limits *lim)
{
    static uint8_t got[MAX], want[MAX];
    struct zf_err err = {.code = ZF_OK};
    zf_auto(source) struct zf_source *file =
        zf_mem_new("chunk", (void *)(uintptr_t)p, n, false, &err);
    zf_auto(source) struct zf_source *src = file ? zf_zarr_chunk(z, file, lim, &err) : NULL;

    if (!src) {
        if (err.code == ZF_OK)
            abort(); /* a failure without a reason */
        return;
    }
    if (src->size != z->chunk_bytes)
        abort();
    if (src->size <= MAX) {
        bool back = read_back(src, got, &err);

        if (back != zf_source_pread(src, want, (size_t)src->size, 0, &err) ||
            (back && memcmp(got, want, (size_t)src->size) != 0))
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_err err = {.code = ZF_OK};
    const uint8_t *end = size ? memchr(data, 0, size) : NULL;
    size_t n = end ? (size_t)(end - data) : size;
    struct zf_zarr z;

    lim.chunk_bytes = MAX;
    lim.cache_bytes = MAX / 2;
    zf_auto(arena) struct zf_arena *arena = zf_arena_new(1u << 20, &err);
    if (!arena)
        return 0;
    if (!zf_zarr_load((const char *)data, n, &lim, arena, &z, &err)) {
        if (err.code == ZF_OK)
            abort();
        return 0;
    }
    check_names(&z);
    check_chunk(&z, end ? end + 1 : data, end ? size - n - 1 : 0, &lim);
    return 0;
}
