/* SPDX-License-Identifier: Apache-2.0 */
/* Names of directories that frameworks write, and what is read from them. */
#include "support/unit.h"

#include <fnmatch.h>

#include "src/find/save_name.h"

static void steps(void **state)
{
    static const struct {
        const char *path;
        bool is;
        int64_t step;
    } cases[] = {
        {"global_step5", true, 5},
        {"checkpoint-60", true, 60},
        {"iter_0000010", true, 10},
        {"step12-best", true, 12},
        {"step12-unsharded", true, 12},
        {"step12-unsharded-rank3", false, 0},
        {"unsharded12", false, 0},
        {"epoch=1-step=20.ckpt", true, 20},
        {"Step_7", true, 7},
        {"epoch_3_step_0", true, 0},
        {"checkpoint-60/global_step61", true, 61},
        {"checkpoint-60/model", true, 60},
        {"run7/step-9/policy/weights", true, 9},
        {"step-123456789012345", true, 123456789012345},
        {"step-1234567890123456", false, 0},
        {"step", false, 0},
        {"run7", false, 0},
        {"10", false, 0},
        {"rank_0_step_5", false, 0},
        {"step5_optim", false, 0},
        {"step5-optimizer", false, 0},
        {"step5_model_00001", false, 0},
        {"Model_3_step_5", false, 0},
        {"step5-shards", false, 0},
        {"model_step_5", true, 5},
        {"optim_step_20", true, 20},
        {"shard-step-5", true, 5},
        {"remodeled_step_5", true, 5},
        {"frank-checkpoint-5", true, 5},
        {"step5-sharded", true, 5},
        {"step5-best", true, 5},
        {"", false, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t step = 0;

        print_message("# %s\n", cases[i].path);
        assert_int_equal(save_name_step(cases[i].path, &step), cases[i].is);
        assert_int_equal(step, cases[i].step);
    }
    assert_true(save_name_is_step("global_step5"));
    assert_false(save_name_is_step("global_step"));
    assert_false(save_name_is_step("rank5"));
}

static void numbers(void **state)
{
    static const char *const no[] = {"", "10x", "x10", "-1", " 1", "1/2", "1234567890123456"};
    int64_t n = -1;

    (void)state;
    assert_true(save_name_number("0010", &n));
    assert_int_equal(n, 10);
    assert_true(save_name_number("123456789012345", &n));
    assert_int_equal(n, 123456789012345);
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++)
        assert_false(save_name_number(no[i], &n));
}

/* A component longer than any file name has no step. */
static void long_names(void **state)
{
    char path[600];
    int64_t step = -1;

    (void)state;
    memset(path, 'x', sizeof path);
    memcpy(path, "step5", 5);
    path[sizeof path - 1] = '\0';
    assert_false(save_name_step(path, &step));
    path[255] = '\0';
    assert_true(save_name_step(path, &step));
    assert_int_equal(step, 5);
}

static void series(void **state)
{
    (void)state;
    assert_true(save_name_same_series("step-9", "step-10"));
    assert_true(save_name_same_series("epoch=1-step=20.ckpt", "epoch=12-step=3.ckpt"));
    assert_true(save_name_same_series("", ""));
    assert_true(save_name_same_series("step9", "step10-unsharded"));
    assert_true(save_name_same_series("step9-unsharded", "step10"));
    assert_false(save_name_same_series("step9-unsharded", "step10-best"));
    assert_false(save_name_same_series("step9-unsharded-x", "step10"));
    assert_true(save_name_is_unsharded("step9-unsharded", "step9"));
    assert_false(save_name_is_unsharded("step9-unsharded", "step10"));
    assert_false(save_name_is_unsharded("step9", "step9"));
    assert_true(save_name_is_unfinished("step9-tmp"));
    assert_true(save_name_is_unfinished("tmp-checkpoint-5"));
    assert_false(save_name_is_unfinished("old-tmp"));
    assert_false(save_name_is_unfinished("step9"));
    assert_false(save_name_same_series("step-9", "step_9"));
    assert_false(save_name_same_series("step-9", "step-9-best"));
    assert_false(save_name_same_series("step-9-best", "step-9"));
    assert_false(save_name_same_series("step-", "step-9"));
    assert_false(save_name_same_series("step-9", "step-"));
}

static void parts_and_neighbours(void **state)
{
    static const char *const part[] = {
        "model",    "optim",          "train",       "iter_1/mp_rank_00_003", "rng_state",
        "a/b/unet", "text_encoder_2", "transformer", "x_extra_state"};
    static const char *const no_part[] = {"models", "model/x", "mp_rank_x",
                                          "step-5", "mymodel", "unet2"};
    static const char *const beside[] = {
        ".git",      "lost+found", "latest",           "LATEST",
        "step5-tmp", "step.tmp",   "tmp-checkpoint-5", "tmp_step_10"};
    static const char *const save[] = {"step5",
                                       "tmp",
                                       "-tmp",
                                       "tmpfs",
                                       "late",
                                       "step-tmp5",
                                       "latest_model",
                                       "latest-checkpoint",
                                       "latest_universal",
                                       "LOWEST_VAL"};

    (void)state;
    for (size_t i = 0; i < sizeof part / sizeof part[0]; i++)
        assert_true(save_name_is_part(part[i]));
    for (size_t i = 0; i < sizeof no_part / sizeof no_part[0]; i++)
        assert_false(save_name_is_part(no_part[i]));
    for (size_t i = 0; i < sizeof beside / sizeof beside[0]; i++)
        assert_true(save_name_is_ignored(beside[i]));
    for (size_t i = 0; i < sizeof save / sizeof save[0]; i++)
        assert_false(save_name_is_ignored(save[i]));
}

static void patterns(void **state)
{
    static const char *const pattern[] = {"*.model", "vocab*", NULL}, *const none[] = {NULL};

    (void)state;
    assert_true(save_name_fits("x.model", pattern, 0));
    assert_true(save_name_fits("vocab.txt", pattern, 0));
    assert_true(save_name_fits(".model", pattern, 0));
    assert_false(save_name_fits(".model", pattern, FNM_PERIOD));
    assert_false(save_name_fits("x.models", pattern, 0));
    assert_false(save_name_fits("x", none, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps),
        cmocka_unit_test(numbers),
        cmocka_unit_test(long_names),
        cmocka_unit_test(series),
        cmocka_unit_test(parts_and_neighbours),
        cmocka_unit_test(patterns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
