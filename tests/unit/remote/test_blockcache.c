/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks in memory: fetched once for all who want them, bounded, and a failure is nobody's for ever. */
#include "support/unit.h"

#include <pthread.h>

#include "remote/blockcache.h"

#define N 1000 /* bytes of a block here */

static struct zf_err err;
static struct blockcache *c;
static uint64_t owner;

static int setup(void **state)
{
    (void)state;
    zf_err_clear(&err);
    c = blockcache_new(10 * N, &err);
    assert_ok(c, &err);
    owner = blockcache_owner(c);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    blockcache_free(c);
    return 0;
}

/* Claims the block and, if it is new, fills it with its number.  Gives whether it was new; it stays pinned. */
static bool claim(uint64_t k, struct block **out)
{
    bool ready;
    enum blockcache_find found = blockcache_claim(c, owner, k, N, out, &ready);

    assert_int_not_equal(found, BLOCKCACHE_NONE);
    if (found == BLOCKCACHE_MINE) {
        assert_false(ready);
        memset((*out)->data, (int)k, N);
        blockcache_loaded(c, *out, NULL);
    }
    assert_ok(blockcache_wait(c, *out, &err), &err);
    assert_int_equal((*out)->data[N - 1], k);
    return found == BLOCKCACHE_MINE;
}

static bool touch(uint64_t k)
{
    struct block *b;
    bool is_new = claim(k, &b);

    blockcache_unpin(c, b);
    return is_new;
}

static void the_longest_unused_go(void **state)
{
    (void)state;
    for (uint64_t k = 0; k < 10; k++)
        assert_true(touch(k));
    assert_false(touch(0)); /* used again: 1 is the oldest now */
    assert_true(touch(10));
    assert_false(touch(0));
    assert_true(touch(1));
    assert_true(touch(2));
    assert_false(touch(10));
}

static void what_is_used_stays_beyond_the_bound(void **state)
{
    struct block *b[30];

    (void)state;
    for (uint64_t k = 0; k < 30; k++)
        assert_true(claim(k, &b[k]));
    for (uint64_t k = 0; k < 30; k++) {
        assert_int_equal(b[k]->data[0], k);
        blockcache_unpin(c, b[k]);
    }
    assert_false(touch(29));
    assert_false(touch(20));
    assert_true(touch(19));
}

static void owners_do_not_meet(void **state)
{
    (void)state;
    assert_true(touch(3));
    owner = blockcache_owner(c);
    assert_true(touch(3));
    assert_false(touch(3));
}

/* Room is what need not be taken from blocks that nobody has read yet. */
static void room_spares_what_was_not_read(void **state)
{
    struct block *b;
    bool ready;

    (void)state;
    assert_int_equal(blockcache_room(c), 10 * N);
    for (uint64_t k = 0; k < 4; k++) { /* fetched ahead */
        assert_int_equal(blockcache_claim(c, owner, k, N, &b, &ready), BLOCKCACHE_MINE);
        memset(b->data, (int)k, N);
        blockcache_loaded(c, b, NULL);
        blockcache_unpin(c, b);
    }
    assert_int_equal(blockcache_room(c), 6 * N);
    assert_false(touch(0)); /* now it was read, and is the youngest */
    assert_int_equal(blockcache_room(c), 6 * N);
    assert_false(touch(1));
    assert_false(touch(2));
    assert_false(touch(3));
    assert_int_equal(blockcache_room(c), 10 * N);
}

struct reader {
    pthread_t thread;
    struct block *block;
    struct zf_err err;
    bool ok;
};

static void *reader_run(void *ctx)
{
    struct reader *r = ctx;

    r->ok = blockcache_wait(c, r->block, &r->err);
    blockcache_unpin(c, r->block);
    return NULL;
}

/* Four wait for one fetch, which ends as `why` says. */
static void four_wait(const struct zf_err *why, struct reader r[4])
{
    struct block *mine;
    bool ready;

    assert_int_equal(blockcache_claim(c, owner, 7, N, &mine, &ready), BLOCKCACHE_MINE);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(blockcache_claim(c, owner, 7, N, &r[i].block, &ready), BLOCKCACHE_THERE);
        assert_false(ready);
        assert_int_equal(pthread_create(&r[i].thread, NULL, reader_run, &r[i]), 0);
    }
    memset(mine->data, 7, N);
    blockcache_loaded(c, mine, why);
    blockcache_unpin(c, mine);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(r[i].thread, NULL), 0);
        assert_int_equal(r[i].ok, why == NULL);
    }
}

static void one_fetch_for_all_who_wait(void **state)
{
    struct reader r[4] = {0};

    (void)state;
    four_wait(NULL, r);
    assert_false(touch(7));
}

static void a_failure_is_for_those_who_waited(void **state)
{
    struct reader r[4] = {0};
    struct zf_err why = {.code = ZF_OK};

    (void)state;
    (void)zf_fail(&why, ZF_E_STALE, 42, "the object was replaced");
    four_wait(&why, r);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(r[i].err.code, ZF_E_STALE);
        assert_string_equal(r[i].err.msg, why.msg);
    }
    assert_true(touch(7)); /* who comes later asks again */
    assert_false(touch(7));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_longest_unused_go, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_used_stays_beyond_the_bound, setup, teardown),
        cmocka_unit_test_setup_teardown(owners_do_not_meet, setup, teardown),
        cmocka_unit_test_setup_teardown(room_spares_what_was_not_read, setup, teardown),
        cmocka_unit_test_setup_teardown(one_fetch_for_all_who_wait, setup, teardown),
        cmocka_unit_test_setup_teardown(a_failure_is_for_those_who_waited, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
