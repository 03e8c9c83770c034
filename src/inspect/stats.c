/* SPDX-License-Identifier: Apache-2.0 */
/* A block is summed in a few lanes, first for its mean and then for the differences from it, while it is in the L1
 * cache; blocks are combined with the formula of Chan, Golub and LeVeque (1979). */
#include <zf/inspect/stats.h>

#include <math.h>
#include <string.h>

#include <zf/model/cast.h>

#include <zf/model/value.h>

#define LANES 8
typedef float floats __attribute__((vector_size(LANES * sizeof(float))));
typedef int32_t ints __attribute__((vector_size(LANES * sizeof(int32_t))));
typedef double doubles __attribute__((vector_size(LANES * sizeof(double))));

bool zf_stats_ordered(enum zf_dtype t)
{
    return zf_value_is_number(t);
}

/* Is the element at a smaller than that at b?  Both are finite. */
static bool stats_less(enum zf_dtype t, const uint8_t *a, const uint8_t *b)
{
    if (!zf_value_is_int(t))
        return zf_value_double(t, a) < zf_value_double(t, b);
    const int64_t x = zf_value_int(t, a), y = zf_value_int(t, b);
    return zf_value_is_unsigned(t) ? (uint64_t)x < (uint64_t)y : x < y;
}

/* ---- a block ----------------------------------------------------------------------------------- */

static double stats_fold(const doubles *sums)
{
    const doubles lanes = *sums;

    return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) +
           ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

static void stats_sums(const double *v, size_t n, struct zf_stats *out)
{
    doubles sum = {0}, squares = {0}, x;
    double rest = 0, rest_squares = 0;
    const size_t whole = n - n % LANES;

    for (size_t i = 0; i < whole; i += LANES) {
        memcpy(&x, v + i, sizeof x);
        sum += x;
    }
    for (size_t i = whole; i < n; i++)
        rest += v[i];
    const double mean = n > 0 ? (stats_fold(&sum) + rest) / (double)n : 0;
    for (size_t i = 0; i < whole; i += LANES) {
        memcpy(&x, v + i, sizeof x);
        x -= mean;
        squares += x * x;
    }
    for (size_t i = whole; i < n; i++)
        rest_squares += (v[i] - mean) * (v[i] - mean);
    out->mean = mean;
    out->squares = stats_fold(&squares) + rest_squares;
}

static void stats_set_ends(struct zf_stats *out, enum zf_dtype t, const uint8_t *min,
                           const uint8_t *max)
{
    memcpy(out->min, min, zf_dtype_info(t)->bytes);
    memcpy(out->max, max, zf_dtype_info(t)->bytes);
}

/* Adds n elements of any type, one by one. */
static void stats_slow(struct zf_stats *out, enum zf_dtype t, const uint8_t *p, size_t n)
{
    double v[ZF_STATS_BLOCK];
    const uint32_t each = zf_dtype_info(t)->bytes;
    const uint8_t *min = NULL, *max = NULL;

    *out = (struct zf_stats){.n = n};
    for (size_t i = 0; i < n; i++, p += each) {
        const double d = zf_value_double(t, p);

        out->zeros += d == 0;
        out->nans += isnan(d) != 0;
        out->infs += isinf(d) != 0;
        if (isfinite(d)) {
            v[out->finite++] = d;
            min = !min || stats_less(t, p, min) ? p : min;
            max = !max || stats_less(t, max, p) ? p : max;
        }
    }
    if (out->finite > 0) {
        stats_set_ends(out, t, min, max);
        stats_sums(v, out->finite, out);
    }
}

/* Maps a float's bits to an integer with the same order. */
#define KEY(bits) ((bits) ^ ((bits) >> 31 & 0x7fffffff))
/* mask: all ones or zero in each lane. */
#define CHOOSE(mask, yes, no) (((mask) & (yes)) | (~(mask) & (no)))

/* Results for n f32, a multiple of LANES: number of zeros, whether any is not finite, keys of the smallest and the
 * largest, and the sum. */
struct stats_scan {
    ints zeros, odd, min, max;
    doubles sum;
};

static void stats_scan_f32(const float *f, size_t n, struct stats_scan *out)
{
    struct stats_scan s = {.min = (ints){0} + INT32_MAX, .max = (ints){0} + INT32_MIN};
    floats x;

    for (size_t i = 0; i < n; i += LANES) {
        memcpy(&x, f + i, sizeof x);
        const ints bits = (ints)x, mag = bits & 0x7fffffff, key = KEY(bits);

        s.zeros -= mag == 0;
        s.odd |= mag >= 0x7f800000;
        s.min = CHOOSE(key < s.min, key, s.min);
        s.max = CHOOSE(key > s.max, key, s.max);
        s.sum += __builtin_convertvector(x, doubles);
    }
    *out = s;
}

/* The index of the f32 with this key, which exists. */
static size_t stats_place(const float *f, int32_t key)
{
    const int32_t bits = KEY(key);
    size_t i = 0;

    while (memcmp(f + i, &bits, sizeof bits) != 0)
        i++;
    return i;
}

static double stats_squares_f32(const float *f, size_t n, double mean)
{
    doubles squares = {0};
    floats x;

    for (size_t i = 0; i < n; i += LANES) {
        memcpy(&x, f + i, sizeof x);
        const doubles d = __builtin_convertvector(x, doubles) - mean;
        squares += d * d;
    }
    return stats_fold(&squares);
}

/* Adds elements of floating types up to f32; false: not all are finite, or they do not fill the lanes. */
static bool stats_fast(struct zf_stats *out, enum zf_dtype t, const uint8_t *p, size_t n)
{
    float wide[ZF_STATS_BLOCK];
    const float *f = (const float *)(const void *)p;
    const uint32_t each = zf_dtype_info(t)->bytes;

    if (zf_dtype_info(t)->kind != 'f' || t == ZF_DT_F64 || n % LANES != 0)
        return false;
    if (t != ZF_DT_F32 || (uintptr_t)p % sizeof(float) != 0) {
        zf_cast(wide, ZF_DT_F32, p, t, n);
        f = wide;
    }
    struct stats_scan s;
    int32_t min = INT32_MAX, max = INT32_MIN, odd = 0;
    uint64_t zeros = 0;

    stats_scan_f32(f, n, &s);
    for (int i = 0; i < LANES; i++) {
        min = s.min[i] < min ? s.min[i] : min;
        max = s.max[i] > max ? s.max[i] : max;
        odd |= s.odd[i];
        zeros += (uint64_t)s.zeros[i];
    }
    if (odd)
        return false;
    *out = (struct zf_stats){.n = n, .zeros = zeros, .finite = n};
    stats_set_ends(out, t, p + stats_place(f, min) * each, p + stats_place(f, max) * each);
    out->mean = stats_fold(&s.sum) / (double)n;
    out->squares = stats_squares_f32(f, n, out->mean);
    return true;
}

/* ---- a whole tensor ---------------------------------------------------------------------------- */

/* Adds complex numbers: one is zero if both halves are, NaN or infinite if one of them is. */
static void stats_complex(struct zf_stats *out, enum zf_dtype t, const uint8_t *p, size_t n)
{
    const enum zf_dtype half = zf_value_half(t);
    const uint32_t each = zf_dtype_info(half)->bytes;

    *out = (struct zf_stats){.n = n};
    for (size_t i = 0; i < n; i++, p += (size_t)2 * each) {
        const double re = zf_value_double(half, p), im = zf_value_double(half, p + each);

        out->zeros += re == 0 && im == 0;
        out->nans += isnan(re) || isnan(im);
        out->infs += isinf(re) || isinf(im);
    }
}

void zf_stats_of(struct zf_stats *out, enum zf_dtype t, const void *p, size_t n)
{
    const size_t each = zf_dtype_info(t)->bytes;
    struct zf_stats block;

    *out = (struct zf_stats){0};
    for (size_t at = 0; at < n; at += ZF_STATS_BLOCK) {
        const uint8_t *from = (const uint8_t *)p + at * each;
        const size_t some = n - at < ZF_STATS_BLOCK ? n - at : ZF_STATS_BLOCK;

        if (zf_dtype_info(t)->kind == 'c')
            stats_complex(&block, t, from, some);
        else if (!zf_stats_ordered(t))
            block = (struct zf_stats){.n = some};
        else if (!stats_fast(&block, t, from, some))
            stats_slow(&block, t, from, some);
        zf_stats_join(out, t, &block);
    }
}

void zf_stats_join(struct zf_stats *s, enum zf_dtype t, const struct zf_stats *next)
{
    const double a = (double)s->finite, b = (double)next->finite;

    if (next->finite > 0) {
        const bool first = s->finite == 0;
        const double apart = next->mean - s->mean;

        if (first || stats_less(t, next->min, s->min))
            memcpy(s->min, next->min, sizeof s->min);
        if (first || stats_less(t, s->max, next->max))
            memcpy(s->max, next->max, sizeof s->max);
        s->squares += next->squares + (first ? 0 : apart * apart * (a * b / (a + b)));
        s->mean = first ? next->mean : s->mean + apart * (b / (a + b));
    }
    s->n += next->n;
    s->zeros += next->zeros;
    s->nans += next->nans;
    s->infs += next->infs;
    s->finite += next->finite;
}

double zf_stats_std(const struct zf_stats *s)
{
    return s->finite > 0 ? sqrt(s->squares / (double)s->finite) : 0;
}
