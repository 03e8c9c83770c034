/* SPDX-License-Identifier: Apache-2.0 */
#include "sources.h"

#include <stdlib.h>

struct zf_sources_slot {
    struct zf_source *src;
    uint32_t number;
};

/* Addresses come from our own allocator, so a plain multiplicative hash is enough. */
static uint32_t slot_of(const struct zf_sources *t, const struct zf_source *s)
{
    uint64_t h = (uint64_t)(uintptr_t)s * 0x9e3779b97f4a7c15u;
    uint32_t i = (uint32_t)(h >> 32) & (t->n_slots - 1);

    while (t->slot[i].src && t->slot[i].src != s) {
        i = (i + 1) & (t->n_slots - 1);
    }
    return i;
}

static bool grow(struct zf_sources *t, struct zf_err *err)
{
    uint32_t cap = t->cap ? t->cap * 2 : 16;
    struct zf_source **at = cap > UINT32_MAX / 4 ? NULL : realloc(t->at, cap * sizeof(*at));

    if (!at) {
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "no memory for the list of sources");
    }
    t->at = at;
    if (t->n == 0) {
        t->at[t->n++] = NULL;
    }
    struct zf_sources_slot *slot = calloc((size_t)cap * 2, sizeof *slot);
    if (!slot) {
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "no memory for the list of sources");
    }
    free(t->slot);
    t->slot = slot;
    t->n_slots = cap * 2;
    t->cap = cap;
    for (uint32_t i = 1; i < t->n; i++) {
        t->slot[slot_of(t, t->at[i])] = (struct zf_sources_slot){t->at[i], i};
    }
    return true;
}

bool zf_sources_add(struct zf_sources *t, struct zf_source *s, uint32_t *out, struct zf_err *err)
{
    if (t->n == t->cap && !grow(t, err)) {
        return false;
    }
    if (!s) {
        *out = 0;
        return true;
    }
    uint32_t i = slot_of(t, s);
    if (!t->slot[i].src) {
        t->slot[i] = (struct zf_sources_slot){zf_source_ref(s), t->n};
        t->at[t->n++] = s;
    }
    *out = t->slot[i].number;
    return true;
}

/* Every source was put into the first free slot, and the table grows in their order: without the last
 * of them the slots are as they were before it. */
void zf_sources_cut(struct zf_sources *t, uint32_t n)
{
    while (t->n > n) {
        t->slot[slot_of(t, t->at[t->n - 1])] = (struct zf_sources_slot){0};
        zf_source_unref(&t->at[--t->n]);
    }
}

void zf_sources_seal(struct zf_sources *t)
{
    free(t->slot);
    t->slot = NULL;
    t->n_slots = 0;
}

void zf_sources_fini(struct zf_sources *t)
{
    for (uint32_t i = 1; i < t->n; i++) {
        zf_source_unref(&t->at[i]);
    }
    free(t->at);
    free(t->slot);
    *t = (struct zf_sources){0};
}
