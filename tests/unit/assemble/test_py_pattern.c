/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns against names: what Python's re.match says of the same. */
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <zf/assemble/py_pattern.h>

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
    "[\x80-\xff]*$",
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
    "\x1c",
    "\x1f",
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
    "w.weight",
    "w.weights",
};

enum { PATTERNS = sizeof pattern / sizeof *pattern, NAMES = sizeof name / sizeof *name };

static void put_texts(FILE *f, const char *const *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        for (const char *p = text[i]; *p; p++) {
            (void)fprintf(f, "%02x", (unsigned char)*p);
        }
        (void)fputs(i + 1 < n ? " " : "\n", f);
    }
}

/* Python's answers, a character for each pattern and name.  Bytes are letters where zerofs has to take them for letters: a name
 * is UTF-8, of which every byte above 0x7f counts as one. */
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
                   "p, n = ([bytes.fromhex(x).decode(\"latin-1\").translate({i: 0x3b1 for i in "
                   "range(128, 256)})"
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
        const struct zf_py_pattern *x = zf_py_pattern_new(pattern[i], strlen(pattern[i]), a, &err);

        assert_ok(x, &err);
        for (size_t k = 0; k < NAMES; k++) {
            const bool want = answer[i * NAMES + k] == '1';

            yes += want;
            if (zf_py_pattern_match(x, name[k], strlen(name[k])) != want) {
                fail_msg("\"%s\" and \"%s\": Python says %d", pattern[i], name[k], want);
            }
        }
    }
    assert_true(yes > 100 && yes < PATTERNS * NAMES / 2);
}

static void what_is_not_understood(void **state)
{
    static const char *const row[][2] = {
        {"a(b)", "group"},   {"a|b", "alternative"}, {"a{2}", "group"},     {"*a", "group"},
        {"a^b", "anchor"},   {"a$b", "anchor"},      {"\\bword", "escape"}, {"a\\1", "escape"},
        {"[abc", "bracket"}, {"[", "bracket"},       {"[^", "bracket"},     {"[]", "bracket"},
        {"[c-a]", "range"},  {"[a-\\d]", "range"},   {"[\\b]", "escape"},   {"a\\", "escape"},
    };
    struct zf_err err = {.code = ZF_OK};
    zf_auto(arena) struct zf_arena *a = zf_arena_new(1 << 20, &err);
    char text[514];

    (void)state;
    assert_ok(a, &err);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        if (zf_py_pattern_new(row[i][0], strlen(row[i][0]), a, &err)) {
            fail_msg("\"%s\" is understood", row[i][0]);
        }
        assert_err(&err, ZF_E_UNSUPPORTED, ZF_OFF_NONE, row[i][1]);
    }
    memset(text, 'a', sizeof text);
    assert_ok(zf_py_pattern_new(text, 512, a, &err), &err);
    assert_null(zf_py_pattern_new(text, 513, a, &err));
    assert_err(&err, ZF_E_UNSUPPORTED, ZF_OFF_NONE, "longer than expected");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_python_says),
        cmocka_unit_test(what_is_not_understood),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
