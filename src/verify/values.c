/* SPDX-License-Identifier: Apache-2.0 */
/* Almost all values are normal: blocks are scanned as integers, many at once, and only a block with an unusual value is
 * counted value by value. */
#include "checks.h"

#include <stdatomic.h>
#include <string.h>

/* Bytes scanned at once. */
#define BLOCK_BYTES 4096u

/* The bit patterns of a float type, without the sign. */
struct values_form {
    uint8_t bytes;     /* of a number; a complex element has two */
    uint8_t parts;     /* numbers per element */
    uint64_t inf;      /* magnitude of infinity; NaNs are larger */
    uint64_t denormal; /* magnitudes below it, except 0 */
};

static const struct values_form forms[ZF_DT_COUNT] = {
    [ZF_DT_F16] = {2, 1, 0x7c00, 0x400},
    [ZF_DT_BF16] = {2, 1, 0x7f80, 0x80},
    [ZF_DT_F32] = {4, 1, 0x7f800000, 0x800000},
    [ZF_DT_F64] = {8, 1, 0x7ff0000000000000, 0x10000000000000},
    [ZF_DT_C32] = {2, 2, 0x7c00, 0x400},
    [ZF_DT_C64] = {4, 2, 0x7f800000, 0x800000},
    [ZF_DT_C128] = {8, 2, 0x7ff0000000000000, 0x10000000000000},
    [ZF_DT_F8_E4M3] = {1, 1, 0x7e,
                       0x08}, /* has no infinity: its largest number does not count as one */
    [ZF_DT_F8_E5M2] = {1, 1, 0x7c, 0x04},
};

bool values_are_floats(enum zf_dtype t)
{
    return forms[t].bytes > 0;
}

/* About the numbers of a block: the largest magnitude, the smallest minus 1 (ignoring 0), the bits set in any number,
 * and the bits in which any number differs from the first. */
struct values_seen {
    uint64_t most, least, bits, other;
};

#if defined(__clang__)
#define VECTORS
#else
#define VECTORS __attribute__((optimize("O3"))) /* gcc 10 vectorizes loops only with -O3 */
#endif
#define SCAN(name, type, attributes)                                                               \
    attributes static struct values_seen name(const uint8_t *p, size_t n, const uint8_t *first)    \
    {                                                                                              \
        const type sign = (type)((type)1 << (8 * sizeof(type) - 1));                               \
        type most = 0, least = (type)-1, bits = 0, other = 0, same, x;                             \
                                                                                                   \
        memcpy(&same, first, sizeof same);                                                         \
        for (size_t i = 0; i < n; i++) {                                                           \
            memcpy(&x, p + i * sizeof x, sizeof x);                                                \
            const type mag = (type)(x & ~sign), less = (type)(mag - 1);                            \
                                                                                                   \
            most = mag > most ? mag : most;                                                        \
            least = less < least ? less : least;                                                   \
            bits = (type)(bits | x);                                                               \
            other = (type)(other | (x ^ same));                                                    \
        }                                                                                          \
        return (struct values_seen){most, least, bits, other};                                     \
    }
#define SCANS(name, attributes)                                                                    \
    SCAN(name##16, uint16_t, attributes)                                                           \
    SCAN(name##32, uint32_t, attributes)                                                           \
    SCAN(name##64, uint64_t, attributes)                                                           \
    static struct values_seen name(const uint8_t *p, size_t n, const uint8_t *first, size_t bytes) \
    {                                                                                              \
        return bytes == sizeof(uint16_t)   ? name##16(p, n, first)                                 \
               : bytes == sizeof(uint32_t) ? name##32(p, n, first)                                 \
                                           : name##64(p, n, first);                                \
    }
SCANS(values_scan_any, VECTORS)
#if defined(__x86_64__)
SCANS(values_scan_avx2, VECTORS __attribute__((target("avx2"))))
#endif

static struct values_seen values_scan(const uint8_t *p, size_t n, const uint8_t *first,
                                      size_t bytes)
{
#if defined(__x86_64__)
    static _Atomic int
        known; /* 0 = not asked yet, 1 = no, 2 = yes; cached, as asking takes longer than a block */

    if (known == 0)
        known = __builtin_cpu_supports("avx2") ? 2 : 1;
    if (known == 2)
        return values_scan_avx2(p, n, first, bytes);
#endif
    return values_scan_any(p, n, first, bytes);
}

static uint64_t values_bits(const uint8_t *p, uint8_t bytes)
{
    uint64_t v = 0;

    memcpy(&v, p, bytes); /* the machine is little-endian: configure refuses others */
    return v;
}

/* Counts n elements one by one. */
static void values_count(struct values *v, enum zf_dtype t, const uint8_t *p, size_t n,
                         bool negative, uint64_t at)
{
    const struct values_form *f = &forms[t];
    const uint64_t sign = (uint64_t)1 << (8 * f->bytes - 1);
    const uint32_t each = (uint32_t)f->bytes * f->parts;

    for (size_t i = 0; i < n * f->parts; i++, p += f->bytes) {
        const uint64_t bits = values_bits(p, f->bytes), mag = bits & ~sign;
        const bool nan = mag > f->inf, inf = mag == f->inf && t != ZF_DT_F8_E4M3,
                   below = (bits & sign) && mag > 0 && !nan;

        v->nans += nan;
        v->infs += inf;
        v->negative += below;
        v->denormal += mag > 0 && mag < f->denormal;
        if ((nan || inf || (below && negative)) && !v->at_known) {
            v->at = at + i / f->parts * each;
            v->at_known = true;
        }
        v->differ = v->differ || memcmp(p - i % f->parts * f->bytes, v->first, each) != 0;
    }
}

/* Must the n elements of a block be counted? */
static bool values_are_odd(struct values *v, const struct values_form *f, const uint8_t *p,
                           size_t n, bool negative)
{
    const size_t each = (size_t)f->bytes * f->parts;

    if (f->bytes == 1)
        return true;
    const struct values_seen seen = values_scan(p, n * f->parts, v->first, f->bytes);

    v->differ = v->differ || (f->parts == 1 ? seen.other != 0
                                            : memcmp(p, v->first, each) != 0 ||
                                                  memcmp(p, p + each, (n - 1) * each) != 0);
    return seen.most >= f->inf || seen.least < f->denormal - 1 ||
           (negative && seen.bits >> (8 * f->bytes - 1) != 0);
}

void values_add(struct values *v, enum zf_dtype t, const uint8_t *p, size_t n, bool negative,
                uint64_t at)
{
    const struct values_form *f = &forms[t];
    const size_t each = (size_t)f->bytes * f->parts;

    if (n == 0 || each == 0)
        return;
    if (v->n == 0)
        memcpy(v->first, p, each);
    v->n += n;
    while (n > 0) {
        const size_t some = n < BLOCK_BYTES / each ? n : BLOCK_BYTES / each;

        if (values_are_odd(v, f, p, some, negative))
            values_count(v, t, p, some, negative, at);
        p += some * each;
        at += some * each;
        n -= some;
    }
}

void values_join(struct values *v, enum zf_dtype t, const struct values *more)
{
    const size_t each = (size_t)forms[t].bytes * forms[t].parts;

    if (more->n == 0)
        return;
    v->differ = v->n > 0 ? v->differ || more->differ || memcmp(v->first, more->first, each) != 0
                         : more->differ;
    memcpy(v->first, v->n > 0 ? v->first : more->first, sizeof v->first);
    if (more->at_known && !v->at_known) {
        v->at = more->at;
        v->at_known = true;
    }
    v->n += more->n;
    v->nans += more->nans;
    v->infs += more->infs;
    v->negative += more->negative;
    v->denormal += more->denormal;
}
