/* SPDX-License-Identifier: Apache-2.0 */
/* Items of groups and the candidates they are proved to be. */
#include "support/unit.h"

#include <stdlib.h>

#include <zf/assemble/assign.h>

/* An item fits a candidate of its own letter. */
struct letters {
    const char *candidate;
    const char *const *group;
};

static bool fit(void *ctx, uint32_t group, uint32_t item, uint32_t candidate, bool *yes,
                struct zf_err *err)
{
    const struct letters *l = ctx;

    (void)err;
    *yes = l->group[group][item] == l->candidate[candidate];
    return true;
}

/* The candidates of all items as digits, or why there is no one way. */
static const char *settle(const char *candidates, const char *const *group, uint32_t n)
{
    static char out[200];
    struct letters l = {candidates, group};
    bool used[64] = {false}, proven;
    uint32_t to[4][32];
    struct zf_assign_group g[4] = {{0}};
    struct zf_assign a = {.n_candidates = (uint32_t)strlen(candidates),
                          .used = used,
                          .group = g,
                          .n_groups = n,
                          .fit = fit,
                          .ctx = &l,
                          .most = 10000};
    struct zf_err err;
    size_t k = 0;

    for (uint32_t i = 0; i < n; i++)
        g[i] = (struct zf_assign_group){.n = (uint32_t)strlen(group[i]), .to = to[i]};
    assert_ok(zf_assign_prove(&a, &proven, &err), &err);
    if (!proven)
        return a.open.none ? "none" : "several";
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t j = 0; j < g[i].n; j++) {
            out[k++] = (char)('0' + to[i][j]);
            assert_true(used[to[i][j]]);
        }
        out[k++] = i + 1 < n ? ' ' : '\0';
    }
    return out;
}

#define SETTLE(candidates, ...)                                                                    \
    settle(candidates, (const char *const[]){__VA_ARGS__},                                         \
           sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static void proves_by_order(void **state)
{
    (void)state;
    assert_string_equal(SETTLE("abc", "abc"), "012");
    assert_string_equal(SETTLE("abc", "ac", "b"), "02 1");
    assert_string_equal(SETTLE("aab", "aab"), "012");
    assert_string_equal(SETTLE("abab", "aba"), "012");
    assert_string_equal(SETTLE("abc", ""), "");
    assert_string_equal(SETTLE("aab", "ab"), "several");
    assert_string_equal(SETTLE("abc", "ca"), "none");
    assert_string_equal(SETTLE("abc", "d"), "none");
    assert_string_equal(SETTLE("a", "aa"), "none");
}

/* What one group takes is not in the way of another. */
static void groups_help_each_other(void **state)
{
    (void)state;
    assert_string_equal(SETTLE("axa", "a", "ax"), "2 01");
    assert_string_equal(SETTLE("aa", "a", "a"), "several");
}

static void stops_asking(void **state)
{
    struct letters l = {"aaaa", (const char *const[]){"b"}};
    bool used[4] = {false}, proven;
    uint32_t to[1];
    struct zf_assign_group g = {.n = 1, .to = to};
    struct zf_assign a = {.n_candidates = 4,
                          .used = used,
                          .group = &g,
                          .n_groups = 1,
                          .fit = fit,
                          .ctx = &l,
                          .most = 3};
    struct zf_err err;

    (void)state;
    assert_false(zf_assign_prove(&a, &proven, &err));
    assert_err(&err, ZF_E_LIMIT, ZF_OFF_NONE, "after 3 comparisons");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(proves_by_order),
        cmocka_unit_test(groups_help_each_other),
        cmocka_unit_test(stops_asking),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
