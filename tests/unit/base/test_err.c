/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include <errno.h>
#include <stdio.h>

static void tells_one_sentence(void **state)
{
    struct zf_err err;
    char text[256];

    (void)state;
    assert_false(zf_fail(&err, ZF_E_FORMAT, 12, "found %d, expected %d", 3, 4));
    assert_false(zf_err_in(&err, "!archive/data.pkl"));
    assert_false(zf_err_in(&err, "rank0.pt"));
    assert_false(zf_err_in(&err, "step9"));
    assert_string_equal(zf_err_text(&err, text, sizeof text),
                        "step9/rank0.pt!archive/data.pkl: byte 12: found 3, expected 4");
    assert_false(zf_fail(&err, ZF_E_USAGE, ZF_OFF_NONE, "no"));
    assert_string_equal(zf_err_text(&err, text, sizeof text), "no");
}

/* No "/" is put where one is, nor between a file and what is in it. */
static void joins_what_ends_in_a_mark(void **state)
{
    struct zf_err err;

    (void)state;
    assert_false(zf_fail(&err, ZF_E_FORMAT, 12, "x"));
    assert_false(zf_err_in(&err, "data.pkl"));
    assert_false(zf_err_in(&err, "rank0.pt!"));
    assert_string_equal(err.path, "rank0.pt!data.pkl");
    assert_false(zf_err_in(&err, "step9/"));
    assert_string_equal(err.path, "step9/rank0.pt!data.pkl");
    assert_false(zf_err_in(&err, "%s", ""));
    assert_string_equal(err.path, "step9/rank0.pt!data.pkl");
}

static void leaves_an_absolute_path_alone(void **state)
{
    struct zf_err err;

    (void)state;
    assert_false(zf_fail(&err, ZF_E_FORMAT, 12, "x"));
    assert_false(zf_err_in(&err, "/a/b"));
    assert_false(zf_err_in(&err, "c"));
    assert_string_equal(err.path, "/a/b");
}

static void keeps_both_ends_of_a_long_path(void **state)
{
    struct zf_err err;
    char name[1000];

    (void)state;
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_false(zf_fail(&err, ZF_E_FORMAT, 0, "m"));
    assert_false(zf_err_in(&err, "tail.pt"));
    assert_false(zf_err_in(&err, "head%s", name));
    assert_int_equal(strlen(err.path), sizeof err.path - 1);
    assert_memory_equal(err.path, "head", 4);
    assert_string_equal(err.path + strlen(err.path) - 8, "/tail.pt");
    assert_non_null(strstr(err.path, "x...x"));
}

static void shows_no_control_bytes(void **state)
{
    struct zf_err err;

    (void)state;
    assert_false(zf_fail(&err, ZF_E_FORMAT, 0, "name \033[31m\n"));
    assert_false(zf_err_in(&err, "a\rb"));
    assert_string_equal(err.msg, "name ?[31m?");
    assert_string_equal(err.path, "a?b");
    assert_false(zf_fail(&err, ZF_E_FORMAT, 0, "\xc3\xa9 \xed\xb3\xbf \xff \xc0\x80 \xe2\x82"));
    assert_string_equal(err.msg, "\xc3\xa9 ??? ? ?? ??");
}

static void maps_codes(void **state)
{
    struct zf_err err;
    static const struct {
        enum zf_code code;
        int sys, status;
    } want[] = {
        {ZF_E_STALE, ESTALE, 5}, {ZF_E_FORMAT, EIO, 4},      {ZF_E_UNKNOWN, EIO, 3},
        {ZF_E_USAGE, EINVAL, 2}, {ZF_E_UNSUPPORTED, EIO, 4}, {ZF_E_LIMIT, ENOMEM, 4},
        {ZF_E_IO, EIO, 5},       {ZF_E_NOENT, ENOENT, 5},    {ZF_E_NOMEM, ENOMEM, 5},
    };

    (void)state;
    zf_err_clear(&err);
    assert_int_equal(zf_err_exit(&err), 0);
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        assert_false(zf_fail(&err, want[i].code, ZF_OFF_NONE, "x"));
        assert_int_equal(zf_err_errno(&err), want[i].sys);
        assert_int_equal(zf_err_exit(&err), want[i].status);
    }
    errno = ENOENT;
    assert_false(zf_fail_sys(&err, "open it"));
    assert_int_equal(err.code, ZF_E_NOENT);
    assert_string_equal(err.msg, "cannot open it: No such file or directory");
}

/* Who looks at the count before and after knows whether memory ran out meanwhile, and nothing else. */
static void counts_what_memory_ran_out_for(void **state)
{
    const uint64_t before = zf_err_nomem_count();
    struct zf_err err;

    (void)state;
    assert_false(zf_fail(&err, ZF_E_LIMIT, ZF_OFF_NONE, "too large"));
    assert_int_equal(zf_err_nomem_count(), before);
    assert_false(zf_fail(&err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory"));
    errno = ENOMEM;
    assert_false(zf_fail_sys(&err, "make it"));
    assert_int_equal(zf_err_nomem_count(), before + 2);
}

/* Sentences that are too long end between two words, or two characters. */
static void cuts_between_words(void **state)
{
    char out[20], long_word[400], want[400];
    struct zf_err err;

    (void)state;
    zf_say(out, sizeof out, "%s", "exactly nineteen ch");
    assert_string_equal(out, "exactly nineteen ch");
    zf_say(out, sizeof out, "%s", "exactly nineteen chr");
    assert_string_equal(out, "exactly nineteen…");
    zf_say(out, sizeof out, "%s", "exactly sixteen. and more");
    assert_string_equal(out, "exactly sixteen.…");
    zf_say(out, sizeof out, "%s",
           "\303\244\303\244\303\244\303\244\303\244\303\244\303\244\303\244\303\244x\303\244");
    assert_string_equal(out, "\303\244\303\244\303\244\303\244\303\244\303\244\303\244\303\244…");
    zf_say(out, 4, "%s", "abcdef");
    assert_string_equal(out, "abc");
    memset(long_word, 'x', sizeof long_word - 1);
    long_word[sizeof long_word - 1] = '\0';
    assert_false(zf_fail(&err, ZF_E_FORMAT, ZF_OFF_NONE, "found %s", long_word));
    (void)snprintf(want, sizeof want, "found %.*s…", (int)(sizeof err.msg - 1 - 3 - 6), long_word);
    assert_string_equal(err.msg, want);
}

/* A hint is whole however long the message is, and the latest one stands. */
static void keeps_one_hint(void **state)
{
    struct zf_err err;
    char more[400];

    (void)state;
    assert_false(zf_fail(&err, ZF_E_FORMAT, ZF_OFF_NONE, "a; b"));
    assert_int_equal(err.hint, 0);
    zf_err_hint(&err, "try %d", 1);
    assert_string_equal(err.msg, "a; b; try 1");
    zf_err_hint(&err, "try\n%s", "that");
    assert_string_equal(err.msg, "a; b; try?that");
    assert_int_equal(err.hint, 4);
    memset(more, 'w', sizeof more - 1);
    more[sizeof more - 1] = '\0';
    assert_false(zf_fail(&err, ZF_E_FORMAT, ZF_OFF_NONE, "%s", more));
    assert_int_equal(err.hint, 0);
    zf_err_hint(&err, "try it");
    assert_int_equal(strlen(err.msg), sizeof err.msg - 1);
    assert_string_equal(err.msg + err.hint, "; try it");
    zf_err_hint(&err, "%s", more);
    assert_true(err.hint > 0 && strlen(err.msg) < sizeof err.msg);
    zf_err_clear(&err);
    assert_int_equal(err.hint, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tells_one_sentence),
        cmocka_unit_test(joins_what_ends_in_a_mark),
        cmocka_unit_test(leaves_an_absolute_path_alone),
        cmocka_unit_test(keeps_both_ends_of_a_long_path),
        cmocka_unit_test(shows_no_control_bytes),
        cmocka_unit_test(maps_codes),
        cmocka_unit_test(keeps_one_hint),
        cmocka_unit_test(cuts_between_words),
        cmocka_unit_test(counts_what_memory_ran_out_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
