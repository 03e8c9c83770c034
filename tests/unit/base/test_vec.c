/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include <zf/base/vec.h>

struct thing {
    uint64_t a, b;
};

static void grows(void **state)
{
    zf_vec(struct thing) v = {0};
    struct zf_err err;

    (void)state;
    for (uint64_t i = 0; i < 10000; i++) {
        struct thing *t = zf_vec_push(&v, &err);

        assert_ok(t != NULL, &err);
        assert_true(t == &v.at[i] && v.n == i + 1 && v.cap < 2 * v.n + 8);
        assert_true(t->a == 0 && t->b == 0);
        *t = (struct thing){i, ~i};
    }
    for (uint64_t i = 0; i < 10000; i++)
        assert_true(v.at[i].a == i && v.at[i].b == ~i);
    v.n = 5;
    assert_int_equal(zf_vec_push(&v, &err)->b, 0); /* what was there before is not */
    assert_ok(zf_vec_room(&v, 100000, &err), &err);
    assert_true(v.cap - v.n >= 100000 && v.at[4].a == 4);
    zf_vec_fini(&v);
    assert_true(!v.at && v.n == 0 && v.cap == 0);
}

/* Sizes that do not fit into memory, or not into a size_t, leave everything as it was. */
static void never_wraps(void **state)
{
    static const size_t more[] = {SIZE_MAX, SIZE_MAX - 1, SIZE_MAX / 2 + 2, SIZE_MAX / 8,
                                  SIZE_MAX / sizeof(struct thing) + 1};
    zf_vec(struct thing) v = {0};
    struct zf_err err;

    (void)state;
    assert_ok(zf_vec_push(&v, &err) != NULL, &err);
    v.at[0].a = 7;
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) {
        zf_err_clear(&err);
        assert_false(zf_vec_room(&v, more[i], &err));
        assert_err(&err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
        assert_true(v.n == 1 && v.cap == 8 && v.at[0].a == 7);
    }
    zf_vec_fini(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grows),
        cmocka_unit_test(never_wraps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
