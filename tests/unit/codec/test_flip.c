/* SPDX-License-Identifier: Apache-2.0 */
/* Views with signs flipped are what C itself makes of the numbers; made again from a recipe, too. */
#include "support/unit.h"

#include <complex.h>

#include <zf/source/recipe.h>

#include "codec/torch/file.h"

enum { BOTH = ZF_TORCH_FLIP_REAL | ZF_TORCH_FLIP_IMAG };

/* And nothing behind them is touched. */
static void assert_range(struct zf_source *s, const uint8_t *want, size_t from, size_t len)
{
    uint8_t got[64];
    struct zf_err err;

    assert_true(len < sizeof got);
    memset(got, 0x55, sizeof got);
    assert_ok(zf_source_pread(s, got, len, from, &err), &err);
    assert_memory_equal(got, want + from, len);
    assert_int_equal(got[len], 0x55);
}

/* Every range of `flipped` has the bytes of want[n]; so has the one that its recipe makes. */
static void assert_reads(struct zf_source *flipped, const void *want, size_t n)
{
    struct zf_recipe r = {0};
    struct zf_err err;

    assert_non_null(flipped);
    assert_true(flipped->ops->recipe(flipped, &r));
    assert_ptr_equal(r.kind, &zf_torch_flip_kind);
    struct zf_remake how = {.parent = r.parent, .n = {r.n[0], r.n[1], r.n[2]}};
    zf_auto(source) struct zf_source *again = r.kind->make(&how, &err);
    assert_ok(again, &err);
    for (size_t from = 0; from <= n; from++) {
        for (size_t len = 0; from + len <= n; len++) {
            assert_range(flipped, want, from, len);
            assert_range(again, want, from, len);
        }
    }
}

#define FLIPPED(dtype, flips, name, want)                                                          \
    do {                                                                                           \
        struct zf_err err_;                                                                        \
        zf_auto(source) struct zf_source *mem_ =                                                   \
            zf_mem_new("mem", (name), sizeof(name), false, &err_);                                 \
        zf_auto(source) struct zf_source *flipped_ = torch_flip_new(mem_, dtype, flips, &err_);    \
        assert_reads(flipped_, (want), sizeof(want));                                              \
    } while (0)

static void as_c_negates_and_conjugates(void **state)
{
    float f[] = {1, -2, 0, 3}, minus_f[] = {-1, 2, -0.0f, -3};
    double d[] = {1, -2, 0}, minus_d[] = {-1, 2, -0.0};
    float complex c[] = {1 + 2 * I, 3 - 4 * I, 5};
    double complex z[] = {1 + 2 * I, -3 - 4 * I};
    const float complex conj_c[] = {conjf(c[0]), conjf(c[1]), conjf(c[2])},
                        minus_c[] = {-c[0], -c[1], -c[2]},
                        minus_conj_c[] = {-conjf(c[0]), -conjf(c[1]), -conjf(c[2])};
    const double complex conj_z[] = {conj(z[0]), conj(z[1])};

    (void)state;
    FLIPPED(ZF_DT_F32, ZF_TORCH_FLIP_REAL, f, minus_f);
    FLIPPED(ZF_DT_F64, BOTH, d, minus_d);
    FLIPPED(ZF_DT_C64, ZF_TORCH_FLIP_IMAG, c, conj_c);
    FLIPPED(ZF_DT_C64, BOTH, c, minus_c);
    FLIPPED(ZF_DT_C64, ZF_TORCH_FLIP_REAL, c, minus_conj_c);
    FLIPPED(ZF_DT_C128, ZF_TORCH_FLIP_IMAG, z, conj_z);
}

static bool damaged_pread(struct zf_source *s, void *buf, size_t n, uint64_t off,
                          struct zf_err *err)
{
    (void)s;
    memset(buf, 0, n);
    return zf_fail(err, ZF_E_IO, off, "damaged");
}

static const struct zf_source_ops damaged_ops = {
    .kind = "damaged", .pread = damaged_pread, .fini = zf_source_fini};

static void what_cannot_be_read(void **state)
{
    struct zf_source damaged;
    struct zf_err err;
    char got[4];

    (void)state;
    assert_ok(zf_source_init(&damaged, &damaged_ops, "damaged", 8, &err), &err);
    zf_auto(source) struct zf_source *s =
        torch_flip_new(&damaged, ZF_DT_F32, ZF_TORCH_FLIP_REAL, &err);
    assert_ok(s, &err);
    assert_false(zf_source_pread(s, got, sizeof got, 4, &err));
    assert_err(&err, ZF_E_IO, 4, "damaged");
    zf_source_unref(&s);
    zf_source_fini(&damaged);
}

static void numbers_that_are_none(void **state)
{
    static const struct {
        uint64_t bytes, of;
    } bad[] = {{0, 24}, {3, 24}, {12, 24}, {24, 24}, {8, 12}, {2, 7}, {UINT64_MAX, 24}};
    struct zf_err err;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        zf_auto(source) struct zf_source *mem =
            zf_mem_new("mem", "twenty-four letters here", (size_t)bad[i].of, false, &err);
        struct zf_remake how = {.parent = mem, .n = {bad[i].bytes, 1, 1}};

        assert_non_null(mem);
        assert_null(zf_torch_flip_kind.make(&how, &err));
        assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, "numbers of no length");
    }
    struct zf_remake alone = {.n = {4, 1, 1}};
    assert_null(zf_torch_flip_kind.make(&alone, &err));
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, "numbers of no length");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_c_negates_and_conjugates),
        cmocka_unit_test(what_cannot_be_read),
        cmocka_unit_test(numbers_that_are_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
