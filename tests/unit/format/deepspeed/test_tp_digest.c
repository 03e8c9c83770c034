/* SPDX-License-Identifier: Apache-2.0 */
/* The number of an affine map is that of its values: whatever else may be changed, it must not, and no value may. */
#include "support/pickled.h"

#include "src/format/deepspeed/steps.h"

static uint64_t digest(const char *literal)
{
    struct zf_err err;
    zf_auto(arena) struct zf_arena *a = zf_arena_new(1 << 20, &err);
    uint64_t out;

    assert_true(ds_tp_digest(pickled(literal, a), &out, &err));
    return out;
}

static void order_does_not_count(void **state)
{
    (void)state;
    assert_int_equal(digest("{'a': [1, 2], 'b': {0: 'x', 1: 2.5}}"),
                     digest("{'b': {1: 2.5, 0: 'x'}, 'a': [1, 2]}"));
}

static void every_value_counts(void **state)
{
    static const char *const other[] = {
        "{'a': [1, 2], 'b': {0: 'x', 1: 2.5}}",    "{'a': [2, 1], 'b': {0: 'x', 1: 2.5}}",
        "{'a': [1, 3], 'b': {0: 'x', 1: 2.5}}",    "{'a': [1, 2], 'b': {0: 'y', 1: 2.5}}",
        "{'a': [1, 2], 'b': {0: 'x', 1: 2.0}}",    "{'a': [1, 2], 'b': {1: 'x', 0: 2.5}}",
        "{'a': [1, 2], 'c': {0: 'x', 1: 2.5}}",    "{'a': [1, 2], 'b': {0: 'x'}}",
        "{'a': [1, 2, N], 'b': {0: 'x', 1: 2.5}}", "{'a': [1, 2], 'b': {0: 'x', 1: 2.5}, 'd': []}",
        "{'b': [1, 2], 'a': {0: 'x', 1: 2.5}}",    "{'a': [[1], 2], 'b': {0: 'x', 1: 2.5}}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++) {
        assert_int_not_equal(digest(other[i]), 0);
        for (size_t k = 0; k < i; k++)
            assert_int_not_equal(digest(other[i]), digest(other[k]));
    }
}

static void no_mapping_has_none(void **state)
{
    (void)state;
    assert_int_equal(digest("[1, 2]"), 0);
    assert_int_equal(digest("N"), 0);
    assert_int_not_equal(digest("{}"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_does_not_count),
        cmocka_unit_test(every_value_counts),
        cmocka_unit_test(no_mapping_has_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
