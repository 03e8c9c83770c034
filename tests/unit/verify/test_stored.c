/* SPDX-License-Identifier: Apache-2.0 */
/* Weights of stored/ beside fp32 masters: what differs is found where blocks are compared, and nothing is where they round to
 * them.  Rounding here is that of integers, to the nearest, ties to even. */
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>

#include <zf/model/build.h>

#include "../../../src/verify/checks.h"
#include "support/random.h"

#define BIG 400000u
#define SMALL 300u

static float master[BIG];
static uint16_t weight[BIG];
static struct zf_finding found;
static uint32_t found_tensor;
static char found_text[512];

static uint16_t rounded(float f)
{
    uint32_t b;

    memcpy(&b, &f, sizeof b);
    return (uint16_t)((b + 0x7fff + (b >> 16 & 1)) >> 16);
}

static float number_of(uint16_t bf16)
{
    const uint32_t b = (uint32_t)bf16 << 16;
    float f;

    memcpy(&f, &b, sizeof f);
    return f;
}

static void fill(void)
{
    for (size_t i = 0; i < BIG; i++) {
        master[i] = (float)(int64_t)(random_below(2000001) - 1000000) / 777;
        weight[i] = rounded(master[i]);
    }
}

static void note_found(void *ctx, const struct zf_finding *f)
{
    (void)ctx;
    found = *f;
    found_tensor = f->n_tensors ? f->tensor[0] : UINT32_MAX;
    (void)snprintf(found_text, sizeof found_text, "%s", f->text);
}

static void add(struct zf_build *b, const char *set, enum zf_dtype type, void *p, uint64_t n)
{
    struct zf_err err;
    zf_auto(source) struct zf_source *src =
        zf_mem_new("w", p, (size_t)n * zf_dtype_info(type)->bytes, false, &err);
    struct zf_draft *d = zf_build_tensor(b, (struct zf_spot){set, "w", 1},
                                         (struct zf_type){type, n > 1, (uint64_t[]){n}}, &err);

    assert_ok(src && d, &err);
    assert_ok(zf_draft_flat(d, 0, n, (struct zf_from){.src = src}, &err), &err);
}

/* Verifies a master and a weight of so many elements; answers whether one was found to differ, and which. */
static bool differs(uint64_t n, uint64_t n_weights, uint64_t *at)
{
    const struct zf_limits lim = zf_limits_default();
    struct zf_err err;
    struct zf_build *b = zf_build_new(NULL, &lim, false, &err);

    assert_ok(b, &err);
    add(b, "", ZF_DT_F32, master, n);
    add(b, "stored", ZF_DT_BF16, weight, n_weights);
    struct zf_checkpoint *c = zf_build_seal(b, "test", "", &err);
    assert_ok(c, &err);
    const struct zf_verify_tensor all[] = {{"w.f32", &c->set[0], &c->set[0].tensor[0]},
                                           {"stored/w.bf16", &c->set[1], &c->set[1].tensor[0]}};
    const struct zf_verify_opts o = {
        .tensor = all, .n = 2, .jobs = 2, .lim = &lim, .found = note_found};
    struct zf_verify_sum sum = {0};
    struct verify v = {.c = c, .o = &o, .sum = &sum, .bad = (bool[]){false, false}};

    found.n_tensors = 0;
    assert_ok(verify_stored(&v, &err), &err);
    zf_vec_fini(&v.hit);
    zf_checkpoint_free(c);
    assert_true(sum.bytes <= 6 * n / 100 || n < 100000);
    if (found.n_tensors == 0)
        return false;
    assert_int_equal(found.weight, ZF_WEIGHT_NOTE);
    assert_int_equal(found.kind, ZF_FOUND_COPY);
    assert_int_equal(found_tensor, 1);
    const char *element = strstr(found_text, "element ");
    assert_non_null(element);
    *at = strtoull(element + 8, NULL, 10);
    assert_non_null(strstr(found_text, " is "));
    assert_float_equal(strtof(strstr(found_text, " is ") + 4, NULL), number_of(weight[*at]), 0);
    assert_float_equal(strtof(strstr(found_text, "rounds to ") + 10, NULL),
                       number_of(rounded(master[*at])), 0);
    return true;
}

static void rounded_masters_are_no_finding(void **state)
{
    uint64_t at;

    (void)state;
    fill();
    assert_false(differs(BIG, BIG, &at));
    assert_false(differs(SMALL, SMALL, &at));
    assert_false(differs(1, 1, &at));
    master[100] = __builtin_nanf("");
    weight[100] = 0x7fa1; /* another NaN than the cast makes */
    assert_false(differs(SMALL, SMALL, &at));
}

static void differences_are_found(void **state)
{
    uint64_t at;

    (void)state;
    fill();
    weight[SMALL - 1] ^= 1;
    assert_true(differs(SMALL, SMALL, &at));
    assert_int_equal(at, SMALL - 1);
    for (size_t i = 200000; i < 300000; i++)
        weight[i] ^= 0x8000;
    assert_true(differs(BIG, BIG, &at));
    assert_in_range(at, 200000, 299999);
    weight[BIG - 1] ^= 1;
    for (size_t i = 200000; i < 300000; i++)
        weight[i] ^= 0x8000;
    assert_true(differs(BIG, BIG, &at));
    assert_int_equal(at, BIG - 1);
}

static void other_shapes_are_no_pair(void **state)
{
    uint64_t at;

    (void)state;
    fill();
    memset(weight, 0, sizeof weight);
    assert_false(differs(SMALL, SMALL - 1, &at));
    assert_true(differs(SMALL, SMALL, &at));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounded_masters_are_no_finding),
        cmocka_unit_test(differences_are_found),
        cmocka_unit_test(other_shapes_are_no_pair),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
