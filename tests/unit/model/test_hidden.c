/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors that are shown nowhere, or at several places; sets of raw files, and pieces apart. */
#include "support/unit.h"

#include <zf/model/build.h>

#define ELEMS 12

static struct zf_limits lim;
static struct zf_err err;
static uint8_t data[ELEMS];
static const uint64_t shape[] = {3, 4};
static const struct zf_type type = {ZF_DT_U8, 2, shape};

static struct zf_spot spot(const char *set, const char *name)
{
    return (struct zf_spot){set, name, strlen(name)};
}

/* A hidden tensor of all the data. */
static struct zf_draft *hidden_new(struct zf_build *b, const char *name)
{
    zf_auto(source) struct zf_source *src = zf_mem_new("data", data, ELEMS, false, &err);
    struct zf_draft *d = zf_build_hidden(b, name, strlen(name), type, &err);

    assert_ok(d && src, &err);
    assert_ok(zf_draft_flat(d, 0, ELEMS, (struct zf_from){.src = src}, &err), &err);
    return d;
}

static void assert_holds(const struct zf_checkpoint *c, const char *set, const char *name,
                         uint64_t first, uint64_t n)
{
    const struct zf_set *s = zf_checkpoint_set(c, set);
    const struct zf_tensor *t = s ? zf_set_find(s, name, strlen(name)) : NULL;
    uint8_t got[ELEMS];

    assert_non_null(t);
    assert_int_equal(zf_map_size(t->data), n);
    assert_ok(zf_map_read(t->data, got, n, 0, &err), &err);
    assert_memory_equal(got, data + first, n);
}

static struct zf_build *build_new(void)
{
    struct zf_build *b;

    lim = zf_limits_default();
    for (uint8_t i = 0; i < ELEMS; i++)
        data[i] = (uint8_t)(i * 7);
    b = zf_build_new(NULL, &lim, false, &err);
    assert_ok(b, &err);
    return b;
}

static void hidden_tensors_have_parts(void **state)
{
    struct zf_build *b = build_new();
    struct zf_draft *d = hidden_new(b, "stack"), *row, *shown;
    const uint64_t cols[] = {4};

    (void)state;
    (void)hidden_new(b, "stack"); /* names of hidden ones are for messages */
    shown = zf_build_show(b, spot("stacked", "stack"), d, &err);
    assert_ok(shown, &err);
    assert_ok(zf_build_raw_only(b, "stacked", &err), &err);
    row = zf_build_tensor(b, spot("", "row"), (struct zf_type){ZF_DT_U8, 1, cols}, &err);
    assert_ok(row, &err);
    assert_ok(zf_draft_part(row, 0, 4, d, 4, &err), &err);
    assert_ok(zf_draft_mark_piece(row, &err), &err);
    assert_ok(zf_build_show(b, spot("", "all"), d, &err), &err);
    assert_null(zf_build_show(b, spot("", "all"), d, &err));
    zf_err_clear(&err);

    zf_auto(checkpoint) struct zf_checkpoint *c = zf_build_seal(b, "x", "", &err);
    assert_ok(c, &err);
    assert_int_equal(c->n_sets, 2);
    assert_int_equal(zf_checkpoint_set(c, "")->n, 2);
    assert_int_equal(zf_checkpoint_set(c, "stacked")->n, 1);
    assert_true(zf_checkpoint_set(c, "stacked")->raw_only);
    assert_false(zf_checkpoint_set(c, "")->raw_only);
    assert_true(zf_set_find(zf_checkpoint_set(c, ""), "row", 3)->apart);
    assert_false(zf_set_find(zf_checkpoint_set(c, ""), "all", 3)->apart);
    assert_holds(c, "", "row", 4, 4);
    assert_holds(c, "", "all", 0, ELEMS);
    assert_holds(c, "stacked", "stack", 0, ELEMS);
}

/* A hidden tensor is proved like any other. */
static void hidden_tensors_must_be_whole(void **state)
{
    struct zf_build *b = build_new();

    (void)state;
    assert_ok(zf_build_hidden(b, "gap", 3, type, &err), &err);
    assert_null(zf_build_seal(b, "x", "", &err));
    assert_non_null(strstr(err.msg, "\"gap\""));
    zf_err_clear(&err);
}

static void what_is_shown_can_be_withdrawn(void **state)
{
    struct zf_build *b = build_new();
    struct zf_draft *d = hidden_new(b, "stack");

    (void)state;
    assert_ok(zf_build_mark(b, &err), &err);
    (void)hidden_new(b, "other");
    assert_ok(zf_build_show(b, spot("stored", "x"), d, &err), &err);
    zf_build_undo(b);
    assert_null(zf_build_find(b, spot("stored", "x")));
    assert_ok(zf_build_show(b, spot("", "x"), d, &err), &err);

    zf_auto(checkpoint) struct zf_checkpoint *c = zf_build_seal(b, "x", "", &err);
    assert_ok(c, &err);
    assert_int_equal(c->n_sets, 1);
    assert_holds(c, "", "x", 0, ELEMS);
}

/* A hidden tensor is in no directory: going through one, and withdrawing one, leave it alone. */
static void hidden_tensors_are_in_no_directory(void **state)
{
    struct zf_build *b = build_new();
    struct zf_draft *d = hidden_new(b, "stack"), *tie;
    const char *const dirs[] = {"rank"};
    struct zf_spot at = zf_draft_spot(d);
    uint64_t next = 0;

    (void)state;
    assert_null(at.set);
    assert_int_equal(at.name_len, 5);
    assert_ok(zf_build_show(b, spot("rank", "x"), d, &err), &err);
    (void)hidden_new(b, "other");
    assert_non_null(zf_build_next(b, "", &next, &at, &tie));
    assert_string_equal(at.set, "rank");
    assert_null(zf_build_next(b, "", &next, &at, &tie));
    zf_build_withdraw(b, dirs, 1);
    assert_null(zf_build_find(b, spot("rank", "x")));
    assert_ok(zf_build_show(b, spot("", "x"), d, &err), &err);

    zf_auto(checkpoint) struct zf_checkpoint *c = zf_build_seal(b, "x", "", &err);
    assert_ok(c, &err);
    assert_int_equal(c->n_sets, 1);
    assert_holds(c, "", "x", 0, ELEMS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hidden_tensors_have_parts),
        cmocka_unit_test(hidden_tensors_must_be_whole),
        cmocka_unit_test(what_is_shown_can_be_withdrawn),
        cmocka_unit_test(hidden_tensors_are_in_no_directory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
