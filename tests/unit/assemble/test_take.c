/* SPDX-License-Identifier: Apache-2.0 */
/* Fields of a document: the first failure is kept, with the place it is about, and nothing is read after it. */
#include "support/unit.h"

#include <zf/assemble/take.h>

#include "support/pickled.h"

/* Reads {'a': [{'n': 7}, …], 's': 'text', 'd': [2, 3]} as a reader would; the taker has what came of it. */
static uint64_t document_read(struct zf_taker *t, const struct zf_pv *v)
{
    struct zf_take root = zf_take_root(t, v), list = zf_take_key(&root, "a");
    struct zf_take text = zf_take_key(&root, "s"), sizes = zf_take_key(&root, "d");
    uint64_t n = zf_take_list(&list), sum = 0, len;
    uint64_t *all = zf_take_room(t, n, sizeof *all);
    uint32_t ndim;

    for (uint64_t i = 0; i < n && !t->failed; i++) {
        struct zf_take one = zf_take_item(&list, i), number = zf_take_key(&one, "n");

        sum += all[i] = zf_take_u64(&number);
        (void)zf_take_must(&number, all[i] < 100, "%llu is too many", (unsigned long long)all[i]);
    }
    const char *s = zf_take_text(&text, &len);
    const uint64_t *d = zf_take_sizes(&sizes, &ndim);
    assert_int_equal(strlen(s), len);
    for (uint32_t i = 0; i < ndim; i++)
        sum += d[i];
    return t->failed ? 0 : sum;
}

static void values_and_places(void **state)
{
    static const struct {
        const char *text;
        uint64_t sum; /* 0: refused */
        const char *place, *why;
    } row[] = {
        {"{'a': [{'n': 7}, {'n': 8}], 's': 'x', 'd': [2, 3]}", 20, "", ""},
        {"{'a': [], 's': '', 'd': [1]}", 1, "", ""},
        {"{'a': [{'n': 7}, {'n': 'x'}], 's': 'x', 'd': []}", 0, "!a[1]!n", "a text"},
        {"{'a': [{'n': 7}, {'n': -1}], 's': 'x', 'd': []}", 0, "!a[1]!n", "-1"},
        {"{'a': [{'n': 7}, {'n': 100}], 's': 'x', 'd': []}", 0, "!a[1]!n", "100 is too many"},
        {"{'a': [{'n': 7}, {}, {'n': 'x'}], 's': 'x', 'd': []}", 0, "!a[1]!n", "missing"},
        {"{'a': [{'n': 7}, 5], 's': 'x', 'd': []}", 0, "!a[1]!n", "missing"},
        {"{'a': {}, 's': 'x', 'd': []}", 0, "!a", "a dict"},
        {"{'a': [], 's': N, 'd': []}", 0, "!s", "None"},
        {"{'a': [], 'd': []}", 0, "!s", "missing"},
        {"{'a': [], 's': 'x', 'd': [2, 'x']}", 0, "!d[1]", "a text"},
        {"{'a': [], 's': 'x', 'd': 2.5}", 0, "!d", "a float"},
        {"[]", 0, "!a", "missing"},
        {"N", 0, "!a", "missing"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        struct zf_err err = {.code = ZF_OK};
        zf_auto(arena) struct zf_arena *a = zf_arena_new(1 << 20, &err);
        struct zf_taker t = {.arena = a};

        assert_int_equal(document_read(&t, pickled(row[i].text, a)), row[i].sum);
        assert_int_equal(zf_take_ok(&t, &err), row[i].sum > 0);
        if (row[i].sum == 0) {
            assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, row[i].why);
            assert_string_equal(err.path, row[i].place);
        }
    }
}

static void counts(void **state)
{
    struct zf_err err;
    zf_auto(arena) struct zf_arena *a = zf_arena_new(1 << 20, &err);
    struct zf_taker t = {.arena = a};
    struct zf_take root = zf_take_root(&t, pickled("{'l': [1, 2], 'm': {'k': 5}}", a));
    struct zf_take list = zf_take_key(&root, "l"), map = zf_take_key(&root, "m");
    struct zf_take value = zf_take_item(&map, 0), beyond = zf_take_item(&list, 2);

    (void)state;
    assert_true(zf_take_list_of(&list, 2));
    assert_int_equal(zf_take_map(&map), 1);
    assert_int_equal(zf_take_u64(&value), 5);
    assert_false(zf_take_given(&beyond));
    assert_false(zf_take_list_of(&list, 3));
    /* After a failure there is nothing, and the first one stays. */
    struct zf_take late = zf_take_key(&root, "m");
    assert_null(late.v);
    assert_int_equal(zf_take_u64(&value), 5); /* read before */
    assert_null(zf_take_room(&t, 1, 8));
    assert_false(zf_take_ok(&t, &err));
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, "2 entries, expected 3");
    assert_string_equal(err.path, "!l");
}

/* Keys of mappings are values, too; a value's place is its key, if that is a text. */
static void keys(void **state)
{
    static const struct {
        const char *text, *place, *why; /* no place: it holds */
    } row[] = {
        {"{0: {'a': 7}, 1: {}}", NULL, NULL},
        {"{'x': {}, 0: {'a': 7}}", NULL, NULL},
        {"{1: {'a': 7}}", "[0]", "1 entries"},
        {"{'x': 5, 0: {'a': 'b'}}", "[0]!a", "a text"},
        {"{'x': {}, 0: {7: 7}}", "[0][0]", "7"},
        {"{0: {'a': 5, 'b': 6}}", "[0]", "more than the limit tensors=1"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        struct zf_err err = {.code = ZF_OK};
        zf_auto(arena) struct zf_arena *a = zf_arena_new(1 << 20, &err);
        struct zf_taker t = {.arena = a};
        struct zf_take root = zf_take_root(&t, pickled(row[i].text, a));
        struct zf_take zero = zf_take_id(&root, 0), name = zf_take_name(&zero, 0);
        struct zf_take value = zf_take_item(&zero, 0);

        (void)zf_take_must(&zero, zero.v, "1 entries");
        (void)zf_take_most(&zero, zf_take_map(&zero), 1, ZF_LIMIT_tensors);
        (void)zf_take_text(&name, NULL);
        uint64_t n = zf_take_u64(&value);
        assert_int_equal(zf_take_ok(&t, &err), !row[i].place);
        if (row[i].place) {
            bool limit = strstr(row[i].why, "more than");

            assert_err(&err, limit ? ZF_E_LIMIT : ZF_E_FORMAT, ZF_OFF_NONE, row[i].why);
            assert_int_equal(err.limit, limit ? ZF_LIMIT_tensors : ZF_LIMIT_NONE);
            assert_string_equal(err.path, row[i].place);
        } else {
            assert_int_equal(n, 7);
        }
    }
}

/* A failure that names a file keeps it. */
static void other_files(void **state)
{
    struct zf_err err, why = {.code = ZF_OK};
    zf_auto(arena) struct zf_arena *a = zf_arena_new(1 << 20, &err);
    struct zf_taker t = {.arena = a};
    struct zf_take root = zf_take_root(&t, pickled("{'a': 7}", a)), one = zf_take_key(&root, "a");

    (void)state;
    assert_false(zf_fail(&why, ZF_E_IO, ZF_OFF_NONE, "lost"));
    assert_false(zf_err_in(&why, "other.swp"));
    assert_false(zf_take_fail(&one, &why));
    assert_false(zf_take_can(&one, false, "not kept"));
    assert_false(zf_take_ok(&t, &err));
    assert_err(&err, ZF_E_IO, ZF_OFF_NONE, "lost");
    assert_string_equal(err.path, "other.swp");
}

/* More memory than the arena has is a failure of the arena. */
static void no_room(void **state)
{
    struct zf_err err;
    zf_auto(arena) struct zf_arena *a = zf_arena_new(1 << 10, &err);
    struct zf_taker t = {.arena = a};

    (void)state;
    assert_null(zf_take_room(&t, 1 << 20, 8));
    assert_false(zf_take_ok(&t, &err));
    assert_int_equal(err.code, ZF_E_LIMIT);
}

/* A place that is too long is cut in front, never in its last steps. */
static void long_places(void **state)
{
    enum { DEEP = 60 };
    struct zf_err err;
    zf_auto(arena) struct zf_arena *a = zf_arena_new(1 << 20, &err);
    struct zf_taker t = {.arena = a};
    struct zf_take step[DEEP + 1];

    (void)state;
    step[0] = zf_take_root(&t, pickled("{}", a));
    for (uint32_t i = 0; i < DEEP; i++)
        step[i + 1] = zf_take_key(&step[i], i == DEEP - 1 ? "last" : "a_rather_long_key");
    (void)zf_take_bool(&step[DEEP]);
    assert_false(zf_take_ok(&t, &err));
    assert_non_null(strstr(err.path, "!a_rather_long_key!last"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_and_places),
        cmocka_unit_test(counts),
        cmocka_unit_test(keys),
        cmocka_unit_test(other_files),
        cmocka_unit_test(no_room),
        cmocka_unit_test(long_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
