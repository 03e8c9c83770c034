/* SPDX-License-Identifier: Apache-2.0 */
/* Which files the notes of opening speak of; the notes are those that readers write. */
#include "support/unit.h"

#include "../../../src/verify/hints.h"

#define FILES 4
static const char *const file[FILES] = {"run/mp_rank_00_model_states.pt",
                                        "run/mp_rank_01_model_states.pt", "run/optim/__0_0.distcp",
                                        "run/truth.pt"};

/* One digit a file: may the note mean it? */
static void meant(const char *note, const char *want)
{
    const char *const notes[] = {"step is 3", note};
    const struct zf_checkpoint c = {.note = notes, .n_notes = 2};
    zf_auto(out) struct zf_out series = {0};
    char is[FILES + 1] = "";
    struct hints h;
    struct zf_err err;

    assert_ok(hints_init(&h, &c, &err), &err);
    for (size_t i = 0; i < FILES; i++) {
        assert_ok(hints_series(file[i], &series, &err), &err);
        hints_add_file(&h, zf_out_text(&series));
    }
    for (size_t i = 0; i < FILES; i++) {
        assert_ok(hints_series(file[i], &series, &err), &err);
        is[i] = hints_may_mean(&h, zf_out_text(&series)) ? '1' : '0';
    }
    hints_fini(&h);
    assert_string_equal(is, want);
}

static void notes_that_name_files(void **state)
{
    (void)state;
    meant("truth.pt, old.pt are not shown: they are not part of this checkpoint. Point at one of "
          "them to see it",
          "0001");
    meant("mp_rank_01_model_states.pt: \"a\" is left out: it is not a plain tensor", "1100");
    meant("run/optim/__0_0.distcp is left out: byte 3 is wrong", "0010");
    /* the file that it names later is why */
    meant("the masters and their states are left out: mp_rank_00_model_states.pt is damaged",
          "1111");
}

static void notes_that_name_none(void **state)
{
    (void)state;
    meant("the optimizer's states are left out: they have no names", "1111");
    meant("\"truth\" is left out: it is not a dense tensor", "1111");
    meant("300 more notes of the same kinds are not shown", "0000");
    meant("3 ranks are not used", "0000");
}

static void notes_that_say_a_file_is_not_shown(void **state)
{
    const char *const notes[] = {"truth.pt is not shown: it is no part",
                                 "gone.pt is left out: why"};
    const struct zf_checkpoint c = {.note = notes, .n_notes = 2};
    struct hints h;
    struct zf_err err;

    (void)state;
    assert_ok(hints_init(&h, &c, &err), &err);
    assert_true(hints_name(&h, "run/truth.pt", "run/truth.pt"));
    assert_false(hints_name(&h, "run/gone.pt", "run/gone.pt"));
    assert_false(hints_name(&h, file[0], file[0]));
    hints_fini(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(notes_that_name_files),
                                       cmocka_unit_test(notes_that_name_none),
                                       cmocka_unit_test(notes_that_say_a_file_is_not_shown)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
