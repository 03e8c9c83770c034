/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include <zf/base/out.h>
#include <zf/codec/json.h>

static json_t *load(const char *text, struct zf_err *err)
{
    struct zf_limits lim = zf_limits_default();

    zf_err_clear(err);
    return zf_json_load(text, strlen(text), &lim, err);
}

static void test_values(void **state)
{
    struct zf_err err;
    uint64_t v = 0;

    (void)state;
    zf_auto(json) json_t *j = load(" {\"a\": 9223372036854775807, \"b\": -1, \"c\": 1.0} \n", &err);
    assert_non_null(j);
    assert_true(zf_json_u64(json_object_get(j, "a"), &v));
    assert_int_equal(v, INT64_MAX);
    assert_false(zf_json_u64(json_object_get(j, "b"), &v));
    assert_false(zf_json_u64(json_object_get(j, "c"), &v));
    assert_false(zf_json_u64(json_object_get(j, "missing"), &v));
}

static void test_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "{",
        "{\"a\": 1,}",
        "{\"a\": 1} x",
        "{\"a\": 1, \"a\": 2}",
        "{\"a\": 1, \"\\u0061\": 2}",
        "{\"a\": 18446744073709551616}",
        "{\"a\": 1e999999999}",
        "{\"a\": NaN}",
        "{\"a\": 0x10}",
        "{\"a\": 01}",
        "{\"a\\u0000b\": 1}",
        "{\"a\": \"\\ud800\"}",
        "{\"a\": \"\xff\"}",
        "\xef\xbb\xbf{}",
        "{} // comment",
        "[1 2]",
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct zf_err err;
        assert_null(load(bad[i], &err));
        assert_int_equal(err.code, ZF_E_FORMAT);
        assert_true(err.off <= strlen(bad[i]));
        assert_non_null(strstr(err.msg, "not valid JSON"));
    }
}

static void test_depth(void **state)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_err err = {.code = ZF_OK};
    enum { DEEP = 1000000 };
    char *text = malloc(DEEP);

    (void)state;
    assert_non_null(text);
    memset(text, '[', DEEP);
    assert_null(zf_json_load(text, DEEP, &lim, &err));
    assert_err(&err, ZF_E_LIMIT, lim.json_depth, "json_depth");
    free(text);

    /* Brackets in a string are no nesting, and a quote behind a backslash does not end it. */
    lim.json_depth = 1;
    zf_auto(json) json_t *j = zf_json_load("[\"\\\"[[[\"]", 9, &lim, &err);
    assert_non_null(j);
}

static void test_size(void **state)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_err err = {.code = ZF_OK};

    (void)state;
    lim.json_bytes = 3;
    assert_null(zf_json_load("[  ]", 4, &lim, &err));
    assert_err(&err, ZF_E_LIMIT, 0, "json_bytes");
}

/* Bytes of names that are no text: a replacement character for each, and what is text between them stays. */
static void test_bytes_that_are_no_text(void **state)
{
#define LOST "\xef\xbf\xbd"
    static const struct {
        const char *bytes, *text;
    } row[] = {
        {"", ""},
        {"plain \xc3\xa9\xe2\x82\xac", "plain \xc3\xa9\xe2\x82\xac"},
        {"a\xff"
         "b",
         "a" LOST "b"},
        {"\xe2\x82", LOST LOST},
        {"\xc3\xa9\xff\xf0\x9f\x98\x80\x80", "\xc3\xa9" LOST "\xf0\x9f\x98\x80" LOST},
        {"\xff\xfe\xfd\xfc\xfb\xfa", LOST LOST LOST LOST LOST LOST},
        {"\xc0\x80\xed\xa0\x80z", LOST LOST LOST LOST LOST "z"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        zf_auto(json) json_t *j = zf_json_string(row[i].bytes, strlen(row[i].bytes));

        assert_non_null(j);
        assert_string_equal(json_string_value(j), row[i].text);
        assert_int_equal(json_string_length(j), strlen(row[i].text));
    }
}

/* Brackets and commas in a text, which may hold escaped quotes, are bytes of it and take no memory of their own. */
static void test_size_of_texts(void **state)
{
    static const char *const unit[] = {"{", "[", ",", "\\\"{", "x"};
    const struct zf_limits lim = zf_limits_default();
    enum { N = 200000 };
    struct zf_err err;

    (void)state;
    for (size_t u = 0; u < sizeof unit / sizeof unit[0]; u++) {
        zf_auto(out) struct zf_out text = {0};

        zf_out_str(&text, "{\"a\":\"");
        for (size_t i = 0; i < N; i++)
            zf_out_str(&text, unit[u]);
        zf_out_str(&text, "\"}");
        zf_err_clear(&err);
        zf_auto(json) json_t *j = zf_json_load(text.p, text.n, &lim, &err);
        assert_ok(j, &err);
        assert_int_equal(json_string_length(json_object_get(j, "a")),
                         N * (strlen(unit[u]) == 3 ? 2 : 1));
    }
}

/* Three bytes for each of them; the C library notices what is written behind its room. */
static void test_many_bytes_that_are_no_text(void **state)
{
    enum { N = 20000 };
    char bytes[N];

    (void)state;
    memset(bytes, 0xff, sizeof bytes);
    zf_auto(json) json_t *j = zf_json_string(bytes, sizeof bytes);
    assert_non_null(j);
    assert_int_equal(json_string_length(j), 3 * N);
    for (size_t i = 0; i < N; i++)
        assert_memory_equal(json_string_value(j) + 3 * i, LOST, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_size),
        cmocka_unit_test(test_size_of_texts),
        cmocka_unit_test(test_bytes_that_are_no_text),
        cmocka_unit_test(test_many_bytes_that_are_no_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
