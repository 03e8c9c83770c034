/* SPDX-License-Identifier: Apache-2.0 */
/* Almost all numbers are in order: blocks are looked through in vectors of whole numbers, which compilers make for any CPU, and
 * only a block with something in it is counted one by one. */
#include "values.h"

#include <string.h>

#define LANES_BYTES 32u
typedef int16_t lanes16 __attribute__((vector_size(LANES_BYTES)));
typedef int32_t lanes32 __attribute__((vector_size(LANES_BYTES)));
typedef int64_t lanes64 __attribute__((vector_size(LANES_BYTES)));

/* Vectors that are looked through at once. */
#define BLOCK_VECTORS 128u

/* Bits of a float but for its sign; NaN are above `inf`. */
struct values_form {
    uint8_t bytes;     /* of a number, half of a complex one */
    uint8_t parts;     /* numbers of an element */
    uint64_t inf;      /* magnitude of infinity; NaN are larger */
    uint64_t denormal; /* magnitudes below it, but for 0 */
};

static const struct values_form forms[ZF_DT_COUNT] = {
    [ZF_DT_F16] = {2, 1, 0x7c00, 0x400},
    [ZF_DT_BF16] = {2, 1, 0x7f80, 0x80},
    [ZF_DT_F32] = {4, 1, 0x7f800000, 0x800000},
    [ZF_DT_F64] = {8, 1, 0x7ff0000000000000, 0x10000000000000},
    [ZF_DT_C32] = {2, 2, 0x7c00, 0x400},
    [ZF_DT_C64] = {4, 2, 0x7f800000, 0x800000},
    [ZF_DT_C128] = {8, 2, 0x7ff0000000000000, 0x10000000000000},
    [ZF_DT_F8_E4M3] = {1, 1, 0x7e, 0x08}, /* no infinity: its largest number is not told as one */
    [ZF_DT_F8_E5M2] = {1, 1, 0x7c, 0x04},
};

bool values_are_floats(enum zf_dtype t)
{
    return forms[t].bytes > 0;
}

/* Is anything to be counted among the vectors at p?  Each lane of *odd becomes other than 0 where there is. */
#define SCAN(name, lanes, lane)                                                                    \
    static bool name(const struct values_form *f, const uint8_t *p, size_t n, bool negative,       \
                     const uint8_t *first, bool *differ)                                           \
    {                                                                                              \
        const lanes none = {0}, mask = none + (lane) ~((uint64_t)1 << (8 * sizeof(lane) - 1)),     \
                    most = none + (lane)(f->inf - 1), least = none + (lane)f->denormal,            \
                    ignored = negative ? none : none - 1;                                          \
        lanes odd = {0}, other = {0}, same, x;                                                     \
                                                                                                   \
        for (size_t i = 0; i < sizeof same; i += f->bytes * f->parts) {                            \
            memcpy((uint8_t *)&same + i, first, f->bytes * f->parts);                              \
        }                                                                                          \
        for (size_t i = 0; i < n; i++, p += sizeof x) {                                            \
            memcpy(&x, p, sizeof x);                                                               \
            const lanes mag = x & mask;                                                            \
                                                                                                   \
            other |= x ^ same;                                                                     \
            odd |= (mag > most) | ((mag < least) & (mag > none)) | ((x < none) & ~ignored);        \
        }                                                                                          \
        for (size_t i = 0; i < sizeof x / sizeof(lane); i++) {                                     \
            *differ = *differ || other[i] != 0;                                                    \
            odd[0] |= odd[i];                                                                      \
        }                                                                                          \
        return odd[0] != 0;                                                                        \
    }
SCAN(values_scan16, lanes16, int16_t)
SCAN(values_scan32, lanes32, int32_t)
SCAN(values_scan64, lanes64, int64_t)

static uint64_t values_bits(const uint8_t *p, uint8_t bytes)
{
    uint64_t v = 0;

    memcpy(&v, p, bytes); /* a little-endian machine: configure refuses others */
    return v;
}

/* One by one. */
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

/* Whole vectors of a block; true where they have to be counted. */
static bool values_scan(struct values *v, const struct values_form *f, const uint8_t *p, size_t n,
                        bool negative)
{
    switch (f->bytes) {
    case sizeof(int16_t):
        return values_scan16(f, p, n, negative, v->first, &v->differ);
    case sizeof(int32_t):
        return values_scan32(f, p, n, negative, v->first, &v->differ);
    case sizeof(int64_t):
        return values_scan64(f, p, n, negative, v->first, &v->differ);
    default:
        return true;
    }
}

void values_add(struct values *v, enum zf_dtype t, const uint8_t *p, size_t n, bool negative,
                uint64_t at)
{
    const struct values_form *f = &forms[t];
    const uint32_t each = (uint32_t)f->bytes * f->parts, block = BLOCK_VECTORS * LANES_BYTES / each;

    if (n == 0 || each == 0) {
        return;
    }
    if (v->n == 0) {
        memcpy(v->first, p, each);
    }
    v->n += n;
    while (n > 0) {
        size_t some = n < block ? n : block;
        const size_t vectors = some * each / LANES_BYTES;

        some = vectors > 0 ? vectors * LANES_BYTES / each : some;
        if (vectors == 0 || values_scan(v, f, p, vectors, negative)) {
            values_count(v, t, p, some, negative, at);
        }
        p += some * each;
        at += some * each;
        n -= some;
    }
}

void values_join(struct values *v, enum zf_dtype t, const struct values *more)
{
    const size_t each = (size_t)forms[t].bytes * forms[t].parts;

    if (more->n == 0) {
        return;
    }
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
