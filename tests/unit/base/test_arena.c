/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include <zf/base/arena.h>

static void hands_out_zeroed_aligned_memory(void **state)
{
    struct zf_err err;
    zf_auto(arena) struct zf_arena *a = zf_arena_new(1u << 20, &err);

    (void)state;
    assert_non_null(a);
    for (uint64_t n = 0; n < 300; n++) {
        char *s = zf_arena_str(a, "abc", 3, &err);
        char *p = zf_arena_get(a, n, 3, &err);

        assert_string_equal(s, "abc");
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % _Alignof(max_align_t), 0);
        for (uint64_t i = 0; i < n * 3; i++) {
            assert_int_equal(p[i], 0);
            p[i] = 'x';
        }
        assert_string_equal(s, "abc");
    }
}

static void copies(void **state)
{
    const uint32_t three[] = {1, 2, UINT32_MAX};
    struct zf_err err;
    zf_auto(arena) struct zf_arena *a = zf_arena_new(4096, &err);
    uint32_t *copy = zf_arena_copy(a, three, 3, sizeof *three, &err);

    (void)state;
    assert_memory_equal(copy, three, sizeof three);
    copy[0] = 7;
    assert_int_equal(three[0], 1);
    assert_non_null(zf_arena_copy(a, NULL, 0, sizeof *three, &err));
    assert_null(zf_arena_copy(a, three, UINT64_MAX, sizeof *three, &err));
    assert_int_equal(err.code, ZF_E_LIMIT);
}

static void refuses_what_is_over_the_budget(void **state)
{
    struct zf_err err;
    zf_auto(arena) struct zf_arena *a = zf_arena_new(1000, &err);

    (void)state;
    assert_non_null(zf_arena_get(a, 1, 900, &err));
    assert_null(zf_arena_get(a, 1, 200, &err));
    assert_err(&err, ZF_E_LIMIT, ZF_OFF_NONE, "more than 1000 bytes");
    assert_null(zf_arena_get(a, UINT64_MAX, 8, &err));
    assert_int_equal(err.code, ZF_E_LIMIT);
    assert_non_null(zf_arena_str(a, "still fits", 10, &err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hands_out_zeroed_aligned_memory),
        cmocka_unit_test(copies),
        cmocka_unit_test(refuses_what_is_over_the_budget),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
