/* SPDX-License-Identifier: Apache-2.0 */
/* Checked arithmetic on sizes and offsets that come from input.  Every function returns false on
 * overflow and then leaves *out unchanged. */
#ifndef ZF_BASE_NUM_H
#define ZF_BASE_NUM_H

#include <stdbool.h>
#include <stdint.h>

__attribute__((warn_unused_result)) static inline bool zf_add(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

__attribute__((warn_unused_result)) static inline bool zf_mul(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

/* a * b + c */
__attribute__((warn_unused_result)) static inline bool zf_mul_add(uint64_t a, uint64_t b,
                                                                  uint64_t c, uint64_t *out)
{
    uint64_t ab;

    return zf_mul(a, b, &ab) && zf_add(ab, c, out);
}

/* True if [off, off + len) lies inside [0, size).  Never overflows. */
static inline bool zf_within(uint64_t off, uint64_t len, uint64_t size)
{
    return off <= size && len <= size - off;
}

/* The product of a shape [ndim], 1 for a scalar.  A zero extent makes 0 however large the
 * others are. */
__attribute__((warn_unused_result)) static inline bool
zf_elems(uint32_t ndim, const uint64_t *shape, uint64_t *out)
{
    uint64_t n = 1;
    bool over = false, zero = false;

    for (uint32_t d = 0; d < ndim; d++) {
        zero = zero || shape[d] == 0;
        over = over || !zf_mul(n, shape[d], &n);
    }
    if (over && !zero)
        return false;
    *out = zero ? 0 : n;
    return true;
}

/* Fills stride [ndim], in elements, of a packed C-order tensor of that shape (checked
 * by zf_elems). */
static inline void zf_packed_strides(uint32_t ndim, const uint64_t *shape, uint64_t *stride)
{
    uint64_t n = 1;

    for (uint32_t d = ndim; d-- > 0;) {
        stride[d] = n;
        n *= shape[d] ? shape[d] : 1;
    }
}

/* Writes v in decimal digits, not terminated; returns how many (at most 20).  For places where
 * millions of numbers become text: snprintf would take most of the time. */
unsigned zf_num_digits(char *out, uint64_t v);

/* A number of bytes or things as people write it: decimal digits, then perhaps k (or K), M, G or T,
 * powers of 1024 all of them, also spelt kiB or kB.  False for anything else. */
__attribute__((warn_unused_result)) bool zf_num_size(const char *text, uint64_t *out);

#endif
