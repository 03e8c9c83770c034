/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/base/hash.h>

#include <string.h>
#include <sys/auxv.h>
#include <sys/random.h>

static struct zf_hash_key hash_key;

/* Runs before main(), so that the key always exists.  Where getrandom() is forbidden, the random
 * bytes that the kernel passes to every process (AT_RANDOM) are used. */
__attribute__((constructor)) static void hash_draw_key(void)
{
    /* Requests of up to 256 bytes are never short. */
    if (getrandom(&hash_key, sizeof hash_key, 0) != (ssize_t)sizeof hash_key)
        memcpy(&hash_key, (const void *)(uintptr_t)getauxval(AT_RANDOM), sizeof hash_key);
}

static inline uint64_t hash_rotl(uint64_t x, unsigned n)
{
    return x << n | x >> (64 - n);
}

static inline void hash_round_of(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = hash_rotl(v[1], 13) ^ v[0];
    v[0] = hash_rotl(v[0], 32);
    v[2] += v[3];
    v[3] = hash_rotl(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = hash_rotl(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = hash_rotl(v[1], 17) ^ v[2];
    v[2] = hash_rotl(v[2], 32);
}

static inline void hash_mix(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    hash_round_of(v);
    v[0] ^= word;
}

uint64_t zf_hash_of(const struct zf_hash_key *key, uint64_t seed, const void *text, size_t n)
{
    const unsigned char *p = text;
    uint64_t v[4] = {key->k[0] ^ 0x736f6d6570736575u, key->k[1] ^ 0x646f72616e646f6du,
                     key->k[0] ^ 0x6c7967656e657261u, key->k[1] ^ 0x7465646279746573u};
    uint64_t word, last = (uint64_t)(sizeof seed + n) << 56;
    size_t i = 0;

    hash_mix(v, seed);
    for (; n - i >= sizeof word; i += sizeof word) {
        memcpy(&word, p + i, sizeof word);
        hash_mix(v, word);
    }
    for (unsigned shift = 0; i < n; i++, shift += 8)
        last |= (uint64_t)p[i] << shift;
    hash_mix(v, last);
    v[2] ^= 0xff;
    for (int r = 0; r < 3; r++)
        hash_round_of(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

uint64_t zf_hash(uint64_t seed, const void *p, size_t n)
{
    return zf_hash_of(&hash_key, seed, p, n);
}

uint64_t zf_hash_str(uint64_t seed, const char *s)
{
    return zf_hash(seed, s, strlen(s));
}

/* Every step is invertible, so different numbers have different hashes. */
uint64_t zf_hash_number(uint64_t v)
{
    uint64_t h = (v ^ hash_key.k[0]) * 0x9e3779b97f4a7c15u;

    h = ((h ^ h >> 32) + hash_key.k[1]) * 0xd6e8feb86659fd93u;
    return h ^ h >> 32;
}

uint64_t zf_hash_address(const void *p)
{
    return zf_hash_number((uintptr_t)p);
}
