/* SPDX-License-Identifier: Apache-2.0 */
/* Keyed hashes.  Names come from the checkpoint: without a key, the author of a checkpoint could choose a million names
 * that fall into one bucket and make mounting quadratic.  The key is chosen once per process, so hashes are only valid
 * within it.  SipHash-1-3; source: Aumasson & Bernstein, "SipHash: a fast short-input PRF" (2012). */
#ifndef ZF_BASE_HASH_H
#define ZF_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* The hash of `seed` and then p[n].  Several texts are hashed by giving the hash of one as the seed
 * of the next, which keeps them apart: ("ab", "c") is not ("a", "bc"). */
uint64_t zf_hash(uint64_t seed, const void *p, size_t n);

/* The same of a terminated text. */
uint64_t zf_hash_str(uint64_t seed, const char *s);

/* The hash of a number, or of an address; no two have the same. */
uint64_t zf_hash_number(uint64_t v);
uint64_t zf_hash_address(const void *p);

/* zf_hash() under a key of the caller's. */
struct zf_hash_key {
    uint64_t k[2];
};
uint64_t zf_hash_of(const struct zf_hash_key *key, uint64_t seed, const void *p, size_t n);

#endif
