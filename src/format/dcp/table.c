/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "table.h"

#define FIRST_SLOTS 1024u
#define ODD_A 0x9e3779b97f4a7c15u
#define ODD_B 0xd6e8feb86659fd93u

uint64_t zf_dcp_table_seed(void)
{
    uint64_t seed;

    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != (ssize_t)sizeof seed) {
        seed = (uint64_t)time(NULL) * ODD_A ^ (uintptr_t)&seed;
    }
    return seed;
}

/* Multiplies and folds both halves of the product together. */
static uint64_t fold(uint64_t a, uint64_t b)
{
    __extension__ typedef unsigned __int128 wide;
    wide ab = (wide)a * b;

    return (uint64_t)ab ^ (uint64_t)(ab >> 64);
}

uint64_t zf_dcp_table_hash(uint64_t h, const void *p, uint64_t n)
{
    const uint8_t *at = p;
    uint64_t left = n, word;

    for (; left >= sizeof word; left -= sizeof word, at += sizeof word) {
        memcpy(&word, at, sizeof word);
        h = fold(h ^ ODD_A, word ^ ODD_B ^ h);
    }
    word = 0;
    if (left) {
        memcpy(&word, at, left);
    }
    return fold(h ^ word ^ ODD_B, (n ^ ODD_A) + h);
}

static void put(uint64_t *slot, uint64_t n_slots, uint64_t entry)
{
    uint64_t i = (entry >> 32) & (n_slots - 1);

    while (slot[i]) {
        i = (i + 1) & (n_slots - 1);
    }
    slot[i] = entry;
}

static bool grow(struct zf_dcp_table *t, struct zf_err *err)
{
    uint64_t n_slots = t->n_slots ? t->n_slots * 2 : FIRST_SLOTS;
    uint64_t *slot = calloc(n_slots, sizeof *slot);

    if (!slot) {
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "no memory for a table of %llu slots",
                       (unsigned long long)n_slots);
    }
    for (uint64_t i = 0; i < t->n_slots; i++) {
        if (t->slot[i]) {
            put(slot, n_slots, t->slot[i]);
        }
    }
    free(t->slot);
    t->slot = slot;
    t->n_slots = n_slots;
    return true;
}

bool zf_dcp_table_add(struct zf_dcp_table *t, uint64_t hash, uint32_t number, struct zf_err *err)
{
    if (t->n >= t->n_slots / 2 && !grow(t, err)) {
        return false;
    }
    put(t->slot, t->n_slots, (hash >> 32) << 32 | (number + 1u));
    t->n++;
    return true;
}

uint32_t zf_dcp_table_next(const struct zf_dcp_table *t, uint64_t hash, uint64_t *at)
{
    uint64_t mask = t->n_slots - 1;

    for (uint64_t step = *at; step < t->n_slots; step++) {
        uint64_t entry = t->slot[((hash >> 32) + step) & mask];

        if (!entry) {
            return ZF_DCP_NONE;
        }
        if (entry >> 32 == hash >> 32) {
            *at = step + 1;
            return (uint32_t)entry - 1;
        }
    }
    return ZF_DCP_NONE;
}
