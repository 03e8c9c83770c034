/* SPDX-License-Identifier: Apache-2.0 */
/* Which bytes of a tensor are lost and why, and what they read as when lost elements are filled. */
#include "support/unit.h"

#include <math.h>
#include <stdlib.h>

#include <zf/model/build.h>
#include <zf/model/cast.h>

static struct zf_err err;

static struct zf_build *fresh(bool fill)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_build *b = zf_build_new(NULL, &lim, true, &err);

    assert_non_null(b);
    if (fill)
        zf_build_fill_lost(b);
    return b;
}

/* Bytes 1, 2, 3 ...: as floats of any type these are numbers. */
static struct zf_source *shard(uint64_t n)
{
    unsigned char *p = malloc(n);

    assert_non_null(p);
    for (uint64_t i = 0; i < n; i++)
        p[i] = (unsigned char)(i % 60 + 1);
    struct zf_source *s = zf_mem_new("rank0.pt", p, n, true, &err);
    assert_non_null(s);
    return s;
}

static struct zf_checkpoint *seal(struct zf_build *b)
{
    struct zf_checkpoint *c = zf_build_seal(b, "fmt", "", &err);

    assert_ok(c, &err);
    return c;
}

/* A vector that reaches `missing` bytes beyond its source, with `off` bytes in front of it. */
static struct zf_checkpoint *cut_vector(enum zf_dtype t, uint64_t n, uint64_t off, uint64_t missing,
                                        bool fill)
{
    struct zf_build *b = fresh(fill);
    zf_auto(source) struct zf_source *s = shard(off + n * zf_dtype_info(t)->bytes - missing);
    struct zf_draft *d =
        zf_build_tensor(b, (struct zf_spot){"", "w", 1}, (struct zf_type){t, 1, &n}, &err);

    assert_non_null(d);
    assert_ok(zf_draft_flat(d, 0, n, (struct zf_from){.src = s, .off = off}, &err), &err);
    return seal(b);
}

static void a_short_file_is_named(void **state)
{
    zf_auto(checkpoint) struct zf_checkpoint *c = cut_vector(ZF_DT_F32, 10, 3, 5, false);
    const struct zf_tensor *t = &c->set[0].tensor[0];
    struct zf_loss loss;
    unsigned char got[40];

    (void)state;
    assert_true(t->lost);
    assert_false(t->filled);
    assert_true(zf_map_loss(t->data, 0, &loss));
    assert_int_equal(loss.first, 35);
    assert_int_equal(loss.end, 40);
    assert_string_equal(loss.how.file, "rank0.pt");
    assert_string_equal(loss.how.why, "ends at byte 38");
    assert_true(zf_map_loss(t->data, 37, &loss));
    assert_int_equal(loss.first, 37);
    assert_ok(zf_map_read(t->data, got, 35, 0, &err), &err);
    assert_int_equal(got[34], 38);
    assert_false(zf_map_read(t->data, got, 1, 35, &err));
    assert_err(&err, ZF_E_IO, ZF_OFF_NONE, "ends at byte 38");
    assert_string_equal(err.path, "rank0.pt");
}

static bool is_nan(enum zf_dtype t, const unsigned char *p)
{
    float f;
    double d;

    if (t == ZF_DT_F64) {
        memcpy(&d, p, sizeof d);
        return isnan(d);
    }
    if (t == ZF_DT_F32)
        memcpy(&f, p, sizeof f);
    else
        zf_cast(&f, ZF_DT_F32, p, t, 1);
    return isnan(f);
}

/* Every element with a lost byte is NaN, every other one is as it was; read whole, one byte at a
 * time, and after a cast. */
static void elements_become_nan(void **state)
{
    static const enum zf_dtype types[] = {ZF_DT_F64,         ZF_DT_F32,         ZF_DT_F16,
                                          ZF_DT_BF16,        ZF_DT_F8_E4M3,     ZF_DT_F8_E5M2,
                                          ZF_DT_F8_E4M3FNUZ, ZF_DT_F8_E5M2FNUZ, ZF_DT_F8_E8M0};

    (void)state;
    for (size_t k = 0; k < sizeof types / sizeof types[0]; k++) {
        uint64_t width = zf_dtype_info(types[k])->bytes, n = 9;

        for (uint64_t missing = 1; missing <= n * width; missing++) {
            zf_auto(checkpoint) struct zf_checkpoint *c = cut_vector(types[k], n, 5, missing, true);
            const struct zf_tensor *t = &c->set[0].tensor[0];
            unsigned char got[80], one;
            uint64_t whole = (n * width - missing) / width;

            assert_true(t->lost && t->filled);
            assert_ok(zf_map_read(t->data, got, n * width, 0, &err), &err);
            for (uint64_t i = 0; i < n; i++)
                assert_int_equal(is_nan(types[k], got + i * width), i >= whole);
            for (uint64_t i = 0; i < n * width; i++) {
                assert_ok(zf_map_read(t->data, &one, 1, i, &err), &err);
                assert_int_equal(one, got[i]);
                assert_true(i >= whole * width || one == (i + 5) % 60 + 1);
            }
            struct zf_loss loss;
            assert_true(zf_map_loss(t->data, 0, &loss));
            assert_int_equal(loss.first, whole * width);
            assert_int_equal(loss.end, n * width);
        }
    }
}

static void integers_have_no_nan(void **state)
{
    static const enum zf_dtype types[] = {ZF_DT_I64, ZF_DT_U8, ZF_DT_BOOL, ZF_DT_F4, ZF_DT_QI32};
    unsigned char got[80];

    (void)state;
    for (size_t k = 0; k < sizeof types / sizeof types[0]; k++) {
        zf_auto(checkpoint) struct zf_checkpoint *c = cut_vector(types[k], 4, 0, 1, true);
        const struct zf_tensor *t = &c->set[0].tensor[0];

        assert_true(t->lost);
        assert_false(t->filled);
        assert_false(zf_map_read(t->data, got, 1, zf_map_size(t->data) - 1, &err));
    }
}

/* A matrix of 4 x 6 f32 in two boxes of columns; the right one is lost, or lies transposed in a
 * file that is too short. */
static void columns_are_lost(void **state)
{
    const uint64_t shape[2] = {4, 6}, size[2] = {4, 3}, left[2] = {0, 0}, right[2] = {0, 3};
    const uint64_t by_column[2] = {1, 4};

    (void)state;
    for (int fill = 0; fill < 2; fill++) {
        for (int shorter = 0; shorter < 2; shorter++) {
            struct zf_build *b = fresh(fill != 0);
            zf_auto(source) struct zf_source *s = shard(48), *cut = shard(46);
            struct zf_draft *d = zf_build_tensor(b, (struct zf_spot){"", "w", 1},
                                                 (struct zf_type){ZF_DT_F32, 2, shape}, &err);
            const struct zf_lost how = {.file = "rank1.pt", .why = "is missing"};
            struct zf_loss loss = {0};
            unsigned char got[96];
            uint32_t n = 0;

            assert_ok(zf_draft_box(d, left, size, (struct zf_from){.src = s, .off = 0}, &err),
                      &err);
            assert_ok(
                shorter ? zf_draft_box(d, right, size,
                                       (struct zf_from){.src = cut, .off = 0, .stride = by_column},
                                       &err)
                        : zf_draft_box(d, right, size, (struct zf_from){.lost = &how}, &err),
                &err);
            zf_auto(checkpoint) struct zf_checkpoint *c = seal(b);
            const struct zf_map *m = c->set[0].tensor[0].data;
            for (uint64_t at = 0; zf_map_loss(m, at, &loss); at = loss.end) {
                n++;
                assert_string_equal(loss.how.file, shorter ? "rank0.pt" : "rank1.pt");
                /* The last element of a column is in the last row. */
                assert_int_equal(loss.first, shorter ? (fill ? 92 : 94) : 24 * (n - 1) + 12);
                assert_int_equal(loss.end, shorter ? 96 : 24 * n);
            }
            assert_int_equal(n, shorter ? 1 : 4);
            assert_int_equal(zf_map_read(m, got, 96, 0, &err), fill != 0);
            for (int i = 0; fill && i < 24; i++)
                assert_int_equal(is_nan(ZF_DT_F32, got + 4 * i), shorter ? i == 23 : i % 6 > 2);
        }
    }
}

/* Nobody may take NaNs in a made-up shape for the tensor. */
static void a_guessed_shape_is_never_filled(void **state)
{
    struct zf_build *b = fresh(true);
    const uint64_t n = 4, zero = 0;
    unsigned char got[16];

    (void)state;
    struct zf_draft *d =
        zf_build_tensor(b, (struct zf_spot){"", "w", 1}, (struct zf_type){ZF_DT_F32, 1, &n}, &err);
    const struct zf_lost how = {.why = "its shape is not known", .unshaped = true};
    assert_ok(zf_draft_box(d, &zero, &n, (struct zf_from){.lost = &how}, &err), &err);
    zf_auto(checkpoint) struct zf_checkpoint *c = seal(b);
    assert_true(c->set[0].tensor[0].lost);
    assert_false(c->set[0].tensor[0].filled);
    assert_false(zf_map_read(c->set[0].tensor[0].data, got, 1, 0, &err));
}

/* Elements on the diagonal: stretches, or, where the last box is the two elements above each other in the last
 * column, boxes that are too far apart for a table of cells. */
static void holes_are_lost(bool boxes)
{
    enum { N = 1000 };
    const uint64_t shape[2] = {N, N}, one[2] = {1, 1}, two[2] = {2, 1};
    struct zf_build *b = fresh(false);
    zf_auto(source) struct zf_source *s = shard(N + 1);
    struct zf_draft *d = zf_build_tensor(b, (struct zf_spot){"", "w", 1},
                                         (struct zf_type){ZF_DT_U8, 2, shape}, &err);

    for (uint64_t i = 0; i < N; i++) {
        const bool last = boxes && i == N - 1;

        assert_ok(zf_draft_box(d, (uint64_t[]){last ? i - 1 : i, i}, last ? two : one,
                               (struct zf_from){.src = s, .off = i}, &err),
                  &err);
    }
    zf_auto(checkpoint) struct zf_checkpoint *c = seal(b);
    const struct zf_map *m = c->set[0].tensor[0].data;
    for (uint64_t at = 0; at < N * N; at += at % (N + 1) == 0 ? 1 : N / 2) {
        uint64_t here = at / (N + 1) * (N + 1), in = at - here;
        uint64_t there = boxes && here == (N - 2) * (N + 1) ? 2 : 1; /* elements from here on */
        struct zf_loss loss;
        unsigned char got;

        assert_int_equal(zf_map_loss(m, at, &loss), here < N * N - 1);
        if (here < N * N - 1) {
            assert_int_equal(loss.first, in < there ? here + there : at);
            assert_int_equal(loss.end, here + N + 1);
            assert_non_null(strstr(loss.how.why, boxes
                                                     ? "no piece of the tensor covers this byte"
                                                     : "[0, 1] to [1, 0] are covered by nothing"));
        }
        assert_int_equal(zf_map_read(m, &got, 1, at, &err), in < there);
        assert_true(in >= there ||
                    got == (at / (N + 1) + in + (boxes && at == N * N - 1)) % 60 + 1);
    }
}

static void holes_between_boxes_are_lost(void **state)
{
    (void)state;
    holes_are_lost(false);
    holes_are_lost(true);
}

/* A tensor of more pieces than are looked at, the last of which is lost. */
static void what_is_not_looked_at_counts_as_lost(void **state)
{
    enum { LOOKS = 1 << 20 };
    const uint64_t n = LOOKS + 10;
    struct zf_build *b = fresh(false);
    zf_auto(source) struct zf_source *s = shard(n);
    struct zf_draft *d =
        zf_build_tensor(b, (struct zf_spot){"", "w", 1}, (struct zf_type){ZF_DT_U8, 1, &n}, &err);
    const struct zf_lost how = {.file = "rank1.pt", .why = "is missing"};
    struct zf_loss loss;

    (void)state;
    for (uint64_t i = 0; i < n - 1; i++)
        assert_ok(zf_draft_flat(d, i, 1, (struct zf_from){.src = s, .off = n - 1 - i}, &err), &err);
    assert_ok(zf_draft_flat(d, n - 1, 1, (struct zf_from){.lost = &how}, &err), &err);
    zf_auto(checkpoint) struct zf_checkpoint *c = seal(b);
    const struct zf_map *m = c->set[0].tensor[0].data;
    assert_true(zf_map_loss(m, 0, &loss));
    assert_int_equal(loss.first, LOOKS);
    assert_int_equal(loss.end, n);
    assert_string_equal(loss.how.why, "not looked at");
    assert_true(zf_map_loss(m, 20, &loss));
    assert_int_equal(loss.first, n - 1);
    assert_int_equal(loss.end, n);
    assert_string_equal(loss.how.why, "is missing");
}

static bool count(void *ctx, const struct zf_lost *how)
{
    (void)how;
    ++*(int *)ctx;
    return true;
}

static void what_is_whole_has_no_loss(void **state)
{
    struct zf_build *b = fresh(true);
    zf_auto(source) struct zf_source *s = shard(48);
    uint64_t n = 12;
    struct zf_loss loss;
    int times = 0;

    (void)state;
    struct zf_draft *d =
        zf_build_tensor(b, (struct zf_spot){"", "w", 1}, (struct zf_type){ZF_DT_F32, 1, &n}, &err);
    assert_ok(zf_draft_flat(d, 0, n, (struct zf_from){.src = s, .off = 0}, &err), &err);
    zf_auto(checkpoint) struct zf_checkpoint *c = seal(b);
    assert_false(c->set[0].tensor[0].lost || c->set[0].tensor[0].filled);
    assert_false(zf_map_loss(c->set[0].tensor[0].data, 0, &loss));
    assert_true(zf_map_each_loss(c->set[0].tensor[0].data, count, &times));
    assert_int_equal(times, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_file_is_named),
        cmocka_unit_test(elements_become_nan),
        cmocka_unit_test(integers_have_no_nan),
        cmocka_unit_test(columns_are_lost),
        cmocka_unit_test(a_guessed_shape_is_never_filled),
        cmocka_unit_test(holes_between_boxes_are_lost),
        cmocka_unit_test(what_is_not_looked_at_counts_as_lost),
        cmocka_unit_test(what_is_whole_has_no_loss),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
