/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/base/hashes.h>

#include <stdlib.h>

#define FNV_START 0xcbf29ce484222325u
#define FNV_PRIME 0x100000001b3u
#define MIX 0x9e3779b97f4a7c15u /* addresses serve as hashes too: spreads their equal low bits */

static uint64_t hash_more(uint64_t h, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        h = (h ^ (unsigned char)p[i]) * FNV_PRIME;
    }
    return h;
}

uint64_t zf_fnv(const char *p, size_t n)
{
    return hash_more(FNV_START, p, n);
}

uint64_t zf_hash_pair(const char *a, size_t an, const char *b, size_t bn)
{
    return hash_more(hash_more(hash_more(FNV_START, a, an), "\xff", 1), b, bn);
}

/* The entry of a hash, or the free one where it would go;
 * linear probing in a table of a power of two. */
static struct zf_hash_slot *slot_of(const struct zf_hashes *t, uint64_t hash)
{
    size_t i = (size_t)(hash * MIX >> 32) & (t->cap - 1);

    while (t->slot[i].hash != 0 && t->slot[i].hash != hash) {
        i = (i + 1) & (t->cap - 1);
    }
    return &t->slot[i];
}

struct zf_hash_slot *zf_hashes_find(const struct zf_hashes *t, uint64_t hash)
{
    if (t->cap == 0) {
        return NULL;
    }
    struct zf_hash_slot *s = slot_of(t, hash ? hash : 1);
    return s->hash ? s : NULL;
}

static bool grow(struct zf_hashes *t, struct zf_err *err)
{
    struct zf_hashes more = {.cap = t->cap ? 2 * t->cap : 64, .n = t->n};

    more.slot = calloc(more.cap, sizeof *more.slot);
    if (!more.slot) {
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for names");
    }
    for (size_t i = 0; i < t->cap; i++) {
        if (t->slot[i].hash) {
            *slot_of(&more, t->slot[i].hash) = t->slot[i];
        }
    }
    free(t->slot);
    *t = more;
    return true;
}

struct zf_hash_slot *zf_hashes_put(struct zf_hashes *t, uint64_t hash, struct zf_err *err)
{
    hash = hash ? hash : 1;
    if (4 * (t->n + 1) > 3 * t->cap && !grow(t, err)) {
        return NULL;
    }
    struct zf_hash_slot *s = slot_of(t, hash);
    if (s->hash == 0) {
        s->hash = hash;
        t->n++;
    }
    return s;
}

void zf_hashes_fini(struct zf_hashes *t)
{
    free(t->slot);
    *t = (struct zf_hashes){0};
}
