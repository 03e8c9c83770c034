/* SPDX-License-Identifier: Apache-2.0 */
/* Hashes against CPython's own SipHash-1-3; tables and sorted sets against plain arrays. */
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>

#include <zf/base/auto.h>
#include <zf/base/hash.h>
#include <zf/base/sorted.h>

/* The allocation that fails, counted down; -1: none. */
static int table_fails = -1;

static bool table_gets_memory(void)
{
    return table_fails < 0 || table_fails-- > 0;
}

static void *table_malloc(size_t n)
{
    return table_gets_memory() ? malloc(n) : NULL;
}

static void *table_calloc(size_t n, size_t each)
{
    return table_gets_memory() ? calloc(n, each) : NULL;
}

#define malloc(n) table_malloc(n)
#define calloc(n, each) table_calloc(n, each)
#include <zf/base/table.h>

/* hash() of bytes in CPython 3.11 with PYTHONHASHSEED=0, which is a key of zeros: the seed's eight
 * bytes, then the text. */
static void hashes_as_python_does(void **state)
{
    const struct zf_hash_key zero = {{0, 0}};
    char count[40];

    (void)state;
    for (int i = 0; i < 40; i++)
        count[i] = (char)i;
    assert_int_equal(zf_hash_of(&zero, 0, "", 0), 0xbd60acb658c79e45);
    assert_int_equal(zf_hash_of(&zero, 0, "model.layers.0.weight", 21), 0x0c381f26518b3eec);
    assert_int_equal(zf_hash_of(&zero, 1, "abcdefgh", 8), 0xe80a1ffe7d5f5c5b);
    assert_int_equal(zf_hash_of(&zero, UINT64_MAX, count, 40), 0x3148742c1c9c553f);
}

static void keeps_texts_apart(void **state)
{
    const char *a = "abc";

    (void)state;
    assert_int_equal(zf_hash(7, "abc", 3), zf_hash_str(7, a));
    assert_int_not_equal(zf_hash(7, "abc", 3), zf_hash(8, "abc", 3));
    assert_int_not_equal(zf_hash(zf_hash(0, "ab", 2), "c", 1),
                         zf_hash(zf_hash(0, "a", 1), "bc", 2));
    assert_int_not_equal(zf_hash(0, "a", 1), zf_hash(0, "a\0", 2));
    assert_int_equal(zf_hash_address(a), zf_hash_number((uintptr_t)a));
    assert_int_not_equal(zf_hash_address(a), zf_hash_address(a + 1));
}

struct number {
    UT_hash_handle hh;
    uint32_t i;
};

/* The hash that an entry is kept under is that of the process's key, not uthash's own. */
static void table_is_keyed(void **state)
{
    const struct zf_hash_key zero = {{0, 0}};
    zf_auto(uthash) struct number *table = NULL;
    struct zf_err err;
    int differ = 0;

    (void)state;
    for (uint32_t i = 0; i < 64; i++) {
        char name[24];
        int n = snprintf(name, sizeof name, "model.layers.%u", i);
        struct number *e = zf_table_make_str(table, name, &err);

        assert_ok(e != NULL, &err);
        assert_int_equal(e->hh.hashv, (unsigned)zf_hash_str(0, name));
        assert_int_equal(e->hh.keylen, n);
        assert_memory_equal(e->hh.key, name, (size_t)n);
        differ += e->hh.hashv != (unsigned)zf_hash_of(&zero, 0, name, (size_t)n);
    }
    assert_true(differ > 32);
}

/* What is in the table are the first n multiples of 7. */
static void assert_numbers(const struct number *table, uint32_t n)
{
    const struct number *e = table;

    assert_int_equal(HASH_COUNT(table), n);
    for (uint32_t i = 0; i < n; i++, e = e->hh.next) {
        assert_int_equal(e->i, i); /* in the order in which they were made */
        assert_ptr_equal(zf_table_find_id(table, 7 * i), e);
        assert_null(zf_table_find_id(table, 7 * i + 1));
    }
    assert_null(zf_table_find_id(table, 7 * n));
    assert_null(e);
}

/* Fills a table while its allocation number `fails` is refused: false if there are not so many. */
static bool table_survives(int fails, bool own)
{
    enum { N = 700 };
    static struct number mine[N];
    static uint64_t key[N];
    struct number *table = NULL;
    struct zf_err err;
    bool failed = false;

    table_fails = fails;
    for (uint32_t i = 0; i < N; i++) {
        struct number *e = &mine[i];
        bool ok = true;

        key[i] = 7 * i;
        *e = (struct number){.i = 0};
        if (own)
            ok = zf_table_add(table, &key[i], sizeof key[i], e, &err);
        else if (!(e = zf_table_make_id(table, key[i], &err)))
            ok = false;
        if (!ok) {
            assert_false(failed);
            assert_err(&err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
            assert_numbers(table, i);
            failed = true;
            i--;
            continue;
        }
        e->i = i;
        if (!own)
            assert_ptr_equal(zf_table_make_id(table, key[i], &err), e);
    }
    table_fails = -1;
    assert_numbers(table, N);
    if (own)
        HASH_CLEAR(hh, table);
    else
        zf_table_free(table);
    assert_null(table);
    assert_null(zf_table_find_id(table, 7));
    return failed;
}

static void table_survives_each_allocation(void **state)
{
    int fails = 0;

    (void)state;
    while (table_survives(fails, true))
        fails++;
    assert_true(fails > 3); /* the table, its buckets, and each time they double */
    int own = fails;
    for (fails = 0; table_survives(fails, false);)
        fails++;
    assert_int_equal(fails, own + 700);
}

static uint64_t sorted_next(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005 + 1442695040888963407;
    return *seed >> 33;
}

/* Sets of numbers below N, each added again and again, in rounds between which it is asked. */
static void sorted_finds_what_was_added(void **state)
{
    enum { N = 5000, ROUNDS = 4 };
    static bool in[N];
    struct zf_sorted s = {0};
    uint64_t seed = 3;
    struct zf_err err;

    (void)state;
    assert_false(zf_sorted_has(&s, 0));
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < 100000; i++) {
            uint64_t v = sorted_next(&seed) % (N / (uint64_t)(ROUNDS - round));

            assert_ok(zf_sorted_add(&s, v << 40 | v, &err), &err);
            in[v] = true;
        }
        for (uint64_t v = 0; v < N; v++)
            assert_int_equal(zf_sorted_has(&s, v << 40 | v), in[v]);
        assert_false(zf_sorted_has(&s, UINT64_MAX));
    }
    assert_true(s.n <= N && s.cap <= 4 * N);
    zf_sorted_fini(&s);
    assert_false(zf_sorted_has(&s, 0));
}

/* Asked after each addition, it has as many of each range as were added. */
static void sorted_finds_meanwhile(void **state)
{
    enum { N = 700, ROUNDS = 6000 };
    static bool in[N];
    struct zf_sorted s = {0};
    uint64_t seed = 11;
    struct zf_err err;

    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t v = sorted_next(&seed) % N, from = sorted_next(&seed) % N, got;
        uint64_t to = from + sorted_next(&seed) % 20;
        struct zf_sorted_at at = {0};
        bool found[20] = {false};

        assert_ok(zf_sorted_add(&s, v, &err), &err);
        in[v] = true;
        while (zf_sorted_next(&s, from, to, &at, &got)) {
            assert_true(got >= from && got <= to);
            found[got - from] = true;
        }
        for (uint64_t k = from; k <= to && k < N; k++)
            assert_int_equal(found[k - from], in[k]);
        for (uint32_t k = 1; k < s.n_runs; k++)
            assert_true(s.run[k] > s.run[k - 1]);
        assert_true(s.n_runs < 10);
    }
    zf_sorted_fini(&s);
}

static void sorted_keeps_pairs_together(void **state)
{
    enum { N = 300 };
    static bool in[N][N];
    struct zf_sorted s = {0};
    uint64_t seed = 5;
    struct zf_err err;
    size_t at, n;

    (void)state;
    for (int i = 0; i < 20000; i++) {
        uint64_t a = sorted_next(&seed) % N, b = sorted_next(&seed) % N;

        assert_ok(zf_sorted_add_pair(&s, a, UINT64_MAX - b, &err), &err);
        in[a][b] = true;
    }
    for (uint64_t a = 0; a < N; a++) {
        n = zf_sorted_find(&s, a, &at);
        for (size_t b = N; b-- > 0;) {
            if (in[a][b]) {
                assert_true(n-- > 0);
                assert_int_equal(s.at[2 * at], a);
                assert_int_equal(s.at[2 * at++ + 1], UINT64_MAX - b);
            }
        }
        assert_int_equal(n, 0);
    }
    assert_int_equal(zf_sorted_find(&s, N, &at), 0);
    zf_sorted_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hashes_as_python_does),
        cmocka_unit_test(keeps_texts_apart),
        cmocka_unit_test(table_is_keyed),
        cmocka_unit_test(table_survives_each_allocation),
        cmocka_unit_test(sorted_finds_what_was_added),
        cmocka_unit_test(sorted_finds_meanwhile),
        cmocka_unit_test(sorted_keeps_pairs_together),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
