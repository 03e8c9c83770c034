/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>

#include <zf/base/name.h>
#include <zf/base/path.h>
#include <zf/base/utf8.h>

static void check(const char *raw, size_t n, const char *suffix, const char *want)
{
    char file[ZF_NAME_MAX + 1], back[ZF_NAME_MAX + 1], both[2 * ZF_NAME_MAX];
    size_t len;

    assert_int_equal(zf_name_encode(file, raw, n, suffix), strlen(want));
    assert_string_equal(file, want);
    assert_true(zf_name_decode(back, &len, file, strlen(file)));
    memcpy(both, raw, n);
    memcpy(both + n, suffix, strlen(suffix));
    assert_int_equal(len, n + strlen(suffix));
    assert_memory_equal(back, both, len);
}

/* The examples of zerofs(5) and the traps of the naming rules. */
static void encodes_what_a_file_name_cannot_hold(void **state)
{
    char file[ZF_NAME_MAX + 1];

    (void)state;
    assert_int_equal(zf_name_encode(file, "", 0, ""), 1); /* which nothing is read back from */
    assert_string_equal(file, "%");
    check("layers.0.weight", 15, ".f32", "layers.0.weight.f32");
    check("a/b", 3, ".f32", "a%2Fb.f32");
    check("..", 2, ".u8", "%2E..u8");
    check(".hidden", 7, "", "%2Ehidden");
    check("", 0, ".f32", "%2Ef32");
    check("100%", 4, ".i64", "100%25.i64");
    check("a\0b\n\x7f", 5, ".f32", "a%00b%0A%7F.f32");
    check("caf\xc3\xa9", 5, ".f32", "caf\xc3\xa9.f32");
    check("\xff\xc3", 2, ".f32", "%FF%C3.f32");
    check("\xed\xa0\x80", 3, "", "%ED%A0%80"); /* a surrogate is no UTF-8 */
    check("\xc0\xaf", 2, "", "%C0%AF");        /* neither is an overlong slash */
}

/* echo -n "xxx…" (300 times) | sha256sum, by coreutils */
static void cuts_long_names_at_a_boundary(void **state)
{
    char raw[400], file[ZF_NAME_MAX + 1], command[600], hex[17] = "";

    (void)state;
    memset(raw, 'x', 300);
    raw[300] = '\0';
    (void)snprintf(command, sizeof command, "printf %%s %s | sha256sum", raw);
    FILE *p = popen(command, "r");
    assert_non_null(p);
    assert_int_equal(fread(hex, 1, 16, p), 16);
    (void)pclose(p);
    assert_int_equal(zf_name_encode(file, raw, 300, ".f32"), ZF_NAME_MAX);
    assert_true(zf_name_ends(file, ".f32") && !zf_name_ends("32", ".f32"));
    assert_int_equal(file[ZF_NAME_MAX - 4 - 17], '~');
    assert_memory_equal(file + ZF_NAME_MAX - 4 - 16, hex, 16);
    assert_string_equal(file + ZF_NAME_MAX - 4, ".f32");
    /* Two-byte characters and %XX are never cut in the middle. */
    for (size_t shift = 0; shift < 3; shift++) {
        for (size_t i = 0; i < 300; i += 2)
            memcpy(raw + i, "\xc3\xa9", 2);
        memset(raw, 'y', shift);
        memmove(raw + shift, raw + (shift % 2), 299);
        size_t n = zf_name_encode(file, raw, 300, ".bf16");
        assert_true(n <= ZF_NAME_MAX && n > ZF_NAME_MAX - 4);
        assert_true(zf_utf8_valid(file, n));
    }
}

static void orders_naturally(void **state)
{
    static const char *const sorted[] = {"",          "a",          "a.1", "a.2",
                                         "a.10",      "a.10.b",     "a.b", "layers.2",
                                         "layers.10", "layers.010", "m",   "m\xc3\xa9"};
    const size_t n = sizeof sorted / sizeof sorted[0];

    (void)state;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++) {
            int c = zf_name_cmp(sorted[i], strlen(sorted[i]), sorted[j], strlen(sorted[j]));
            bool numbers_equal =
                strstr(sorted[i], "10") && strstr(sorted[j], "10") && i >= 8 && j >= 8;

            if (!numbers_equal)
                assert_int_equal((c > 0) - (c < 0), (i > j) - (i < j));
            else if (i != j)
                assert_int_not_equal(c, 0);
        }
    }
}

static void refuses_malformed_escapes(void **state)
{
    static const char *const bad[] = {"%", "%2", "a%2", "%G0", "%2f", "%%41"};
    char out[16];
    size_t n;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(zf_name_decode(out, &n, bad[i], strlen(bad[i])));
}

/* What a checkpoint may name: a path that stays below where it began, written in one way. */
static void knows_safe_paths(void **state)
{
    static const char *const good[] = {"a",     "a/b", "a/b/c.pt", "...",  "a/...", ".a",
                                       "..a/b", "a..", " /\n",     "a\\b", "~"};
    static const char *const bad[] = {"",      "/",      "/a",        "//a",  "a/",  "a//b",
                                      ".",     "..",     "./a",       "../a", "a/.", "a/..",
                                      "a/./b", "a/../b", "../../etc", "a/b/"};

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_true(zf_relpath_ok(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (zf_relpath_ok(bad[i]))
            fail_msg("\"%s\" passed", bad[i]);
}

/* The encoding of RFC 3629, section 3; how many bytes it has. */
static size_t utf8(uint32_t c, char *out)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

    for (size_t i = n; i-- > 1; c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)((n == 2 ? 0xc0 : n == 3 ? 0xe0 : 0xf0) | c);
    return n;
}

/* Every character there is; and none with a byte that is wrong or missing. */
static void knows_characters(void **state)
{
    static const unsigned char no_tail[] = {0x00, 0x28, 0x7f, 0xc0, 0xff};

    (void)state;
    for (uint32_t c = 1; c < 0x120000; c++) {
        char p[4];
        size_t n = utf8(c, p);
        bool there = c < 0xd800 || (c > 0xdfff && c < 0x110000);

        assert_int_equal(zf_utf8_len(p, n), there ? n : 0);
        for (size_t i = 1; i < n && c % 61 == 0; i++) {
            char was = p[i];

            assert_int_equal(zf_utf8_len(p, i), 0);
            for (size_t k = 0; k < sizeof no_tail; k++) {
                p[i] = (char)no_tail[k];
                assert_int_equal(zf_utf8_len(p, n), 0);
            }
            p[i] = was;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encodes_what_a_file_name_cannot_hold),
        cmocka_unit_test(cuts_long_names_at_a_boundary),
        cmocka_unit_test(orders_naturally),
        cmocka_unit_test(refuses_malformed_escapes),
        cmocka_unit_test(knows_safe_paths),
        cmocka_unit_test(knows_characters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
