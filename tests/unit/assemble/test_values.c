/* SPDX-License-Identifier: Apache-2.0 */
/* How masters are compared with the weights they round to: which elements of large parameters are
 * looked at, and roundings done by hand. */
#include "support/unit.h"

#include <zf/assemble/rounding.h>

static void small_saves_are_compared_wholly(void **state)
{
    const struct zf_sample s = zf_sample_of(4u << 20, 100);
    struct zf_span span;

    (void)state;
    assert_true(zf_sample_span(&s, 1u << 20, 0, &span));
    assert_int_equal(span.first, 0);
    assert_int_equal(span.n, 1u << 20);
    assert_false(zf_sample_span(&s, 1u << 20, 1, &span));
    assert_false(zf_sample_span(&s, 0, 0, &span));
}

/* Both ends are looked at, and no stretch between two places is much longer than another. */
static void places_are_spread(void **state)
{
    static const uint64_t params[] = {1, 5, 300, 700, 5000, 1000000};
    static const uint64_t sizes[] = {1, 31, 96, 97, 1000, 4096, 123457, 1ull << 33};

    (void)state;
    for (size_t p = 0; p < sizeof params / sizeof params[0]; p++) {
        const struct zf_sample s = zf_sample_of(1ull << 40, params[p]);

        assert_true(params[p] / s.every * s.places <= 2048 + 3 * 16384);
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            struct zf_span span;
            uint64_t n = sizes[i], end = 0, shortest = UINT64_MAX, longest = 0;

            for (uint32_t k = 0; zf_sample_span(&s, n, k, &span); k++) {
                assert_true(span.first >= end && span.n > 0 && span.n <= n - span.first);
                uint64_t gap = span.first - end;
                assert_true(k > 0 || gap == 0);
                shortest = k > 0 && gap < shortest ? gap : shortest;
                longest = gap > longest ? gap : longest;
                end = span.first + span.n;
            }
            assert_int_equal(end, n);
            assert_true(longest == 0 || longest - shortest <= s.places);
        }
    }
}

static struct zf_mismatch compare(const void *master, size_t mn, enum zf_dtype mt,
                                  const void *weight, size_t wn, enum zf_dtype wt)
{
    struct zf_err err = {0};
    struct zf_mismatch miss;
    uint8_t m[64], w[64];

    memcpy(m, master, mn);
    memcpy(w, weight, wn);
    zf_auto(source) struct zf_source *a = zf_mem_new("", m, mn, false, &err);
    zf_auto(source) struct zf_source *b = zf_mem_new("", w, wn, false, &err);
    assert_true(zf_values_can_round(mt, wt));
    assert_true(zf_values_round((struct zf_values){a, 0, mt}, (struct zf_values){b, 0, wt},
                                mn / zf_dtype_info(mt)->bytes, &miss, &err));
    return miss;
}

static void roundings(void **state)
{
    /* 1 + 2^-8 is a tie and goes to even, 1 + 3 * 2^-8 to 1 + 2^-6; what is too large becomes inf */
    static const uint32_t master[] = {0x3f800000, 0x3f808000, 0x3f818000, 0x7f7fffff, 0x80000000};
    static const uint16_t bf16[] = {0x3f80, 0x3f80, 0x3f82, 0x7f80, 0x8000};
    static const uint16_t f16[] = {0x3c00, 0x3c04, 0x3c0c, 0x7c00, 0x8000};
    static const uint32_t nan32[] = {0x7fc00000, 0x7fc00000, 0x3f800000};
    static const uint16_t nan16[] = {0x7fc0, 0xffff, 0x7fc0};
    struct zf_mismatch miss;
    uint16_t other[5];

    (void)state;
    assert_false(compare(master, 20, ZF_DT_F32, bf16, 10, ZF_DT_BF16).found);
    assert_false(compare(master, 20, ZF_DT_F32, f16, 10, ZF_DT_F16).found);
    assert_false(compare(master, 20, ZF_DT_F32, master, 20, ZF_DT_F32).found);
    for (size_t i = 0; i < 5; i++) {
        memcpy(other, bf16, sizeof other);
        other[i] ^= 1;
        miss = compare(master, 20, ZF_DT_F32, other, 10, ZF_DT_BF16);
        assert_true(miss.found);
        assert_int_equal(miss.at, i);
    }
    miss = compare(nan32, 12, ZF_DT_F32, nan16, 6, ZF_DT_BF16);
    assert_true(miss.found);
    assert_int_equal(miss.at, 2);
    assert_true(miss.master == 1.0);
    assert_false(zf_values_can_round(ZF_DT_F32, ZF_DT_I8));
    assert_false(zf_values_can_round(ZF_DT_F32, ZF_DT_F64));
}

/* Of many comparisons the first that differs is told, wherever it is, and bytes that are not there are a failure or
 * prove nothing. */
static void many(void **state)
{
    enum { N = 1000, EACH = 5000 };
    static float full[EACH], other[EACH];
    const struct zf_sample samples[] = {zf_sample_of(N, N), zf_sample_of(1ull << 40, N)};
    zf_auto(roundings) struct zf_roundings list = {0};
    const struct zf_rounding *bad;
    struct zf_mismatch miss;
    struct zf_err err = {0};

    (void)state;
    other[0] = 1;
    zf_auto(source) struct zf_source *a = zf_mem_new("", full, sizeof full, false, &err);
    zf_auto(source) struct zf_source *b = zf_mem_new("", other, sizeof other, false, &err);
    const struct zf_values zeros = {a, 0, ZF_DT_F32}, ones = {b, 0, ZF_DT_F32};
    for (int i = 0; i < N; i++) {
        struct zf_rounding *r = zf_vec_push(&list, &err);

        assert_non_null(r);
        *r = (struct zf_rounding){.master = zeros, .weight = zeros, .n = EACH};
    }
    for (size_t s = 0; s < 2; s++) {
        struct zf_rounding_opts o = {.sample = samples[s]};

        assert_true(zf_roundings_check(&list, o, &bad, &miss, &err));
        assert_null(bad);
        for (int i = 0; i < N; i += 333) {
            list.at[i].weight = list.at[N - 1].weight = ones;
            assert_true(zf_roundings_check(&list, o, &bad, &miss, &err));
            assert_ptr_equal(bad, &list.at[i]);
            assert_true(miss.found && miss.at == 0 && miss.weight == 1);
            list.at[i].master.off = sizeof full;
            assert_false(zf_roundings_check(&list, o, &bad, &miss, &err));
            assert_int_equal(err.code, ZF_E_IO);
            o.skip_lost = true;
            assert_true(zf_roundings_check(&list, o, &bad, &miss, &err));
            assert_ptr_equal(bad, i == N - 1 ? NULL : &list.at[N - 1]);
            o.skip_lost = false;
            list.at[i].master = list.at[i].weight = list.at[N - 1].weight = zeros;
        }
    }
}

/* A changed element is found at every place of the sample, and told by its number, whether the places are read at
 * once or one after the other. */
static void places_of_a_sample(void **state)
{
    enum { N = 100000 };
    static float full[N];
    static uint16_t weight[N];
    const struct zf_sample s = zf_sample_of(1ull << 40, 100);
    struct zf_mismatch miss;
    struct zf_err err = {0};
    struct zf_span span;

    (void)state;
    zf_auto(source) struct zf_source *a = zf_mem_new("", full, sizeof full, false, &err);
    zf_auto(source) struct zf_source *b = zf_mem_new("", weight, sizeof weight, false, &err);
    const struct zf_values masters = {a, 0, ZF_DT_F32}, weights = {b, 0, ZF_DT_BF16};
    for (uint32_t k = 0; zf_sample_span(&s, N, k, &span); k++) {
        weight[span.first] = 0x3f80;
        assert_true(zf_values_round_at(masters, weights, N, &s, &miss, &err));
        assert_true(miss.found && miss.at == span.first && miss.weight == 1);
        assert_true(zf_values_round_each(masters, weights, N, &s, &miss, &err));
        assert_true(miss.found && miss.at == span.first && miss.weight == 1);
        weight[span.first] = 0;
    }
    assert_true(zf_values_round_at(masters, weights, N, &s, &miss, &err));
    assert_false(miss.found);
    assert_true(zf_values_round_each(masters, weights, N, &s, &miss, &err));
    assert_false(miss.found);
}

/* A vector of n floats at byte `off` of src. */
static struct zf_tensor_ref ref(struct zf_source *src, uint64_t off, const uint64_t *n)
{
    static const uint64_t stride[] = {1};

    return (struct zf_tensor_ref){.src = src,
                                  .key = "",
                                  .dtype = ZF_DT_F32,
                                  .ndim = 1,
                                  .shape = n,
                                  .stride = stride,
                                  .off = off,
                                  .n = *n,
                                  .packed = true};
}

/* One changed byte of small copies is always found, of large ones at both ends and in the middle. */
static void copies(void **state)
{
    static const uint64_t n[] = {1000, (8 << 20) / 4};
    static uint8_t a[8 + (8 << 20)], b[8 + (8 << 20)];
    struct zf_copy_check c = {0};
    struct zf_err err = {0};
    bool same;

    (void)state;
    zf_auto(source) struct zf_source *sa = zf_mem_new("", a, sizeof a, false, &err);
    zf_auto(source) struct zf_source *sb = zf_mem_new("", b, sizeof b, false, &err);
    for (size_t i = 0; i < 2; i++) {
        const uint64_t last = 4 * n[i] - 1, at[] = {0, 1, last / 2 + 1, last - 1, last};
        const struct zf_tensor_ref ra = ref(sa, 8, &n[i]), rb = ref(sb, 4, &n[i]);

        assert_true(zf_copy_check_equal(&c, &ra, &rb, &same, &err));
        assert_true(same);
        for (size_t k = 0; k < sizeof at / sizeof at[0]; k++) {
            b[4 + at[k]] = 1;
            assert_true(zf_copy_check_equal(&c, &ra, &rb, &same, &err));
            assert_false(same);
            b[4 + at[k]] = 0;
        }
    }
    const struct zf_tensor_ref ra = ref(sa, 0, &n[0]), rb = ref(sb, 0, &n[1]);
    assert_true(zf_copy_check_equal(&c, &ra, &rb, &same, &err));
    assert_false(same);
    assert_int_equal(c.unchecked, 0);
    assert_int_equal(c.sampled, 1 + sizeof "01234" - 1); /* those of 8 MiB */
    c.compared = 256u << 20;
    b[0] = 1;
    const struct zf_tensor_ref rc = ref(sb, 0, &n[0]);
    assert_true(zf_copy_check_equal(&c, &ra, &rc, &same, &err));
    assert_true(same);
    assert_int_equal(c.unchecked, 1);
    const struct zf_tensor_ref rd = ref(sb, 0, &n[1]), re = ref(sa, 0, &n[1]);
    assert_true(zf_copy_check_equal(&c, &re, &rd, &same, &err));
    assert_int_equal(c.unchecked, 2);
    assert_int_equal(c.sampled, 6);

    struct zf_limits lim = zf_limits_default();
    zf_auto(build) struct zf_build *build = zf_build_new(NULL, &lim, false, &err);
    assert_true(zf_copy_check_note(&(struct zf_copy_check){.compared = 5}, build, &err));
    assert_null(zf_build_first_note(build));
    assert_true(zf_copy_check_note(&c, build, &err));
    assert_non_null(strstr(zf_build_first_note(build), "6 replicas of tensors"));
    zf_copy_check_fini(&c);
}

/* Tensors that are being put together: both ends, or all; other shapes and types do not fit. */
static void drafts(void **state)
{
    static float master[200];
    static uint16_t weight[200];
    const uint64_t n = 200, shape[2] = {10, 20}, half[2] = {5, 20}, below[2] = {5, 0};
    struct zf_limits lim = zf_limits_default();
    struct zf_mismatch miss;
    struct zf_err err;

    (void)state;
    for (int i = 0; i < 200; i++) {
        uint32_t bits;

        master[i] = (float)(i * 8); /* as bf16 without rounding, below 2048 */
        memcpy(&bits, &master[i], 4);
        weight[i] = (uint16_t)(bits >> 16);
    }
    zf_auto(source) struct zf_source *m = zf_mem_new("", master, sizeof master, false, &err);
    zf_auto(source) struct zf_source *w = zf_mem_new("", weight, sizeof weight, false, &err);
    zf_auto(build) struct zf_build *b = zf_build_new(NULL, &lim, false, &err);
    struct zf_draft *dm = zf_build_tensor(b, (struct zf_spot){"m", "a", 1},
                                          (struct zf_type){ZF_DT_F32, 2, shape}, &err);
    struct zf_draft *dw = zf_build_tensor(b, (struct zf_spot){"", "a", 1},
                                          (struct zf_type){ZF_DT_BF16, 2, shape}, &err);
    struct zf_draft *flat =
        zf_build_tensor(b, (struct zf_spot){"m", "b", 1}, (struct zf_type){ZF_DT_F32, 1, &n}, &err);
    struct zf_draft *ints = zf_build_tensor(b, (struct zf_spot){"m", "c", 1},
                                            (struct zf_type){ZF_DT_I64, 2, shape}, &err);
    assert_ok(zf_draft_flat(dm, 0, 200, (struct zf_from){.src = m, .off = 0}, &err), &err);
    assert_ok(zf_draft_box(dw, NULL, half, (struct zf_from){.src = w, .off = 0}, &err), &err);
    assert_false(zf_drafts_round(dm, dw, 0, &miss, &err));
    assert_ok(zf_draft_box(dw, below, half, (struct zf_from){.src = w, .off = 200}, &err), &err);
    for (uint32_t at = 0; at <= 200; at += 8) {
        weight[at % 200] ^= at < 200;
        for (uint64_t ends = 0; ends < 120; ends += 30) {
            bool seen = at < 200 && (ends == 0 || at < ends || at >= 200 - ends);

            assert_ok(zf_drafts_round(dm, dw, ends, &miss, &err), &err);
            assert_int_equal(miss.found, seen);
            assert_true(!seen || (miss.at == at && miss.master == master[at]));
        }
        weight[at % 200] ^= at < 200;
    }
    assert_ok(zf_drafts_round(flat, dw, 0, &miss, &err), &err);
    assert_true(miss.found);
    assert_ok(zf_drafts_round(ints, dw, 0, &miss, &err), &err);
    assert_true(miss.found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_saves_are_compared_wholly),
        cmocka_unit_test(places_are_spread),
        cmocka_unit_test(roundings),
        cmocka_unit_test(many),
        cmocka_unit_test(places_of_a_sample),
        cmocka_unit_test(drafts),
        cmocka_unit_test(copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
