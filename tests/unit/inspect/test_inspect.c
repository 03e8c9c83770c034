/* SPDX-License-Identifier: Apache-2.0 */
/* Digits against the C library's reading of them, slices against what Python makes of them, sums against long double. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/inspect/number.h>
#include <zf/inspect/slice.h>
#include <zf/inspect/stats.h>

#include "support/random.h"
#include "support/unit.h"

static uint64_t random_bits(void)
{
    return random_below(1ull << 32) << 32 | random_below(1ull << 32);
}

/* The values of a format with that many bits of exponent and mantissa, by their definition; NAN for NaN. */
static double defined(uint32_t bits, int exp_bits, int man_bits)
{
    const int bias = (1 << (exp_bits - 1)) - 1,
              exp = (int)(bits >> man_bits & ((1u << exp_bits) - 1));
    const uint32_t man = bits & ((1u << man_bits) - 1);
    const double sign = bits >> (exp_bits + man_bits) ? -1 : 1;

    if (exp == (1 << exp_bits) - 1)
        return man ? (double)NAN : sign * (double)INFINITY;
    return sign * (exp == 0 ? ldexp(man, 1 - bias - man_bits)
                            : ldexp(man + (1u << man_bits), exp - bias - man_bits));
}

/* Every pattern of a type: its digits are nearer to it than to its neighbours. */
static void every_pattern(enum zf_dtype t, int exp_bits, int man_bits)
{
    char text[ZF_NUMBER_MAX];

    for (uint32_t bits = 0; bits < 1u << (1 + exp_bits + man_bits); bits++) {
        const uint8_t in[2] = {(uint8_t)bits, (uint8_t)(bits >> 8)};
        const double v = defined(bits, exp_bits, man_bits);
        char *end;

        zf_number_text(text, t, in);
        const double found = strtod(text, &end);
        assert_int_equal(*end, 0);
        assert_int_equal(isnan(v) != 0, isnan(found) != 0);
        if (!isfinite(v)) {
            assert_true(isnan(v) || found == v);
            continue;
        }
        assert_int_equal(signbit(v) != 0, signbit(found) != 0);
        const double up = defined(bits + 1, exp_bits, man_bits),
                     down = bits ? defined(bits - 1, exp_bits, man_bits) : -up;
        assert_true(!isfinite(up) || fabs(found - v) < fabs(found - up));
        assert_true(!isfinite(down) || down == v || fabs(found - v) < fabs(found - down));
    }
}

static void digits_tell_small_types_apart(void **state)
{
    (void)state;
    every_pattern(ZF_DT_F16, 5, 10);
    every_pattern(ZF_DT_BF16, 8, 7);
    every_pattern(ZF_DT_F8_E5M2, 5, 2);
}

static void digits_read_back(void **state)
{
    (void)state;
    char text[ZF_NUMBER_MAX];

    for (int i = 0; i < 200000; i++) {
        const uint64_t bits = random_bits();
        double d, back;
        float f, back_f;

        memcpy(&d, &bits, sizeof d);
        memcpy(&f, &bits, sizeof f);
        zf_number_text(text, ZF_DT_F64, &d);
        back = strtod(text, NULL);
        assert_true(isnan(d) ? isnan(back) : memcmp(&d, &back, sizeof d) == 0);
        zf_number_text(text, ZF_DT_F32, &f);
        back_f = strtof(text, NULL);
        assert_true(isnan(f) ? isnan(back_f) : memcmp(&f, &back_f, sizeof f) == 0);
    }
}

static void numbers_have_pythons_form(void **state)
{
    (void)state;
    static const struct {
        double v;
        const char *text;
    } row[] = {
        {0.0, "0.0"},
        {-0.0, "-0.0"},
        {1.0, "1.0"},
        {100000.0, "100000.0"},
        {1e15, "1000000000000000.0"},
        {1e16, "1e+16"},
        {1.5e-5, "1.5e-05"},
        {1e-4, "0.0001"},
        {0.001234, "0.001234"},
        {-12.25, "-12.25"},
        {1e300, "1e+300"},
        {5e-324, "5e-324"},
        {INFINITY, "inf"},
        {-INFINITY, "-inf"},
        {123456.789, "123456.789"},
        {1e22, "1e+22"},
        {1.25e-7, "1.25e-07"},
        {NAN, "nan"},
    };
    char text[ZF_NUMBER_MAX];

    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        zf_number_double(text, row[i].v);
        assert_string_equal(text, row[i].text);
    }
    zf_number_text(text, ZF_DT_C64, (const float[]){1.5f, -2});
    assert_string_equal(text, "(1.5-2.0j)");
    zf_number_json(text, ZF_DT_F32, &(const float){-INFINITY});
    assert_string_equal(text, "\"-inf\"");
    zf_number_text(text, ZF_DT_U64, &(const uint64_t){UINT64_MAX});
    assert_string_equal(text, "18446744073709551615");
    zf_number_text(text, ZF_DT_I8, &(const int8_t){-128});
    assert_string_equal(text, "-128");
    zf_number_text(text, ZF_DT_F8_E8M0, &(const uint8_t){0});
    assert_true(strtod(text, NULL) > ldexp(0.75, -127) && strtod(text, NULL) < ldexp(1.5, -127));
    zf_number_hex(text, ZF_DT_F32, &(const float){1});
    assert_string_equal(text, "3f800000");
    /* The longest of all. */
    zf_number_text(text, ZF_DT_C128,
                   (const double[]){-2.2250738585072014e-308, -1.7976931348623157e+308});
    assert_string_equal(text, "(-2.2250738585072014e-308-1.7976931348623157e+308j)");
}

/* ---- slices ------------------------------------------------------------------------------------ */

static const uint64_t shape[] = {7, 5};

static void slices_as_python_cuts_them(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        struct zf_slice_axis axis[2];
    } row[] = {
        {"[]", {{0, 1, 7, 0}, {0, 1, 5, 0}}},
        {"[3]", {{3, 1, 1, 1}, {0, 1, 5, 0}}},
        {"[-1, -5]", {{6, 1, 1, 1}, {0, 1, 1, 1}}},
        {"[0:2, :6]", {{0, 1, 2, 0}, {0, 1, 5, 0}}},
        {"[..., 1]", {{0, 1, 7, 0}, {1, 1, 1, 1}}},
        {"[2,...]", {{2, 1, 1, 1}, {0, 1, 5, 0}}},
        {"[...,1:2,3]", {{1, 1, 1, 0}, {3, 1, 1, 1}}},
        {"[::-1, ::2]", {{6, -1, 7, 0}, {0, 2, 3, 0}}},
        {"[5:1:-3]", {{5, -3, 2, 0}, {0, 1, 5, 0}}},
        {"[9:]", {{0, 1, 0, 0}, {0, 1, 5, 0}}},
        {"[-99:99]", {{0, 1, 7, 0}, {0, 1, 5, 0}}},
        {"[ 1 : 3 , 4 ]", {{1, 1, 2, 0}, {4, 1, 1, 1}}},
        {"[3:3]", {{0, 1, 0, 0}, {0, 1, 5, 0}}},
    };
    struct zf_slice s;
    struct zf_err err;

    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        assert_true(zf_slice_parse(&s, row[i].text, 2, shape, &err));
        for (int d = 0; d < 2; d++) {
            assert_int_equal(s.axis[d].first, row[i].axis[d].first);
            assert_int_equal(s.axis[d].step, row[i].axis[d].step);
            assert_int_equal(s.axis[d].n, row[i].axis[d].n);
            assert_int_equal(s.axis[d].single, row[i].axis[d].single);
        }
    }
}

static void other_slices_are_refused(void **state)
{
    (void)state;
    static const char *const text[] = {"[7]",
                                       "[-8]",
                                       "[0,5]",
                                       "[0,0,0]",
                                       "[::0]",
                                       "[a]",
                                       "[1 2]",
                                       "[1:2:3:4]",
                                       "[,]",
                                       "[1,,2]",
                                       "[.. ]",
                                       "[...,...]",
                                       "[..., 1, 2, 3]",
                                       "[-]",
                                       "[1]x",
                                       "[1.5]",
                                       "[9999999999999999999]",
                                       "[:-:]",
                                       "[[1]]",
                                       "[1:2",
                                       "[",
                                       "[...",
                                       "[:, :, :]"};
    struct zf_slice s;
    struct zf_err err;

    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        assert_false(zf_slice_parse(&s, text[i], 2, shape, &err));
        assert_int_equal(err.code, ZF_E_USAGE);
    }
    /* No axis at all. */
    assert_true(zf_slice_parse(&s, "[...]", 0, NULL, &err));
    assert_false(zf_slice_parse(&s, "[0]", 0, NULL, &err));
}

/* ---- sums -------------------------------------------------------------------------------------- */

static void near(double found, long double wanted)
{
    assert_true(fabsl(found - wanted) <= 1e-12L * (fabsl(wanted) + 1));
}

static void sums_of(size_t n, double shift, size_t odd)
{
    float *v = malloc((n + 1) * sizeof *v);
    long double sum = 0, squares = 0;
    float min = INFINITY, max = -INFINITY;
    uint64_t finite = 0;
    struct zf_stats s;

    assert_non_null(v);
    for (size_t i = 0; i < n; i++) {
        v[i] = (float)((double)(int32_t)random_bits() / INT32_MAX + shift);
        v[i] = odd && i % odd == 0 ? (i % 2 ? NAN : INFINITY) : v[i];
        if (isfinite(v[i])) {
            finite++;
            sum += v[i];
            min = v[i] < min ? v[i] : min;
            max = v[i] > max ? v[i] : max;
        }
    }
    const long double mean = finite ? sum / finite : 0;
    for (size_t i = 0; i < n; i++)
        squares += isfinite(v[i]) ? (v[i] - mean) * (v[i] - mean) : 0;
    zf_stats_of(&s, ZF_DT_F32, v, n);
    assert_int_equal(s.n, n);
    assert_int_equal(s.finite, finite);
    assert_int_equal(s.nans + s.infs, n - finite);
    if (finite) {
        assert_memory_equal(s.min, &min, sizeof min);
        assert_memory_equal(s.max, &max, sizeof max);
        near(s.mean, mean);
        near(zf_stats_std(&s), sqrtl(squares / finite));
    }
    /* The same bits from another address, where vectors do not lie as they did. */
    uint8_t *moved = malloc((n + 1) * sizeof *v);
    struct zf_stats again;
    assert_non_null(moved);
    memcpy(moved + 1, v, n * sizeof *v);
    zf_stats_of(&again, ZF_DT_F32, moved + 1, n);
    assert_memory_equal(&again.mean, &s.mean, sizeof s.mean);
    assert_memory_equal(&again.squares, &s.squares, sizeof s.squares);
    free(moved);
    free(v);
}

static void sums_are_right(void **state)
{
    (void)state;
    static const size_t n[] = {0, 1, 7, 8, 9, 4095, 4096, 4097, 100001};

    for (size_t i = 0; i < sizeof n / sizeof *n; i++) {
        sums_of(n[i], 0, 0);
        sums_of(n[i], 1e6, 0);
        sums_of(n[i], 0, 13);
        sums_of(n[i], 3, 1);
    }
}

/* Stretches that are joined give the bits that one call gives. */
static void sums_do_not_depend_on_stretches(void **state)
{
    (void)state;
    enum { N = 5 * ZF_STATS_BLOCK + 100 };
    int64_t *v = malloc(N * sizeof *v);
    struct zf_stats whole, joined = {0}, some;

    assert_non_null(v);
    for (size_t i = 0; i < N; i++)
        v[i] = (int64_t)random_bits();
    v[4711] = INT64_MIN;
    v[4712] = INT64_MAX;
    v[4713] = 0;
    zf_stats_of(&whole, ZF_DT_I64, v, N);
    for (size_t at = 0; at < N; at += ZF_STATS_BLOCK) {
        zf_stats_of(&some, ZF_DT_I64, v + at, N - at < ZF_STATS_BLOCK ? N - at : ZF_STATS_BLOCK);
        zf_stats_join(&joined, ZF_DT_I64, &some);
    }
    assert_memory_equal(&whole, &joined, sizeof whole);
    assert_memory_equal(whole.min, &(const int64_t){INT64_MIN}, 8);
    assert_memory_equal(whole.max, &(const int64_t){INT64_MAX}, 8);
    assert_int_equal(whole.zeros, 1);
    /* The same bits as numbers without sign. */
    zf_stats_of(&whole, ZF_DT_U64, v + 4711, 3);
    assert_memory_equal(whole.min, &(const uint64_t){0}, 8);
    assert_memory_equal(whole.max, &(const uint64_t){1ull << 63}, 8);
    free(v);
}

static void types_without_order_are_counted(void **state)
{
    (void)state;
    const float c[] = {0, 0, 1, NAN, INFINITY, 0, 2, 3};
    struct zf_stats s;

    zf_stats_of(&s, ZF_DT_C64, c, 4);
    assert_int_equal(s.n, 4);
    assert_int_equal(s.zeros, 1);
    assert_int_equal(s.nans, 1);
    assert_int_equal(s.infs, 1);
    assert_int_equal(s.finite, 0);
    zf_stats_of(&s, ZF_DT_BITS8, c, 5);
    assert_int_equal(s.n, 5);
    assert_int_equal(s.zeros + s.finite, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digits_tell_small_types_apart),
        cmocka_unit_test(digits_read_back),
        cmocka_unit_test(numbers_have_pythons_form),
        cmocka_unit_test(slices_as_python_cuts_them),
        cmocka_unit_test(other_slices_are_refused),
        cmocka_unit_test(sums_are_right),
        cmocka_unit_test(sums_do_not_depend_on_stretches),
        cmocka_unit_test(types_without_order_are_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
