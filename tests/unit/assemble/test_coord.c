/* SPDX-License-Identifier: Apache-2.0 */
/* Places of ranks: numbered one by one against nested loops. */
#include <stdio.h>
#include <stdlib.h>

#include "support/unit.h"

#include <zf/assemble/coord.h>

static const struct zf_mesh meshes[] = {
    {{0}},
    {.size[ZF_AXIS_DATA] = 4},
    {.size[ZF_AXIS_TENSOR] = 2, .size[ZF_AXIS_DATA] = 3},
    {.size[ZF_AXIS_TENSOR] = 3, .size[ZF_AXIS_PIPELINE] = 2},
    {.size[ZF_AXIS_TENSOR] = 2, .size[ZF_AXIS_DATA] = 3, .size[ZF_AXIS_PIPELINE] = 2},
    {.size[ZF_AXIS_TENSOR] = 2, .size[ZF_AXIS_EXPERT] = 4, .size[ZF_AXIS_DATA] = 1},
    {{2, 3, 2, 2, 3}},
};
enum { N_MESHES = sizeof meshes / sizeof meshes[0] };

static uint32_t parts(const struct zf_mesh *m, int axis)
{
    return m->size[axis] ? m->size[axis] : 1;
}

static void numbers(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_MESHES; i++) {
        const struct zf_mesh *m = &meshes[i];
        struct zf_coord c;
        uint64_t n = 0;

        for (c.at[4] = 0; c.at[4] < parts(m, 4); c.at[4]++) {
            for (c.at[3] = 0; c.at[3] < parts(m, 3); c.at[3]++) {
                for (c.at[2] = 0; c.at[2] < parts(m, 2); c.at[2]++) {
                    for (c.at[1] = 0; c.at[1] < parts(m, 1); c.at[1]++) {
                        for (c.at[0] = 0; c.at[0] < parts(m, 0); c.at[0]++, n++) {
                            assert_int_equal(zf_coord_number(m, c), n);
                            assert_int_equal(zf_coord_is_first(c), n == 0);
                        }
                    }
                }
            }
        }
    }
}

static void texts(void **state)
{
    const struct zf_mesh data = {.size[ZF_AXIS_DATA] = 8}, five = {{2, 2, 2, 2, 2}};
    const struct zf_mesh two = {.size[ZF_AXIS_TENSOR] = 2, .size[ZF_AXIS_PIPELINE] = 3};
    char text[ZF_COORD_MAX];

    (void)state;
    assert_string_equal(zf_coord_text(&data, zf_coord_data(3), text), "rank3");
    assert_string_equal(
        zf_coord_text(&two, (struct zf_coord){.at = {[ZF_AXIS_TENSOR] = 1, [ZF_AXIS_PIPELINE] = 2}},
                      text),
        "tp1.pp2.rank0");
    struct zf_coord most;
    memset(&most, 0xff, sizeof most);
    assert_string_equal(zf_coord_text(&five, most, text),
                        "tp4294967295.ep4294967295.pp4294967295.vp4294967295.rank4294967295");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers),
        cmocka_unit_test(texts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
