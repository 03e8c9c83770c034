/* SPDX-License-Identifier: Apache-2.0 */
/* Which files the notes of opening speak of. */
#include "support/unit.h"

#include "../../../src/verify/hints.h"

#define FILES 4
static const char *const file[FILES] = {"run/mp_rank_00_model_states.pt",
                                        "run/mp_rank_01_model_states.pt", "run/optim/__0_0.distcp",
                                        "run/truth.pt"};

/* One digit a file: may the note mean it? */
static void meant(enum zf_note_kind kind, const char *about, const char *want)
{
    const struct zf_note notes[] = {{.about = "", .text = "step is 3"},
                                    {.kind = kind, .about = about, .text = "gone.pt is odd"}};
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

static void notes_about_files(void **state)
{
    (void)state;
    meant(ZF_NOTE_UNSHOWN, "old.pt\ntruth.pt\n", "0001");
    meant(ZF_NOTE_LEFT_OUT, "mp_rank_01_model_states.pt", "1100");
    meant(ZF_NOTE_UNREADABLE, "run/optim/__0_0.distcp", "0010");
    meant(ZF_NOTE_OTHER, "truth.pt", "0000");
    meant(ZF_NOTE_UNCOMPARED, "", "0000");
}

static void notes_about_none(void **state)
{
    (void)state;
    meant(ZF_NOTE_LEFT_OUT, "", "1111");
    meant(ZF_NOTE_LEFT_OUT, "optim", "1111");
    /* parts of names are others */
    meant(ZF_NOTE_LEFT_OUT, "old_truth.pt\ntruth.pt.bak", "1111");
    meant(ZF_NOTE_OTHER, "", "0000");
}

static void notes_that_say_a_file_is_not_shown(void **state)
{
    const struct zf_note notes[] = {
        {.kind = ZF_NOTE_UNSHOWN, .about = "truth.pt", .text = ""},
        {.kind = ZF_NOTE_UNREADABLE, .about = "gone.pt", .text = ""},
        {.kind = ZF_NOTE_SAVES, .about = "step-9\nold/step-3\n", .text = ""},
    };
    const struct zf_checkpoint c = {.note = notes, .n_notes = 3};
    struct hints h;
    struct zf_err err;

    (void)state;
    assert_ok(hints_init(&h, &c, &err), &err);
    assert_true(hints_name(&h, "run/truth.pt", "run/truth.pt"));
    assert_false(hints_name(&h, "run/gone.pt", "run/gone.pt"));
    assert_false(hints_name(&h, file[0], file[0]));
    assert_true(hints_name(&h, "step-12/a.pt", "step-0/a.pt"));
    assert_true(hints_name(&h, "old/step-3/a.pt", "old/step-0/a.pt"));
    assert_false(hints_name(&h, "step-x/a.pt", "step-x/a.pt"));
    assert_false(hints_name(&h, "step-9", "step-0"));
    assert_false(hints_name(&h, "step/a.pt", "step/a.pt"));
    hints_fini(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(notes_about_files),
                                       cmocka_unit_test(notes_about_none),
                                       cmocka_unit_test(notes_that_say_a_file_is_not_shown)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
