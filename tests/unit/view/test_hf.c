/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include <stdio.h>

#include "made.h"
#include "view/hf.h"

/* A set of f32 vectors of these lengths, cut at `size` bytes. */
struct cut {
    struct zf_checkpoint *c;
    struct zf_arena *arena;
    struct shelf_set set;
    struct hf_plan plan;
};

static void cut(struct cut *x, const uint64_t *elems, uint32_t n, enum zf_dtype as, uint64_t size)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_view_opts o = {.lim = &lim};
    struct zf_build *b = made_build(false);
    char name[16];

    for (uint32_t i = 0; i < n; i++) {
        (void)snprintf(name, sizeof name, "w%u", i);
        made_vector(b, name, ZF_DT_F32, elems[i]);
    }
    x->c = zf_build_seal(b, "made", "by a test", &err);
    assert_ok(x->c, &err);
    x->arena = zf_arena_new(1 << 20, &err);
    assert_non_null(x->arena);
    assert_ok(shelf_set_init(&x->set, zf_checkpoint_set(x->c, ""), &o, x->arena, &err), &err);
    assert_ok(hf_cut(&x->plan, &x->set, as, size, x->arena, &err), &err);
}

static void drop(struct cut *x)
{
    zf_checkpoint_free(x->c);
    zf_arena_free(x->arena);
}

static void assert_shards(const struct cut *x, const uint32_t *ends, uint32_t n)
{
    uint32_t lo = 0;

    assert_int_equal(x->plan.n, n);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(x->plan.shard[i].lo, lo);
        assert_int_equal(x->plan.shard[i].hi, ends[i]);
        lo = ends[i];
    }
}

static void shards_are_filled_up_to_the_size(void **state)
{
    static const uint64_t elems[] = {10, 10, 5, 25, 1, 0, 1};
    struct cut x;

    (void)state;
    /* Exactly full; one that is too large is alone; empty ones go along. */
    cut(&x, elems, 7, ZF_DT_COUNT, 80);
    assert_shards(&x, (const uint32_t[]){2, 3, 4, 7}, 4);
    drop(&x);
    /* Half as many bytes under as/bf16. */
    cut(&x, elems, 7, ZF_DT_BF16, 50);
    assert_shards(&x, (const uint32_t[]){3, 4, 7}, 3);
    drop(&x);
    cut(&x, elems, 7, ZF_DT_COUNT, UINT64_MAX);
    assert_shards(&x, (const uint32_t[]){7}, 1);
    drop(&x);
    cut(&x, elems, 7, ZF_DT_COUNT, 1);
    assert_shards(&x, (const uint32_t[]){1, 2, 3, 4, 6, 7}, 6);
    drop(&x);
}

static void names_are_those_of_save_pretrained(void **state)
{
    struct hf_plan p = {.n = 3};
    char name[64];

    (void)state;
    hf_name(&p, 0, name);
    assert_string_equal(name, "model-00001-of-00003.safetensors");
    hf_name(&p, 2, name);
    assert_string_equal(name, "model-00003-of-00003.safetensors");
    p.n = 1;
    hf_name(&p, 0, name);
    assert_string_equal(name, "model.safetensors");
    p.n = 123456;
    hf_name(&p, 99999, name);
    assert_string_equal(name, "model-100000-of-123456.safetensors");
}

static bool held(const struct shelf_set *ss, const char *name)
{
    for (uint32_t i = 0; i < ss->set->n; i++)
        if (strcmp(ss->set->tensor[i].name, name) == 0)
            return hf_holds(ss, i, ZF_DT_COUNT);
    fail_msg("%s is not there", name);
    return false;
}

static void only_what_a_header_can_tell_is_held(void **state)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_view_opts o = {.lim = &lim};
    struct zf_build *b = made_build(false);
    struct shelf_set ss;

    (void)state;
    made_vector(b, "w", ZF_DT_F32, 1);
    made_vector(b, "__metadata__", ZF_DT_F32, 1);
    made_vector(b, "\xff", ZF_DT_F32, 1);
    made_vector(b, "c32", ZF_DT_C32, 1);
    made_vector(b, "q", ZF_DT_QI8, 1);
    made_vector(b, "f4", ZF_DT_F4, 1);
    made_tensor(b, "", "f4.one", ZF_DT_F4, 0, NULL);
    zf_auto(checkpoint) struct zf_checkpoint *c = zf_build_seal(b, "made", "by a test", &err);
    assert_ok(c, &err);
    struct zf_arena *a = zf_arena_new(1 << 20, &err);
    assert_ok(shelf_set_init(&ss, zf_checkpoint_set(c, ""), &o, a, &err), &err);
    assert_true(held(&ss, "w"));
    assert_true(held(&ss, "f4"));
    assert_false(held(&ss, "__metadata__"));
    assert_false(held(&ss, "\xff"));
    assert_false(held(&ss, "c32"));
    assert_false(held(&ss, "q"));
    assert_false(held(&ss, "f4.one"));
    zf_arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shards_are_filled_up_to_the_size),
        cmocka_unit_test(names_are_those_of_save_pretrained),
        cmocka_unit_test(only_what_a_header_can_tell_is_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
