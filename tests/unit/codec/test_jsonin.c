/* SPDX-License-Identifier: Apache-2.0 */
#include "support/fault.h"
#include "support/unit.h"

#include <stdio.h>

#include "codec/json/jsonin.h"

static struct zf_jsonin *of(const char *text)
{
    static struct zf_limits lim;
    struct zf_err err = {.code = ZF_OK};

    lim = zf_limits_default();
    struct zf_jsonin *in = zf_jsonin_new_text(text, strlen(text), &lim, &err);
    assert_ok(in, &err);
    return in;
}

static void assert_end(struct zf_jsonin *in)
{
    struct zf_err err = {.code = ZF_OK};

    assert_ok(zf_jsonin_end(in, &err), &err);
    zf_jsonin_free(in);
}

static void test_values(void **state)
{
    struct zf_jsonin *in =
        of(" {\"a\": 9223372036854775807, \"b\": -1, \"c\": 1.5, \"d\": \"t\\u00e9\", "
           "\"e\": [true, false, null]} \n");
    uint32_t top = zf_jsonin_enter(in, ZF_JSON_OBJECT), list;
    uint64_t v = 0;

    (void)state;
    assert_int_equal(top, 1);
    assert_true(zf_jsonin_next(in, top) && zf_jsonin_is(in, "a") && zf_jsonin_u64(in, &v));
    assert_int_equal(v, INT64_MAX);
    assert_true(zf_jsonin_next(in, top) && zf_jsonin_is(in, "b") && !zf_jsonin_u64(in, &v));
    assert_int_equal(zf_jsonin_integer(in), -1);
    assert_true(zf_jsonin_next(in, top) && zf_jsonin_is(in, "c") && !zf_jsonin_u64(in, &v));
    assert_true(zf_jsonin_real(in) == 1.5);
    assert_true(zf_jsonin_next(in, top) && zf_jsonin_is(in, "d") && zf_jsonin_string(in));
    assert_true(zf_jsonin_is(in, "t\xc3\xa9") && !zf_jsonin_is(in, "t"));
    assert_true(zf_jsonin_next(in, top));
    list = zf_jsonin_enter(in, ZF_JSON_ARRAY);
    assert_int_equal(list, 2);
    assert_true(zf_jsonin_next(in, list));
    assert_int_equal(zf_jsonin_value(in), ZF_JSON_TRUE);
    assert_int_equal(zf_jsonin_value(in), ZF_JSON_NONE); /* one value an item */
    assert_true(zf_jsonin_next(in, list));
    assert_int_equal(zf_jsonin_value(in), ZF_JSON_FALSE);
    assert_true(zf_jsonin_next(in, list));
    assert_int_equal(zf_jsonin_value(in), ZF_JSON_NULL);
    assert_false(zf_jsonin_next(in, list));
    assert_false(zf_jsonin_next(in, list));
    assert_false(zf_jsonin_next(in, top));
    assert_false(zf_jsonin_next(in, 0));
    assert_int_equal(zf_jsonin_value(in), ZF_JSON_NONE);
    assert_end(in);
}

/* What nobody reads is passed over, however deep one is in it. */
static void test_pass_over(void **state)
{
    struct zf_jsonin *in = of("[{\"a\": [1, {\"b\": []}, 2], \"c\": 3}, [4], 5, 6]");
    uint32_t top = zf_jsonin_enter(in, ZF_JSON_ARRAY), object, list;
    uint64_t v = 0;

    (void)state;
    assert_true(zf_jsonin_next(in, top));
    object = zf_jsonin_enter(in, ZF_JSON_OBJECT);
    assert_true(zf_jsonin_next(in, object));
    list = zf_jsonin_enter(in, ZF_JSON_ARRAY);
    assert_true(zf_jsonin_next(in, list) && zf_jsonin_next(in, list));
    assert_int_equal(zf_jsonin_enter(in, ZF_JSON_ARRAY), 0); /* an object */
    assert_true(zf_jsonin_next(in, object) && zf_jsonin_is(in, "c"));
    assert_true(zf_jsonin_next(in, top) && zf_jsonin_next(in, top));
    assert_true(zf_jsonin_u64(in, &v));
    assert_int_equal(v, 5);
    assert_end(in);
}

struct bad_case {
    const char *text;
    uint64_t off;
    const char *part;
};

static void test_refused(void **state)
{
    static const struct bad_case bad[] = {
        {"", 0, "found the end, expected '{' or '['"},
        {"{", 1, "found the end, expected a key or '}'"},
        {"{\"a\": 1,}", 8, "found '}', expected a key"},
        {"{\"a\": 1} x", 9, "found 'x', expected the end"},
        {"{\"a\" 1}", 5, "found '1', expected ':'"},
        {"{\"a\": 1, \"a\": 2}", 9, "duplicate object key \"a\""},
        {"{\"a\": 1, \"\\u0061\": 2}", 9, "duplicate object key \"a\""},
        {"{\"a\": 9223372036854775808}", 6,
         "the integer 9223372036854775808 does not fit into 64 bits"},
        {"{\"a\": 1e999999999}", 6, "the number 1e999999999 is larger than any float64"},
        {"{\"a\": NaN}", 6, "found 'N', expected a value"},
        {"[0x10]", 2, "found 'x', expected ',' or ']'"},
        {"[01]", 2, "\"01\" is not a number"},
        {"[1.]", 3, "\"1.\" is not a number"},
        {"[-]", 2, "\"-\" is not a number"},
        {"{\"a\\u0000b\": 1}", 3, "\\u0000"},
        {"[\"\\ud800\"]", 2, "\\ud800 is half of a character"},
        {"[\"\\ud800\\u0041\"]", 2, "\\ud800 is half of a character"},
        {"[\"\\udc00\"]", 2, "\\udc00 is half of a character"},
        {"[\"\\u12g4\"]", 2, "four hexadecimal digits"},
        {"[\"\\x\"]", 2, "a backslash is not followed by"},
        {"[\"ab\xff\"]", 4, "byte 0xff is not UTF-8"},
        {"[\"\xed\xa0\x80\"]", 2, "byte 0xed is not UTF-8"},
        {"[\"a\nb\"]", 3, "byte 0x0a in a string is not escaped"},
        {"[\"ab", 4, "found the end inside the string that begins at byte 1"},
        {"\xef\xbb\xbf{}", 0, "found byte 0xef, expected '{' or '['"},
        {"{} // comment", 3, "found '/', expected the end"},
        {"[1 2]", 3, "found '2', expected ',' or ']'"},
        {"{\"a\":1 \"b\":2}", 7, "found '\"', expected ',' or '}'"},
        {"[1}", 2, "found '}', expected ',' or ']'"},
        {"3", 0, "found '3', expected '{' or '['"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct zf_err err = {.code = ZF_OK};
        struct zf_jsonin *in = of(bad[i].text);

        assert_false(zf_jsonin_end(in, &err));
        assert_err(&err, ZF_E_FORMAT, bad[i].off, bad[i].part);
        assert_non_null(strstr(err.msg, "not valid JSON: "));
        assert_int_equal(zf_jsonin_value(in), ZF_JSON_NONE);
        zf_jsonin_free(in);
    }
}

/* A mistake behind what somebody objected to counts more than that. */
static void test_end(void **state)
{
    struct zf_err err = {.code = ZF_OK};
    struct zf_jsonin *in = of("[1, 2");
    uint32_t top = zf_jsonin_enter(in, ZF_JSON_ARRAY);

    (void)state;
    assert_true(zf_jsonin_next(in, top));
    (void)zf_fail(&err, ZF_E_UNSUPPORTED, 1, "no ones");
    assert_false(zf_jsonin_end(in, &err));
    assert_err(&err, ZF_E_FORMAT, 5, "found the end");
    zf_jsonin_free(in);

    in = of("[1, 2]");
    (void)zf_fail(&err, ZF_E_UNSUPPORTED, 1, "no ones");
    assert_true(zf_jsonin_end(in, &err));
    assert_err(&err, ZF_E_UNSUPPORTED, 1, "no ones");
    zf_jsonin_free(in);
}

/* {"k0":{"x":0,"y":0},"k1":…}, n of them, and then once more the key of number `again`. */
static char *many_keys(unsigned n, unsigned again)
{
    char *text = malloc(32 * (size_t)n + 64);
    size_t at = 1;

    assert_non_null(text);
    text[0] = '{';
    for (unsigned i = 0; i < n; i++)
        at += (size_t)sprintf(text + at, "\"k%u\":{\"x\":0,\"y\":0},", i);
    (void)sprintf(text + at, "\"k%u\":0}", again);
    return text;
}

/* Wherever the first one was, and whatever way it is looked for in. */
static void test_twice(void **state)
{
    (void)state;
    for (unsigned n = 1; n < 80; n++) {
        for (unsigned again = 0; again <= n; again++) {
            struct zf_err err = {.code = ZF_OK};
            zf_auto(mem) char *text = many_keys(n, again);
            zf_auto(jsonin) struct zf_jsonin *in = of(text);

            assert_int_equal(zf_jsonin_end(in, &err), again == n);
            if (again < n) {
                assert_err(&err, ZF_E_FORMAT, strlen(text) - (again < 10 ? 7 : 8),
                           "duplicate object key");
            }
        }
    }
}

/* Keys of every length: such as differ in their last letter alone, and such as end where another goes on, are
 * two; in few keys and in many. */
static void test_alike(void **state)
{
    (void)state;
    for (int n = 0; n < 60; n++) {
        for (int many = 0; many < 2; many++) {
            struct zf_err err = {.code = ZF_OK};
            char text[2000], key[64];
            int at = 1;

            memset(key, 'k', sizeof key);
            text[0] = '{';
            for (int i = 0; many && i < 20; i++)
                at += sprintf(text + at, "\"other %d\":0,", i);
            at += sprintf(text + at, "\"%.*sa\":0,\"%.*sb\":0,\"%.*s\":0", n, key, n, key, n, key);
            (void)sprintf(text + at, "}");
            zf_auto(jsonin) struct zf_jsonin *apart = of(text);
            assert_ok(zf_jsonin_end(apart, &err), &err);
            (void)sprintf(text + at, ",\"%.*sa\":0}", n, key);
            zf_auto(jsonin) struct zf_jsonin *twice = of(text);
            assert_false(zf_jsonin_end(twice, &err));
            assert_err(&err, ZF_E_FORMAT, (uint64_t)at + 1, "duplicate object key");
        }
    }
}

static void test_depth(void **state)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_err err = {.code = ZF_OK};
    enum { DEEP = 1000000 };
    zf_auto(mem) char *text = malloc(DEEP);

    (void)state;
    assert_non_null(text);
    memset(text, '[', DEEP);
    zf_auto(jsonin) struct zf_jsonin *in = zf_jsonin_new_text(text, DEEP, &lim, &err);
    assert_false(zf_jsonin_end(in, &err));
    assert_err(&err, ZF_E_LIMIT, lim.json_depth, "json_depth");

    /* One level less is allowed, and more if somebody allows it; brackets in a text are none. */
    memset(text + lim.json_depth, ']', lim.json_depth);
    zf_auto(jsonin) struct zf_jsonin *sound =
        zf_jsonin_new_text(text, 2 * lim.json_depth, &lim, &err);
    assert_ok(zf_jsonin_end(sound, &err), &err);
    memset(text + DEEP / 2, ']', DEEP / 2);
    memset(text, '[', DEEP / 2);
    lim.json_depth = DEEP / 2;
    zf_auto(jsonin) struct zf_jsonin *deep = zf_jsonin_new_text(text, DEEP, &lim, &err);
    assert_ok(zf_jsonin_end(deep, &err), &err);
    lim.json_depth = 1;
    zf_auto(jsonin) struct zf_jsonin *flat = zf_jsonin_new_text("[\"\\\"[[[\"]", 9, &lim, &err);
    assert_ok(zf_jsonin_end(flat, &err), &err);
}

static void test_size(void **state)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_err err = {.code = ZF_OK};

    (void)state;
    lim.json_bytes = 3;
    assert_null(zf_jsonin_new_text("[  ]", 4, &lim, &err));
    assert_err(&err, ZF_E_LIMIT, 0, "json_bytes");

    lim = zf_limits_default();
    lim.meta_slack = 200;
    lim.meta_memory = 1;
    static const char objects[] = "[{},{},{},{}]";
    zf_auto(jsonin) struct zf_jsonin *in =
        zf_jsonin_new_text(objects, sizeof objects - 1, &lim, &err);
    assert_false(zf_jsonin_end(in, &err));
    assert_err(&err, ZF_E_LIMIT, ZF_OFF_NONE, "more than 213 bytes of memory");
    assert_non_null(strstr(err.msg, "meta_memory=1 and meta_slack=200"));
}

static const char mixed[] =
    "{\"a\\ud83d\\ude00\xe2\x82\xac\": [1, -20, 3.25e+10, true, false, null, \"\\\\\\\"\"], \"long "
    "long "
    "long long key\": {\"b\": {}, \"c\": []}, \"\xf0\x9f\x98\x80\xf0\x9f\x98\x80\": \"\\u00e9\"}";

/* What is read from a source is the same however little of it is in memory; where it ends too early, that is
 * said of the byte where it ends. */
static void test_windows(void **state)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_err err = {.code = ZF_OK};
    zf_auto(source) struct zf_source *src =
        zf_mem_new("f", (void *)(uintptr_t)mixed, sizeof mixed - 1, false, &err);

    (void)state;
    for (size_t window = JSONIN_AHEAD; window < sizeof mixed; window++) {
        zf_auto(jsonin) struct zf_jsonin *in =
            jsonin_new(src, 1, sizeof mixed - 3, window, &lim, &err);
        assert_false(
            zf_jsonin_end(in, &err)); /* a string at the top, and offsets of the document */
        assert_err(&err, ZF_E_FORMAT, 0, "expected '{' or '['");
        zf_auto(jsonin) struct zf_jsonin *whole =
            jsonin_new(src, 0, sizeof mixed - 1, window, &lim, &err);
        zf_err_clear(&err);
        assert_ok(zf_jsonin_end(whole, &err), &err);
        for (uint64_t n = 0; n < sizeof mixed - 1; n++) {
            zf_auto(jsonin) struct zf_jsonin *cut = jsonin_new(src, 0, n, window, &lim, &err);
            assert_false(zf_jsonin_end(cut, &err));
            assert_int_equal(err.code, ZF_E_FORMAT);
            assert_true(err.off <= n && err.off + JSONIN_AHEAD >= n);
        }
    }
}

/* A source that fails is no document that ends. */
static void test_faults(void **state)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_err err = {.code = ZF_OK};
    zf_auto(source) struct zf_source *src =
        zf_mem_new("f", (void *)(uintptr_t)mixed, sizeof mixed - 1, false, &err);

    (void)state;
    for (uint64_t off = 0; off < sizeof mixed - 1; off++) {
        zf_auto(source) struct zf_source *bad = fault_new(src, off, 1, &err);
        zf_auto(jsonin) struct zf_jsonin *in =
            jsonin_new(bad, 0, sizeof mixed - 1, JSONIN_AHEAD, &lim, &err);
        assert_false(zf_jsonin_end(in, &err));
        assert_int_equal(err.code, ZF_E_IO);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),  cmocka_unit_test(test_pass_over),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_end),
        cmocka_unit_test(test_twice),   cmocka_unit_test(test_depth),
        cmocka_unit_test(test_size),    cmocka_unit_test(test_windows),
        cmocka_unit_test(test_faults),  cmocka_unit_test(test_alike),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
