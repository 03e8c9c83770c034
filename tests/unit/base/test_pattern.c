/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns against names: what Python's re.match says of the same. */
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <zf/base/pattern.h>

static const char *const pattern[] = {
    "",
    "abc",
    "^abc$",
    "a.c",
    "a\\.c",
    "\\d+",
    "\\D\\d\\D*$",
    "\\w+\\.\\W*x",
    "\\s",
    "\\S+\\s\\S",
    "[abc]+$",
    "[^abc]+",
    "[a-c0-2_]*\\.",
    "[]x]",
    "[^]x]$",
    "[a\\d-]+$",
    "[x-]y",
    "[-x]y?$",
    "[\\w.]+?weight$",
    ".*layers?\\.\\d+\\..*weight",
    "[^\\s]*$",
    "a\\_b",
    "[?~]$",
    "a[^?~]?$",
    "[\xce\xb1-\xcf\x89]*$",
    "(layers?)\\.(\\d+)",
    "a|ab|xyz",
    "^(?:a|x)?y$",
    "a{2}b",
    "(a*)*b",
    "(?P<w>w)\\.weight$",
    "\\bw\\b",
    "(a)\\1b",
    "(?i)ABC$",
    "[^a]",
    "(?!a).*c",
    "(?<=a)b|abc",
};

static const char *const name[] = {
    "",
    "abc",
    "xabc",
    "a.c",
    "abcd",
    "a\nc",
    "12",
    "a1",
    "a1b",
    "a1bb",
    "a.x",
    "a..-x",
    " ",
    "\t",
    "\n",
    "\x1b",
    "ab cd",
    "a\x0b"
    "c",
    "aab",
    "xyz",
    "c0_2.",
    "c3.",
    "]",
    "x",
    "y",
    "-y",
    "xy",
    "a1-2",
    "a_b",
    "?",
    "a?",
    "~",
    "a~",
    "a-",
    "layer.0.weight",
    "model.layers.10.mlp.weight",
    "layers..weight",
    "\xc3\xa9",
    "\xce\xb1\xcf\x89",
    "ABC",
    "w.weight",
    "w.weights",
};

enum { PATTERNS = sizeof pattern / sizeof *pattern, NAMES = sizeof name / sizeof *name };

static void put_texts(FILE *f, const char *const *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        for (const char *p = text[i]; *p; p++)
            (void)fprintf(f, "%02x", (unsigned char)*p);
        (void)fputs(i + 1 < n ? " " : "\n", f);
    }
}

/* Python's answers, a character for each pattern and name. */
static void ask_python(char *answer)
{
    char file[] = "/tmp/zf-pattern-XXXXXX", cmd[400];
    int fd = mkstemp(file);
    FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;

    assert_non_null(f);
    put_texts(f, pattern, PATTERNS);
    put_texts(f, name, NAMES);
    assert_int_equal(fclose(f), 0);
    (void)snprintf(cmd, sizeof cmd,
                   "python3 -c 'import re, sys\n"
                   "p, n = ([bytes.fromhex(x).decode()"
                   " for x in l.rstrip(\"\\n\").split(\" \")] for l in open(sys.argv[1]))\n"
                   "print(\"\".join(str(int(bool(re.match(a, b)))) for a in p for b in n))' %s",
                   file);
    FILE *out = popen(cmd, "r");
    assert_non_null(out);
    assert_int_equal(fread(answer, 1, PATTERNS * NAMES, out), PATTERNS * NAMES);
    assert_int_equal(fgetc(out), '\n');
    assert_int_equal(pclose(out), 0);
    assert_int_equal(unlink(file), 0);
}

static void as_python_says(void **state)
{
    static char answer[PATTERNS * NAMES];
    struct zf_err err = {.code = ZF_OK};
    zf_auto(arena) struct zf_arena *a = zf_arena_new(1 << 20, &err);
    unsigned yes = 0;

    (void)state;
    assert_ok(a, &err);
    ask_python(answer);
    for (size_t i = 0; i < PATTERNS; i++) {
        const struct zf_pattern *x =
            zf_pattern_new(pattern[i], strlen(pattern[i]), ZF_PATTERN_FRONT, a, &err);

        assert_ok(x, &err);
        for (size_t k = 0; k < NAMES; k++) {
            const bool want = answer[i * NAMES + k] == '1';
            bool found;

            yes += want;
            assert_ok(zf_pattern_match(x, name[k], strlen(name[k]), NULL, &found, &err), &err);
            if (found != want)
                fail_msg("\"%s\" and \"%s\": Python says %d", pattern[i], name[k], want);
        }
    }
    assert_true(yes > 100 && yes < PATTERNS * NAMES / 2);
}

static void what_is_not_understood(void **state)
{
    static const char *const row[] = {
        "*a",   "a\\",         "[abc",    "[",    "[^",       "[]",  "[c-a]", "a(b", "a)b", "a{,3}",
        "a\\Z", "[[:alpha:]]", "\\Qa\\E", "\\Ka", "(?<=a*)b", "\\C", "\xff",  "(a",  "\\1",
    };
    struct zf_err err = {.code = ZF_OK};
    zf_auto(arena) struct zf_arena *a = zf_arena_new(8 << 20, &err);
    char text[4001];

    (void)state;
    assert_ok(a, &err);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        if (zf_pattern_new(row[i], strlen(row[i]), ZF_PATTERN_FRONT, a, &err))
            fail_msg("\"%s\" is understood", row[i]);
        assert_int_equal(err.code, ZF_E_UNSUPPORTED);
    }
    memset(text, 'a', sizeof text);
    assert_ok(zf_pattern_new(text, 4000, ZF_PATTERN_FRONT, a, &err), &err);
    assert_null(zf_pattern_new(text, 4001, ZF_PATTERN_FRONT, a, &err));
    assert_int_equal(err.code, ZF_E_UNSUPPORTED);
}

static void where_it_may_be(void **state)
{
    static const struct {
        enum zf_pattern_where where;
        const char *name;
        bool found;
    } row[] = {
        {ZF_PATTERN_ANYWHERE, "xaby", true}, {ZF_PATTERN_FRONT, "xaby", false},
        {ZF_PATTERN_FRONT, "aby", true},     {ZF_PATTERN_WHOLE, "aby", false},
        {ZF_PATTERN_WHOLE, "ab", true},      {ZF_PATTERN_WHOLE, "ab\n", false},
        {ZF_PATTERN_ANYWHERE, "bc", false},
    };
    struct zf_err err = {.code = ZF_OK};
    zf_auto(arena) struct zf_arena *a = zf_arena_new(1 << 20, &err);
    struct zf_pattern_span at[ZF_PATTERN_GROUPS];
    bool found;

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        const struct zf_pattern *x = zf_pattern_new("a|ab", 4, row[i].where, a, &err);

        assert_ok(x, &err);
        assert_ok(zf_pattern_match(x, row[i].name, strlen(row[i].name), at, &found, &err), &err);
        assert_int_equal(found, row[i].found);
    }
    const struct zf_pattern *x = zf_pattern_new("(b)(z)?(c)", 10, ZF_PATTERN_ANYWHERE, a, &err);
    assert_ok(x && zf_pattern_match(x, "abc\xff", 4, at, &found, &err), &err);
    assert_true(found && at[0].from == 1 && at[0].to == 3 && at[3].from == 2 && at[3].to == 3);
    assert_true(at[2].from == SIZE_MAX && at[4].from == SIZE_MAX && at[9].from == SIZE_MAX);
}

/* What would go on for years is a failure, and so is what would take more memory than there is for it. */
static void hostile(void **state)
{
    static const char *const heavy[] = {"((((a{99}){99}){99}){99})", "(?:a?){60000}",
                                        "a{65535}{9}"};
    struct zf_err err = {.code = ZF_OK};
    zf_auto(arena) struct zf_arena *a = zf_arena_new(4 << 20, &err);
    const struct zf_pattern *x = zf_pattern_new("(a*)*(a*)*$", 11, ZF_PATTERN_FRONT, a, &err);
    char long_name[200];
    bool found;

    (void)state;
    memset(long_name, 'a', sizeof long_name);
    long_name[sizeof long_name - 1] = 'b';
    assert_ok(x, &err);
    if (zf_pattern_match(x, long_name, sizeof long_name, NULL, &found, &err))
        assert_false(found);
    else
        assert_int_equal(err.code, ZF_E_UNSUPPORTED);
    x = zf_pattern_new("(a|a|a|a)*c", 11, ZF_PATTERN_FRONT, a, &err);
    assert_ok(x, &err);
    long_name[sizeof long_name - 1] = '\0';
    assert_false(zf_pattern_match(x, long_name, sizeof long_name, NULL, &found, &err) && found);
    for (size_t i = 0; i < sizeof heavy / sizeof *heavy; i++) {
        assert_null(zf_pattern_new(heavy[i], strlen(heavy[i]), ZF_PATTERN_FRONT, a, &err));
        assert_true(err.code == ZF_E_UNSUPPORTED || err.code == ZF_E_LIMIT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_python_says),
        cmocka_unit_test(what_is_not_understood),
        cmocka_unit_test(where_it_may_be),
        cmocka_unit_test(hostile),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
