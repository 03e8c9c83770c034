/* SPDX-License-Identifier: Apache-2.0 */
/* Counts of numbers against the C library's classes of them, and against zf_stats, whatever pieces they come in. */
#include "support/unit.h"

#include <math.h>
#include <string.h>

#include <zf/inspect/stats.h>

#include "../../../src/verify/checks.h"
#include "support/random.h"

#define N 5000u

/* One in `rare` is not in order. */
static float any_float(uint64_t rare)
{
    static const float odd[] = {NAN, -NAN, INFINITY, -INFINITY, 1e-40f, -1e-44f, -0.0f, 0.0f, -1};

    return random_below(rare) == 0 ? odd[random_below(sizeof odd / sizeof *odd)]
                                   : (float)random_below(1000) + 0.5f;
}

static struct values by_class(const float *f, size_t n, bool negative)
{
    struct values v = {.n = n};

    for (size_t i = 0; i < n; i++) {
        const int class = fpclassify(f[i]);

        v.nans += class == FP_NAN;
        v.infs += class == FP_INFINITE;
        v.denormal += class == FP_SUBNORMAL;
        v.negative += f[i] < 0;
        v.differ = v.differ || memcmp(&f[i], f, sizeof *f) != 0;
        if (!v.at_known && (!isfinite(f[i]) || (negative && f[i] < 0))) {
            v.at = 1000 + i * sizeof *f;
            v.at_known = true;
        }
    }
    return v;
}

static void floats_are_counted(void **state)
{
    static float f[N];

    (void)state;
    for (unsigned round = 0; round < 300; round++) {
        const size_t n = 1 + random_below(N);
        const bool negative = round % 2;
        struct values v = {0};

        for (size_t i = 0; i < n; i++)
            f[i] = round < 3 ? 7.5f : any_float(round % 5 == 0 ? 3 : 2000);
        for (size_t at = 0, some; at < n; at += some) {
            struct values one = {0};

            some = 1 + random_below(n - at);
            values_add(&one, ZF_DT_F32, (const uint8_t *)(f + at), some, negative, 1000 + 4 * at);
            values_join(&v, ZF_DT_F32, &one);
        }
        const struct values want = by_class(f, n, negative);
        assert_int_equal(v.n, want.n);
        assert_int_equal(v.nans, want.nans);
        assert_int_equal(v.infs, want.infs);
        assert_int_equal(v.differ, want.differ);
        assert_int_equal(v.at_known, want.at_known);
        assert_int_equal(v.at, want.at_known ? want.at : 0);
        assert_int_equal(v.denormal, want.denormal);
        if (negative)
            assert_int_equal(v.negative, want.negative);
    }
}

/* All patterns of small types, behind and between numbers in order. */
static void patterns_are_counted(void **state)
{
    static const enum zf_dtype type[] = {ZF_DT_F16, ZF_DT_BF16, ZF_DT_F8_E4M3, ZF_DT_F8_E5M2};
    uint8_t p[N];

    (void)state;
    for (size_t t = 0; t < sizeof type / sizeof *type; t++) {
        const size_t each = zf_dtype_info(type[t])->bytes;

        for (uint32_t bits = 0; bits < 1u << 8 * each; bits += each == 1 ? 1 : 7) {
            struct zf_stats want;
            struct values v = {0};
            const size_t n = N / each, at = random_below(n);

            memset(p, 0x3c, sizeof p);
            memcpy(p + at * each, &bits, each);
            values_add(&v, type[t], p, n, false, 0);
            zf_stats_of(&want, type[t], p, n < ZF_STATS_BLOCK ? n : ZF_STATS_BLOCK);
            if (at < ZF_STATS_BLOCK) {
                assert_int_equal(v.nans, want.nans);
                assert_int_equal(v.infs, want.infs);
            }
            assert_int_equal(v.differ, bits != (0x3c3c & ((1u << 8 * each) - 1)));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floats_are_counted),
        cmocka_unit_test(patterns_are_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
