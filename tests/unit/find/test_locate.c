/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the save and choosing its family. */
#include "support/golden.h"
#include "support/in_memory.h"

#include <stdlib.h>

#include "src/find/locate.h"
#include "src/find/saves.h"
#include "src/find/beside.h"
#include "src/find/table.h"
#include "support/store_mem.h"
#include "unit/source/scratch.h"

static void add_text(struct fixture *f, const char *path, const char *text)
{
    assert_ok(store_mem_add(f->st, path, text, strlen(text), &f->err), &f->err);
}

/* The smallest checkpoint: one safetensors file of one tensor without elements. */
static void add_save(struct fixture *f, const char *path)
{
    static const char head[] =
        "\x3c\0\0\0\0\0\0\0"
        "{\"w\": {\"dtype\": \"F32\", \"shape\": [0], \"data_offsets\": [0,0]}}";

    assert_ok(store_mem_add(f->st, path, head, sizeof head - 1, &f->err), &f->err);
}

static void found_at(struct fixture *f, const char *tag, const char *format)
{
    zf_auto(located) struct located l = {.dir = NULL};

    assert_ok(locate(f->st, &f->o, &l, &f->err), &f->err);
    if (tag) {
        assert_non_null(l.tag);
        assert_string_equal(l.tag, tag);
    } else {
        assert_null(l.tag);
    }
    assert_string_equal(l.match.format->name, format);
}

static void not_found(struct fixture *f, enum zf_code code, const char *part)
{
    zf_auto(located) struct located l = {.dir = NULL};

    memset(&f->err, 0x5a, sizeof f->err);
    assert_false(locate(f->st, &f->o, &l, &f->err));
    assert_err(&f->err, code, f->err.off, part);
}

static void test_table(void **state)
{
    (void)state;
    assert_null(table_row[0]); /* the first level begins */
    for (size_t i = 0; i < TABLE_ROWS; i++) {
        const struct zf_format *f = table_row[i];

        if (!f)
            continue;
        assert_ptr_equal(table_find(f->name), f);
        assert_non_null(f->summary);
        assert_non_null(f->probe);
        assert_non_null(f->open);
    }
    assert_null(table_find("nothing"));
}

static void test_here(void **state)
{
    struct fixture *f = *state;

    add_save(f, "model.safetensors");
    found_at(f, NULL, "safetensors");
}

static void test_index_before_files(void **state)
{
    struct fixture *f = *state;

    add_save(f, "model.safetensors");
    add_text(f, "model.safetensors.index.json", "{\"weight_map\": {}}");
    found_at(f, NULL, "hf");
    f->o.format = "safetensors";
    found_at(f, NULL, "safetensors");
}

static void test_unknown_format(void **state)
{
    struct fixture *f = *state;

    add_save(f, "model.safetensors");
    f->o.format = "zip";
    not_found(f, ZF_E_USAGE, "there is no format \"zip\". Known: ");
    assert_non_null(strstr(f->err.msg, "safetensors"));
}

static void test_nothing(void **state)
{
    struct fixture *f = *state;

    add_text(f, "notes.txt", "hello");
    not_found(f, ZF_E_UNKNOWN, "there is no checkpoint here");
}

static void test_latest(void **state)
{
    struct fixture *f = *state;

    add_save(f, "best/model.safetensors");
    add_save(f, "last/model.safetensors");
    not_found(f, ZF_E_UNKNOWN, "best, last. Point at one");
    add_text(f, "latest", "best\n");
    teardown(state);
    setup(state);
    f = *state;
    add_save(f, "best/model.safetensors");
    add_save(f, "last/model.safetensors");
    add_text(f, "latest", "best\n");
    found_at(f, "best", "safetensors");
    f->o.tag = "last";
    found_at(f, "last", "safetensors");
    f->o.tag = "worst";
    not_found(f, ZF_E_USAGE, "there is no save \"worst\" here. Found: best, last");
}

static void test_latest_nested(void **state)
{
    struct fixture *f = *state;

    add_save(f, "runs/a/model.safetensors");
    add_text(f, "latest", "runs/a");
    found_at(f, "runs/a", "safetensors");
}

static void test_latest_bad(void **state)
{
    static const char *const bad[] = {"", "\n", "../x", "/x", "a\nb", "a//b", "./a", "a/.."};

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct fixture *f = *state;

        add_save(f, "a/model.safetensors");
        add_text(f, "latest", bad[i]);
        not_found(f, ZF_E_FORMAT, "expected the name of a directory");
        assert_string_equal(f->err.path, "latest");
        assert_int_equal(f->err.off, 0);
        teardown(state);
        setup(state);
    }
}

static void test_latest_stale(void **state)
{
    struct fixture *f = *state;

    add_save(f, "global_step5/model.safetensors");
    add_text(f, "latest", "global_step9");
    not_found(f, ZF_E_FORMAT, "\"global_step9\", which does not exist. Found: global_step5");
}

static void test_megatron_latest(void **state)
{
    struct fixture *f = *state;

    add_save(f, "iter_0000010/model.safetensors");
    add_save(f, "iter_0000020/model.safetensors");
    add_text(f, "latest_checkpointed_iteration.txt", "10\n");
    found_at(f, "iter_0000010", "safetensors");
}

static void test_megatron_bad(void **state)
{
    struct fixture *f = *state;

    add_save(f, "iter_0000010/model.safetensors");
    add_text(f, "latest_checkpointed_iteration.txt", "ten");
    not_found(f, ZF_E_FORMAT, "expected a number or \"release\"");
    assert_string_equal(f->err.path, "latest_checkpointed_iteration.txt");
    assert_int_equal(f->err.off, 0);
}

static void test_newest_of_series(void **state)
{
    struct fixture *f = *state;

    add_save(f, "checkpoint-9/model.safetensors");
    add_save(f, "checkpoint-60/model.safetensors");
    add_save(f, "checkpoint-500-tmp/model.safetensors");
    add_text(f, "logs/x.txt", "x");
    found_at(f, "checkpoint-60", "safetensors");
}

/* As any other series. */
static void test_global_step_without_latest(void **state)
{
    struct fixture *f = *state;

    add_save(f, "global_step1/model.safetensors");
    found_at(f, "global_step1", "safetensors");
    teardown(state);
    setup(state);
    f = *state;
    add_save(f, "global_step9/model.safetensors");
    add_save(f, "global_step10/model.safetensors");
    found_at(f, "global_step10", "safetensors");
}

static void test_ranks_are_no_series(void **state)
{
    struct fixture *f = *state;

    add_save(f, "rank_0/model.safetensors");
    add_save(f, "rank_1/model.safetensors");
    not_found(f, ZF_E_UNKNOWN, "rank_0, rank_1");
}

static void test_two_levels(void **state)
{
    struct fixture *f = *state;

    add_save(f, "checkpoint/step-10/model.safetensors");
    found_at(f, "checkpoint/step-10", "safetensors");
}

static void test_saves(void **state)
{
    struct fixture *f = *state;
    zf_auto(saves) struct zf_saves t = {.at = NULL};

    add_save(f, "step10/model.safetensors");
    add_save(f, "step9/model.safetensors");
    add_text(f, "empty/x", "x");
    add_text(f, "latest", "step9");
    assert_ok(zf_saves_list(f->st, ZF_SAVES_WHOLE, &f->lim, &t, &f->err), &f->err);
    assert_int_equal(t.n, 2);
    assert_string_equal(t.at[0].path, "step9");
    assert_string_equal(t.at[1].path, "step10");
    assert_int_equal(t.latest, 0);
    assert_int_equal(t.at[0].step, 9);
    assert_int_equal(t.at[1].number, 10);
    assert_int_equal(t.at[1].fit, ZF_FIT_NAMES);
}

/* Directories that are named like saves, that are saves, and both; a name that is only a number is no step. */
static void test_saves_kinds(void **state)
{
    static const char *const list[][5] = {[ZF_SAVES_NAMED] = {"step7", "step9"},
                                          [ZF_SAVES_WHOLE] = {"11", "best", "step9"},
                                          [ZF_SAVES_BOTH] = {"11", "best", "step7", "step9"}};
    struct fixture *f = *state;

    add_save(f, "best/model.safetensors");
    add_save(f, "11/model.safetensors");
    add_save(f, "step9/model.safetensors");
    add_text(f, "step7/notes.txt", "x");
    add_text(f, "notes/x.txt", "x");
    for (enum zf_saves_kind kind = ZF_SAVES_NAMED; kind <= ZF_SAVES_BOTH; kind++) {
        zf_auto(saves) struct zf_saves t = {.at = NULL};

        assert_ok(zf_saves_list(f->st, kind, &f->lim, &t, &f->err), &f->err);
        for (size_t i = 0; i < t.n; i++) {
            assert_non_null(list[kind][i]);
            assert_string_equal(t.at[i].path, list[kind][i]);
            if (strcmp(t.at[i].path, "11") == 0) {
                assert_int_equal(t.at[i].step, -1);
                assert_int_equal(t.at[i].number, 11);
            }
        }
        assert_null(list[kind][t.n]);
    }
}

/* `latest` names a save by the name in the run, or by a link to it, which is listed once. */
static void test_saves_linked(void **state)
{
    static const char save[] = "\2\0\0\0\0\0\0\0{}";
    static const struct {
        const char *latest;
        size_t at;
    } row[] = {{"step9", 0}, {"best", 0}, {"step10", 1}, {"step11", 2}, {"nothing", 3}};
    const struct zf_limits lim = zf_limits_default();
    struct zf_err err;

    scratch_bytes(*state, "step9/model.safetensors", save, 10);
    scratch_bytes(*state, "data/0/model.safetensors", save, 10);
    scratch_bytes(*state, "step11/model.safetensors", save, 10);
    scratch_link(*state, "best", "step9");
    scratch_link(*state, "step10", "data/0");
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        zf_auto(saves) struct zf_saves t = {.at = NULL};

        scratch_file(*state, "latest", row[i].latest);
        zf_auto(store) struct zf_store *st = scratch_store(*state, 10);
        assert_ok(zf_saves_list(st, ZF_SAVES_WHOLE, &lim, &t, &err), &err);
        assert_int_equal(t.n, 3);
        assert_string_equal(t.at[1].path, "step10");
        assert_int_equal(t.latest, row[i].at);
    }
}

static void test_open_tells(void **state)
{
    struct fixture *f = *state;

    add_save(f, "run/checkpoint-60/model.safetensors");
    add_text(f, "run/checkpoint-60/tokenizer.json", "{}");
    add_text(f, "run/config.json", "{}");
    zf_auto(checkpoint) struct zf_checkpoint *c = zf_open(f->st, &f->o, &f->err);
    assert_ok(c != NULL, &f->err);
    assert_string_equal(c->format, "safetensors");
    assert_string_equal(c->why, "1 safetensors file");
    assert_string_equal(c->tag, "run/checkpoint-60");
    assert_true(c->has_step);
    assert_int_equal(c->step, 60);
    assert_non_null(golden_blob(c, "tokenizer.json"));
    assert_non_null(golden_blob(c, "config.json"));
}

/* `latest` wins over the safetensors file beside it. */
static void test_trainer_folder(void **state)
{
    static const char dir[] = "deepspeed/ds0_19_8_hftrainer_zero3_w2";
    struct zf_open_opts o = {.format = "safetensors"};

    (void)state;
    zf_auto(checkpoint) struct zf_checkpoint *c = golden_open(dir, NULL);
    assert_string_equal(c->format, "deepspeed");
    assert_string_equal(c->tag, "global_step2");
    assert_non_null(golden_blob(c, "config.json"));
    zf_auto(checkpoint) struct zf_checkpoint *st = golden_open(dir, &o);
    assert_string_equal(st->format, "safetensors");
}

static void test_side_names(void **state)
{
    (void)state;
    assert_true(sidefiles_is("config.json"));
    assert_true(sidefiles_is("tokenizer.model"));
    assert_true(sidefiles_is("vocab.txt"));
    assert_false(sidefiles_is("model.safetensors"));
    assert_true(sidefiles_is("trainer_state.json"));
    assert_false(sidefiles_is("eval_results.json"));
    assert_false(sidefiles_is("zero_to_fp32.py"));
    assert_false(sidefiles_is(".model"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        TEST(test_here),
        TEST(test_index_before_files),
        TEST(test_unknown_format),
        TEST(test_nothing),
        TEST(test_latest),
        TEST(test_latest_nested),
        TEST(test_latest_bad),
        TEST(test_latest_stale),
        TEST(test_megatron_latest),
        TEST(test_megatron_bad),
        TEST(test_newest_of_series),
        TEST(test_global_step_without_latest),
        TEST(test_ranks_are_no_series),
        TEST(test_two_levels),
        TEST(test_saves),
        TEST(test_saves_kinds),
        cmocka_unit_test_setup_teardown(test_saves_linked, scratch_setup, scratch_teardown),
        TEST(test_open_tells),
        cmocka_unit_test(test_trainer_folder),
        cmocka_unit_test(test_side_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
