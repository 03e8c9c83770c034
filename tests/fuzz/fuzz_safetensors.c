/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes are read as a safetensors file; what was accepted is written anew and must read the
 * same. */
#include <stdlib.h>
#include <string.h>

#include <zf/codec/json.h>
#include <zf/codec/safetensors.h>

#include "fuzz.h"

static void check(const struct zf_st_entry *a, const struct zf_st_entry *b)
{
    if (a->dtype != b->dtype || a->ndim != b->ndim || a->end - a->begin != b->end - b->begin ||
        a->name_len != b->name_len || memcmp(a->name, b->name, a->name_len) != 0)
        abort();
    for (uint32_t d = 0; d < a->ndim; d++)
        if (a->shape[d] != b->shape[d])
            abort();
}

static void again(const struct zf_st_header *h, struct zf_arena *arena, const struct zf_limits *lim)
{
    struct zf_err err = {.code = ZF_OK};
    struct zf_st_header read;
    char *text = NULL;
    uint64_t n = 0;
    struct zf_st_entry *e = zf_arena_get(arena, h->n, sizeof *e, &err);

    if (!e)
        return;
    memcpy(e, h->entry, h->n * sizeof *e);
    if (!zf_st_emit(e, h->n, NULL, &text, &n, &err))
        return;
    zf_auto(source) struct zf_source *src = zf_mem_new("again", text, n, true, &err);
    if (!src || !zf_st_load_head(src, arena, lim, &read, &err)) {
        if (err.code == ZF_E_LIMIT || err.code == ZF_E_NOMEM)
            return;
        abort();
    }
    if (read.n != h->n)
        abort();
    for (uint64_t i = 0; i < h->n; i++)
        check(&h->entry[i], &read.entry[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_err err = {.code = ZF_OK};
    struct zf_st_header h;
    zf_auto(arena) struct zf_arena *arena = zf_arena_new(64 * (uint64_t)size + (1 << 20), &err);
    zf_auto(json) json_t *j = zf_json_load((const char *)data, size, &lim, &err);
    zf_auto(source) struct zf_source *src =
        zf_mem_new("input", (void *)(uintptr_t)data, size, false, &err);

    (void)j; /* whatever it is, it must not crash */
    if (!arena || !src)
        return 0;
    (void)zf_st_sniff(src);
    if (zf_st_load(src, arena, &lim, &h, &err) && h.end_off != size)
        abort();
    if (zf_st_load_head(src, arena, &lim, &h, &err))
        again(&h, arena, &lim);
    return 0;
}
