/* SPDX-License-Identifier: Apache-2.0 */
/* A keyed hash of names.  Names come from the checkpoint, and uthash's own hash has no key: whoever
 * writes a checkpoint could choose a million names that fall into one bucket and make mounting
 * quadratic.  With a random key nobody can.
 * SipHash-1-3; source: Aumasson & Bernstein, "SipHash: a fast short-input PRF" (2012). */
#ifndef ZF_BASE_HASH_H
#define ZF_BASE_HASH_H

#include <zf/base/err.h>

struct zf_hash_key {
    uint64_t k[2];
};

bool zf_hash_key_init(struct zf_hash_key *key, struct zf_err *err) ZF_CHECKED;
uint64_t zf_hash_of(const struct zf_hash_key *key, uint64_t seed, const char *p, size_t n);

#endif
