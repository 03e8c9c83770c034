/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include <stdio.h>

#include "made.h"
#include "support/compares.h"

enum { FILES = 10 };

/* A rank's directory with a weight and its own side files, so often; looks at texts while the tree is made. */
static uint64_t looks_of_ranks(uint32_t ranks)
{
    const uint64_t one = 1;
    struct zf_build *b = made_build(false);
    char path[64];

    for (uint32_t r = 0; r < ranks; r++) {
        (void)snprintf(path, sizeof path, "mp_rank_%04u", r);
        made_tensor(b, path, "w", ZF_DT_F32, 1, &one);
        for (uint32_t k = 0; k < FILES; k++) {
            (void)snprintf(path, sizeof path, "mp_rank_%04u/file%u.json", r, k);
            assert_ok(zf_build_text(b, path, "{}", 2, &err), &err);
        }
    }
    struct zf_limits lim = zf_limits_default();
    struct zf_checkpoint *c = zf_build_seal(b, "made", "by a test", &err);
    assert_ok(c, &err);
    uint64_t before = compares_so_far();
    zf_auto(tree) struct zf_tree *t = zf_tree_new(c, &(struct zf_view_opts){.lim = &lim}, &err);
    assert_ok(t, &err);
    return compares_so_far() - before;
}

static void side_files_are_placed_in_linear_time(void **state)
{
    (void)state;
    uint64_t few = looks_of_ranks(64), many = looks_of_ranks(512);

    /* Of eight times as many; the square would be 64 times. */
    assert_in_range(many, few, 16 * few);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(side_files_are_placed_in_linear_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
