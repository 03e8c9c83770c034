/* SPDX-License-Identifier: Apache-2.0 */
/* Places of ranks: numbered one by one against nested loops, and what each place has of a tensor
 * against counting who owns each element. */
#include <stdio.h>
#include <stdlib.h>

#include "support/unit.h"

#include <zf/assemble/coord.h>

#include "src/assemble/dtensor_ranges.h"

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
                            struct zf_coord back = zf_coord_of(m, n);

                            assert_int_equal(zf_coord_number(m, c), n);
                            assert_memory_equal(&back, &c, sizeof c);
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

enum { ROWS = 7, COLS = 5 };

/* Adds one owner to each element that the place has; answers a sum that depends on which. */
static uint64_t own(const struct zf_mesh *m, struct zf_coord c, const int *cut, int *owners)
{
    static const uint64_t shape[] = {ROWS, COLS};
    struct zf_err err = {0};
    zf_auto(arena) struct zf_arena *a = zf_arena_new(1 << 20, &err);
    struct zf_mesh_axis axis[ZF_N_AXES];
    struct dim_ranges dim[2];
    struct zf_dtensor dt = {.ndim = 2, .shape = shape, .axis = axis};
    uint64_t sum = 0;

    dt.n_axes = zf_coord_axes(m, c, cut, axis);
    assert_true(boxes_dims(&dt, a, dim, &err));
    for (uint64_t i = 0; i < dim[0].n; i++) {
        for (uint64_t k = 0; k < dim[1].n; k++) {
            for (uint64_t row = dim[0].range[i].lo; row < dim[0].range[i].hi; row++) {
                for (uint64_t col = dim[1].range[k].lo; col < dim[1].range[k].hi; col++) {
                    owners[row * COLS + col]++;
                    sum += 1 + (row * COLS + col) * (row * COLS + col);
                }
            }
        }
    }
    return sum;
}

/* Every element is owned as often as there are places along the axes that do not cut, and places that
 * differ along these only own the same. */
static void boxes(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_MESHES; i++) {
        const struct zf_mesh *m = &meshes[i];
        uint64_t n = 1;

        for (int a = 0; a < ZF_N_AXES; a++) {
            n *= parts(m, a);
        }
        for (int way = 0; way < 3 * 3 * 3 * 3 * 3; way++) {
            int cut[ZF_N_AXES], owners[ROWS * COLS] = {0}, copies = 1;
            uint64_t sum[256] = {0};

            for (int a = 0, w = way; a < ZF_N_AXES; a++, w /= 3) {
                cut[a] = w % 3 - 1;
                copies *= cut[a] < 0 ? (int)parts(m, a) : 1;
            }
            for (uint64_t r = 0; r < n; r++) {
                struct zf_coord c = zf_coord_of(m, r);
                uint64_t got = own(m, c, cut, owners) + 1;

                for (int a = 0; a < ZF_N_AXES; a++) {
                    c.at[a] = cut[a] < 0 ? 0 : c.at[a];
                }
                uint64_t *want = &sum[zf_coord_number(m, c)];
                *want = *want ? *want : got;
                assert_int_equal(got, *want);
            }
            for (int e = 0; e < ROWS * COLS; e++) {
                assert_int_equal(owners[e], copies);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers),
        cmocka_unit_test(texts),
        cmocka_unit_test(boxes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
