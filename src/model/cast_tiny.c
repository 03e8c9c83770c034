/* SPDX-License-Identifier: Apache-2.0 */
#include "cast_tiny.h"

#include <pthread.h>
#include <string.h>

#include "cast_kernels.h"

/* A row and a column whose elements are on the line, whatever the type. */
#define ROW 2
#define COLUMN 4
/* Rare are at most so many: the infinities and NaNs of f8_e5m2. */
#define RARE 8

static const enum zf_dtype types[] = {ZF_DT_F8_E4M3, ZF_DT_F8_E5M2, ZF_DT_F8_E4M3FNUZ,
                                      ZF_DT_F8_E5M2FNUZ, ZF_DT_F8_E8M0};
enum to { TO_F32, TO_F16, TO_BF16, TO_COUNT };
#define TYPES (sizeof types / sizeof types[0])

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct cast_tiny tables[TYPES][TO_COUNT];

/* ---- one element -------------------------------------------------------------------------- */

/* The layout of an 8-bit type; source: c10/util/Float8_*.h. */
struct layout {
    int frac_bits, bias;
};

static float cast_tiny_power_of_2(int e)
{
    uint32_t bits = (uint32_t)(e + 127) << 23;
    float f;

    memcpy(&f, &bits, sizeof f);
    return f;
}

static uint32_t cast_tiny_finite(struct layout t, uint8_t x)
{
    int frac = x & ((1 << t.frac_bits) - 1), exp = (x & 0x7f) >> t.frac_bits;
    uint32_t bits;
    float f;

    if (exp == 0) {
        f = (float)frac * cast_tiny_power_of_2(1 - t.bias - t.frac_bits);
    } else {
        f = (float)(frac | 1 << t.frac_bits) * cast_tiny_power_of_2(exp - t.bias - t.frac_bits);
    }
    memcpy(&bits, &f, sizeof bits);
    return bits | (uint32_t)(x & 0x80) << 24;
}

/* The f32 that x becomes. */
static uint32_t cast_tiny_bits(enum zf_dtype from, uint8_t x)
{
    uint16_t half = (uint16_t)(x << 8);
    uint32_t bits;

    switch (from) {
    case ZF_DT_F8_E4M3:
        return (x & 0x7f) == 0x7f ? (uint32_t)(x & 0x80) << 24 | 0x7ff00000
                                  : cast_tiny_finite((struct layout){3, 7}, x);
    case ZF_DT_F8_E4M3FNUZ:
        return x == 0x80 ? 0x7f800001 : cast_tiny_finite((struct layout){3, 8}, x);
    case ZF_DT_F8_E5M2FNUZ:
        return x == 0x80 ? 0x7f800001 : cast_tiny_finite((struct layout){2, 16}, x);
    case ZF_DT_F8_E8M0:
        return x == 0xff ? 0x7f800001 : x == 0 ? 0x00400000 : (uint32_t)x << 23;
    default:
        /* e5m2 is the upper half of an f16. */
        cast_kernels_scalar()->f16_to_f32(&bits, &half, 1);
        return bits;
    }
}

/* ---- tables ------------------------------------------------------------------------------- */

/* Element x in 32 bits; one of 16 bits is the upper half. */
static uint32_t cast_tiny_element(const struct cast_tiny *t, unsigned x)
{
    return t->size == 4 ? t->whole[x] : (uint32_t)t->half[x] << 16;
}

static uint32_t cast_tiny_by_rows(const struct cast_tiny *t, unsigned x)
{
    const unsigned c = x & 15;
    const bool line = x & t->line;
    const uint8_t high = (uint8_t)(t->row[x >> 4] + (line ? t->line_high[c] : t->first_high[c]));

    return (uint32_t)high << 24 | (uint32_t)(line ? t->line_low[c] : t->first_low[c]) << 16;
}

/* What is not as the rows say becomes rare, with all that its bits do not tell apart.  False: too
 * many would be. */
static bool cast_tiny_few_rare(struct cast_tiny *t)
{
    uint8_t every = 0xff, any = 0;

    for (unsigned x = 0; x < 256; x++) {
        if (cast_tiny_by_rows(t, x) != cast_tiny_element(t, x)) {
            every &= (uint8_t)x;
            any |= (uint8_t)x;
        }
    }
    t->wild = (uint8_t)(any & ~every);
    t->rare = any;
    return 1 << __builtin_popcount(t->wild) <= RARE;
}

/* The form is not assumed: each of the 256 is compared with what it says. */
static void cast_tiny_find_rows(struct cast_tiny *t)
{
    for (unsigned i = 0; i < 16; i++) {
        t->line_low[i] = t->low[ROW << 4 | i];
        t->line_high[i] = t->high[ROW << 4 | i];
        t->row[i] = (uint8_t)(t->high[i << 4 | COLUMN] - t->high[ROW << 4 | COLUMN]);
    }
    for (unsigned i = 0; i < 16; i++) {
        t->first_low[i] = t->low[i];
        t->first_high[i] = (uint8_t)(t->high[i] - t->row[0]);
    }
    t->line = 0x70; /* two first rows, where there is a sign */
    t->in_rows = cast_tiny_few_rare(t);
    if (!t->in_rows) {
        t->line = 0xf0;
        t->in_rows = cast_tiny_few_rare(t);
    }
}

static void cast_tiny_make(struct cast_tiny *t, enum zf_dtype from, enum to to)
{
    const struct cast_kernels *k = cast_kernels_scalar();

    t->size = to == TO_F32 ? 4 : 2;
    for (unsigned x = 0; x < 256; x++) {
        t->whole[x] = cast_tiny_bits(from, (uint8_t)x);
    }
    if (to == TO_F16) {
        k->f32_to_f16(t->half, t->whole, 256);
    } else if (to == TO_BF16) {
        k->f32_to_bf16(t->half, t->whole, 256, NAN_OF_SMALL);
    }
    for (unsigned x = 0; x < 256; x++) {
        t->low[x] = (uint8_t)(cast_tiny_element(t, x) >> 16);
        t->high[x] = (uint8_t)(cast_tiny_element(t, x) >> 24);
    }
    cast_tiny_find_rows(t);
}

static void cast_tiny_make_all(void)
{
    for (size_t i = 0; i < TYPES; i++) {
        for (enum to to = 0; to < TO_COUNT; to++) {
            cast_tiny_make(&tables[i][to], types[i], to);
        }
    }
}

const struct cast_tiny *cast_tiny_of(enum zf_dtype from, enum zf_dtype to)
{
    size_t i = 0;

    (void)pthread_once(&once, cast_tiny_make_all);
    while (types[i] != from) {
        i++;
    }
    return &tables[i][to == ZF_DT_F32 ? TO_F32 : to == ZF_DT_F16 ? TO_F16 : TO_BF16];
}
