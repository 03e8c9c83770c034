/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns over paths, relative paths, and the names offered for one that is not there. */
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <zf/base/glob.h>
#include <zf/base/nearest.h>
#include <zf/base/num.h>
#include <zf/base/path.h>

#include "support/random.h"

/* As bash matches file names with globstar, but for a path as a whole. */
static void patterns(void **state)
{
    static const struct {
        const char *pattern, *path;
        bool fits;
    } cases[] = {
        {"*.f32", "a.f32", true},
        {"*.f32", "optim/a.f32", false},
        {"optim/*", "optim/exp_avg", true},
        {"optim/*", "optim/exp_avg/a.f32", false},
        {"?.f32", "/.f32", false},
        {"[!a].f32", "/.f32", false},
        {"layers.[0-3].*", "layers.2.w.f32", true},
        {"**.f32", "optim/exp_avg/a.f32", true},
        {"**", "optim/exp_avg/a.f32", true},
        {"**", "", true},
        {"optim/**", "optim/exp_avg/a.f32", true},
        {"optim/**", "optimizer", false},
        {"**/a.f32", "a.f32", true},
        {"**/a.f32", "x/y/a.f32", true},
        {"**/a.f32", "x/ya.f32", false},
        {"o*/**/a.f32", "optim/a.f32", true},
        {"o*/**/a.f32", "optim/exp_avg/a.f32", true},
        {"o*/**/a.f32", "stored/a.f32", false},
        {"a**b**c", "a/b/c", true},
        {"a**b**c", "a/c/b", false},
        {"\\**", "*x", true},
        {"\\*\\*", "**", true},
        {"\\*\\*", "ab", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (zf_glob_match(cases[i].pattern, cases[i].path) != cases[i].fits)
            fail_msg("%s over %s", cases[i].pattern, cases[i].path);
    assert_true(zf_glob_is_pattern("a[b"));
    assert_false(zf_glob_is_pattern("a.b"));
}

static void offered(const char *want, const char *expected)
{
    static const char *const names[] = {"l1.weight.f32", "l2.weight.f32",
                                        "l1.bias.f32",   "embed.weight.f32",
                                        "export",        "optim/exp_avg/l1.bias.f32"};
    zf_auto(nearest) struct zf_nearest near = {.want = want};
    char text[512];

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        zf_nearest_offer(&near, names[i]);
    assert_string_equal(zf_nearest_text(&near, text, sizeof text), expected);
}

static void nearest_names(void **state)
{
    (void)state;
    offered("l1.weight", "; did you mean l1.weight.f32?");
    offered("l1.wieght.f32", "; did you mean l1.weight.f32 or l2.weight.f32?");
    offered("exprot", "; did you mean export?");
    offered("optim/exp_avg/l1.bais.f32", "; did you mean optim/exp_avg/l1.bias.f32?");
    offered("lm_head.weight.f32", "");
    offered("", "");
    offered("x", "");
}

/* The whole table, which has no band: insertions, deletions, substitutions, neighbours that changed places. */
static unsigned edits(const char *a, const char *b)
{
    unsigned d[24][24];
    size_t n = strlen(a), m = strlen(b);

    for (size_t i = 0; i <= n; i++) {
        for (size_t j = 0; j <= m; j++) {
            unsigned least = i == 0   ? (unsigned)j
                             : j == 0 ? (unsigned)i
                                      : d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);

            least = i > 0 && d[i - 1][j] + 1 < least ? d[i - 1][j] + 1 : least;
            least = j > 0 && d[i][j - 1] + 1 < least ? d[i][j - 1] + 1 : least;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                d[i - 2][j - 2] + 1 < least)
                least = d[i - 2][j - 2] + 1;
            d[i][j] = least;
        }
    }
    return d[n][m];
}

static void nearest_by_the_whole_table(void **state)
{
    unsigned seen[5] = {0};

    (void)state;
    for (int round = 0; round < 20000; round++) {
        char want[24], name[24];
        size_t n = 1 + random_below(15), len = n;

        for (size_t i = 0; i < n; i++)
            want[i] = name[i] = (char)('a' + random_below(4));
        for (uint64_t k = random_below(5); k > 0; k--) {
            size_t at = random_below(len);
            char was = name[at];

            switch (random_below(4)) {
            case 0:
                name[at] = (char)('a' + random_below(4));
                break;
            case 1:
                memmove(name + at + 1, name + at, len++ - at);
                break;
            case 2:
                memmove(name + at, name + at + 1, --len - at);
                len += len == 0;
                break;
            default:
                if (at + 1 < len) {
                    name[at] = name[at + 1];
                    name[at + 1] = was;
                }
            }
        }
        want[n] = name[len] = '\0';
        zf_auto(nearest) struct zf_nearest near = {.want = want};
        const unsigned all = edits(want, name), most = n < 5 ? 1 : n < 12 ? 2 : 3;

        zf_nearest_offer(&near, name);
        if (near.n != (all <= most) || (near.n && near.cost[0] != all))
            fail_msg("%s is %u edits from %s, not %u", name, all, want, near.n ? near.cost[0] : 99);
        seen[all < 4 ? all : 4]++;
    }
    for (size_t i = 0; i < 5; i++)
        assert_true(seen[i] > 100);
}

/* Only the nearest stay, and names of any length are bounded. */
static void nearest_few(void **state)
{
    static const char *const names[] = {"abcdefxx", "abcdefgx", "abcdefgh", "abcdefgy", "abcdefgz"};
    zf_auto(nearest) struct zf_nearest near = {.want = "abcdefgh"};
    char text[64], cut[8], name[2000] = {0};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        zf_nearest_offer(&near, names[i]);
    assert_string_equal(zf_nearest_text(&near, text, sizeof text),
                        "; did you mean abcdefgh, abcdefgx or abcdefgy?");
    assert_int_equal(strlen(zf_nearest_text(&near, cut, sizeof cut)), sizeof cut - 1);
    memset(name, 'a', sizeof name - 1);
    near.want = name;
    zf_nearest_offer(&near, name);
}

static void relative_paths(void **state)
{
    static const char *const good[] = {"a", "a/b", "..a", "a../b", ".a", "a b/c"};
    static const char *const bad[] = {"",   ".",    "..",    "/",    "/a",
                                      "a/", "a//b", "a/./b", "../a", "a/.."};
    static const char *const join[][3] = {
        {"", "a", "a"}, {"a", "b", "a/b"}, {"a/b", "c/d", "a/b/c/d"}, {"", "", ""}};
    struct zf_err err;

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_true(zf_relpath_ok(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(zf_relpath_ok(bad[i]));
    for (size_t i = 0; i < sizeof join / sizeof join[0]; i++) {
        zf_auto(mem) char *path = zf_relpath_join(join[i][0], join[i][1], &err);

        assert_string_equal(path, join[i][2]);
    }
}

static void paths_from_the_working_directory(void **state)
{
    struct zf_err err;
    char want[4200];
    char *path = strdup("a/b"), *there = strdup("/c");
    zf_auto(mem) char *here = getcwd(NULL, 0);

    (void)state;
    (void)snprintf(want, sizeof want, "%s/a/b", here);
    assert_true(zf_path_absolute(&path, &err));
    assert_string_equal(path, want);
    assert_true(zf_path_absolute(&there, &err));
    assert_string_equal(there, "/c");
    free(path);
    free(there);
}

static void sizes(void **state)
{
    static const struct {
        const char *text;
        uint64_t n;
    } good[] = {{"0", 0},           {"18446744073709551615", UINT64_MAX},
                {"1k", 1024},       {"1K", 1024},
                {"3MiB", 3u << 20}, {"2GB", 2ull << 30},
                {"5Ti", 5ull << 40}};
    static const char *const bad[] = {
        "", "x", "-1", "+1", " 1", "1x", "1kk", "1kiBx", "1B", "18446744073709551616", "16777216T"};
    uint64_t n;

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(zf_num_size(good[i].text, &n));
        assert_int_equal(n, good[i].n);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (zf_num_size(bad[i], &n))
            fail_msg("\"%s\" is taken for a size", bad[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns),      cmocka_unit_test(relative_paths),
        cmocka_unit_test(nearest_names), cmocka_unit_test(nearest_by_the_whole_table),
        cmocka_unit_test(nearest_few),   cmocka_unit_test(paths_from_the_working_directory),
        cmocka_unit_test(sizes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
