/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include <zf/base/ahead.h>

#define N 500

struct job {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    unsigned inside, most, want; /* whoever makes waits until `want` were inside at once */
    atomic_uint made, taken, far, beyond;
    uint64_t n;
    unsigned fails; /* every so many-th; 0 = none */
    uint8_t times[N];
};

static atomic_uint dropped;

static struct job job_new(unsigned want, unsigned fails)
{
    atomic_store(&dropped, 0);
    return (struct job){.lock = PTHREAD_MUTEX_INITIALIZER,
                        .moved = PTHREAD_COND_INITIALIZER,
                        .want = want,
                        .fails = fails};
}

static void job_meet(struct job *j)
{
    (void)pthread_mutex_lock(&j->lock);
    j->most = ++j->inside > j->most ? j->inside : j->most;
    (void)pthread_cond_broadcast(&j->moved);
    while (j->most < j->want)
        (void)pthread_cond_wait(&j->moved, &j->lock);
    j->inside--;
    (void)pthread_mutex_unlock(&j->lock);
}

static void *make(void *ctx, uint64_t i, struct zf_err *err)
{
    struct job *j = ctx;

    job_meet(j);
    atomic_fetch_add(&j->beyond, i >= j->n);
    j->times[i]++;
    if (i > atomic_load(&j->taken) + ZF_AHEAD_FEW)
        atomic_fetch_add(&j->far, 1);
    if (j->fails && i % j->fails == 0) {
        (void)zf_fail(err, ZF_E_FORMAT, i, "thing %u is bad", (unsigned)i);
        return NULL;
    }
    uint64_t *out = malloc(sizeof *out);
    assert_non_null(out);
    *out = i;
    atomic_fetch_add(&j->made, 1);
    return out;
}

static void drop(void *made)
{
    free(made);
    atomic_fetch_add(&dropped, 1);
}

static struct zf_ahead *ahead_of(struct job *j, uint64_t n)
{
    struct zf_err err;

    j->n = n;
    struct zf_ahead *a =
        zf_ahead_new((struct zf_ahead_work){.make = make, .drop = drop, .ctx = j}, n, &err);

    assert_ok(a, &err);
    return a;
}

/* Takes thing i, which is as it should be. */
static void take(struct job *j, struct zf_ahead *a, uint64_t i)
{
    struct zf_err err;
    uint64_t *got = zf_ahead_take(a, &err);

    atomic_fetch_add(&j->taken, 1);
    if (j->fails && i % j->fails == 0) {
        assert_null(got);
        assert_err(&err, ZF_E_FORMAT, i, "is bad");
        return;
    }
    assert_ok(got, &err);
    assert_int_equal(*got, i);
    free(got);
}

static void things_come_in_order(void **state)
{
    const unsigned fails[] = {0, 1, 2, 7};

    (void)state;
    for (size_t k = 0; k < 4; k++) {
        struct job j = job_new(0, fails[k]);
        zf_auto(ahead) struct zf_ahead *a = ahead_of(&j, N);

        for (uint64_t i = 0; i < N; i++)
            take(&j, a, i);
        for (uint64_t i = 0; i < N; i++)
            assert_int_equal(j.times[i], 1);
        assert_int_equal(j.far, 0);
        assert_int_equal(dropped, 0);
    }
}

static void several_are_made_at_once(void **state)
{
    struct job j = job_new(ZF_AHEAD_FEW, 0);
    zf_auto(ahead) struct zf_ahead *a = ahead_of(&j, N);

    (void)state;
    for (uint64_t i = 0; i < N; i++)
        take(&j, a, i);
    assert_int_equal(j.most, ZF_AHEAD_FEW);
}

/* However many were taken before: as many as may be are made while nobody asks. */
static void the_next_ones_are_made_ahead(void **state)
{
    const struct timespec ms = {.tv_nsec = 1000000};
    struct job j = job_new(0, 0);
    zf_auto(ahead) struct zf_ahead *a = ahead_of(&j, N);

    (void)state;
    for (uint64_t i = 0; i < 20; i++) {
        unsigned want = (unsigned)i + ZF_AHEAD_FEW;

        for (unsigned tries = 0; tries < 10000 && atomic_load(&j.made) < want; tries++)
            (void)nanosleep(&ms, NULL);
        assert_int_equal(atomic_load(&j.made), want);
        take(&j, a, i);
    }
}

static void what_nobody_took_is_dropped(void **state)
{
    (void)state;
    for (uint64_t n = 0; n < 30; n++) {
        for (uint64_t taken = 0; taken <= n && taken < 9; taken++) {
            struct job j = job_new(0, 0);
            struct zf_ahead *a = ahead_of(&j, n);

            for (uint64_t i = 0; i < taken; i++)
                take(&j, a, i);
            zf_ahead_free(a);
            assert_int_equal(j.made, taken + dropped);
            assert_true(dropped <= ZF_AHEAD_FEW);
            assert_int_equal(j.beyond, 0);
        }
    }
    zf_ahead_free(NULL);
}

/* The taker gives up at the first failure: nothing was begun once that was known. */
static void a_failure_stops_what_is_behind_it(void **state)
{
    struct job j = job_new(0, 1);
    struct zf_ahead *a = ahead_of(&j, N);
    unsigned begun = 0;

    (void)state;
    take(&j, a, 0);
    zf_ahead_free(a);
    for (unsigned i = 0; i < N; i++)
        begun += j.times[i];
    assert_true(begun <= 2 * ZF_AHEAD_FEW);
}

static void one_alone_needs_no_thread(void **state)
{
    struct job j = job_new(0, 0);
    zf_auto(ahead) struct zf_ahead *a = ahead_of(&j, 1);

    (void)state;
    assert_int_equal(j.made, 0);
    take(&j, a, 0);
    assert_int_equal(j.most, 1);
}

/* A source that lets everybody wait. */
static void *make_slowly(void *ctx, uint64_t i, struct zf_err *err)
{
    const struct timespec ms = {0, 3000000};
    struct job *j = ctx;

    (void)pthread_mutex_lock(&j->lock);
    j->most = ++j->inside > j->most ? j->inside : j->most;
    (void)pthread_mutex_unlock(&j->lock);
    (void)nanosleep(&ms, NULL);
    (void)pthread_mutex_lock(&j->lock);
    j->inside--;
    (void)pthread_mutex_unlock(&j->lock);
    uint64_t *out = malloc(sizeof *out);
    assert_non_null(out);
    *out = i;
    (void)err;
    atomic_fetch_add(&j->made, 1);
    return out;
}

static uint64_t weigh_all(const void *made)
{
    (void)made;
    return ZF_AHEAD_ROOM;
}

static uint64_t weigh_heavily(const void *made)
{
    (void)made;
    return ZF_AHEAD_HEAVY;
}

static uint64_t weigh_too_much(const void *made)
{
    (void)made;
    return 2 * ZF_AHEAD_HEAVY;
}

/* However heavy they are, the taker and a thread are at work: one is made while nobody asks. */
static void one_that_is_heavy_is_made_ahead(void **state)
{
    const struct timespec ms = {.tv_nsec = 1000000};
    struct job j = job_new(0, 0);
    const struct zf_ahead_work work = {
        .make = make, .drop = drop, .ctx = &j, .weigh = weigh_too_much};
    struct zf_err err;

    (void)state;
    j.n = N;
    zf_auto(ahead) struct zf_ahead *a = zf_ahead_new(work, N, &err);
    assert_ok(a, &err);
    for (uint64_t i = 0; i < 20; i++) {
        for (unsigned tries = 0; tries < 10000 && atomic_load(&j.made) <= i; tries++)
            (void)nanosleep(&ms, NULL);
        /* Two, where nothing was weighed yet. */
        assert_in_range(atomic_load(&j.made), i + 1, i + 2);
        take(&j, a, i);
    }
}

static unsigned most_at_once(uint32_t most, uint64_t (*weigh)(const void *))
{
    struct job j = job_new(0, 0);
    const struct zf_ahead_work work = {
        .make = make_slowly, .drop = drop, .ctx = &j, .most = most, .weigh = weigh};
    struct zf_err err;
    zf_auto(ahead) struct zf_ahead *a = zf_ahead_new(work, N, &err);

    assert_ok(a, &err);
    for (uint64_t i = 0; i < N; i++)
        take(&j, a, i);
    return j.most;
}

/* What is known to be heavy before one was weighed is made when it is asked for, not beside the one before. */
static void what_is_likely_heavy_is_made_alone(void **state)
{
    struct job j = job_new(0, 0);
    const struct zf_ahead_work work = {.make = make_slowly,
                                       .drop = drop,
                                       .ctx = &j,
                                       .weigh = weigh_too_much,
                                       .likely = ZF_AHEAD_HEAVY};
    struct zf_err err;

    (void)state;
    zf_auto(ahead) struct zf_ahead *a = zf_ahead_new(work, N, &err);
    assert_ok(a, &err);
    for (uint64_t i = 0; i < 20; i++) {
        assert_int_equal(atomic_load(&j.made), i);
        take(&j, a, i);
    }
    assert_int_equal(j.most, 1);
}

static void waiting_asks_for_more(void **state)
{
    (void)state;
    assert_in_range(most_at_once(32, NULL), ZF_AHEAD_FEW + 1, 32);
    assert_in_range(most_at_once(0, NULL), 1,
                    ZF_AHEAD_FEW + 1); /* the taker makes one now and then */
    assert_in_range(most_at_once(32, weigh_all), 1, ZF_AHEAD_FEW + 1);
    /* One by a thread while another one is taken, or made by the taker. */
    assert_in_range(most_at_once(32, weigh_heavily), 1, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(things_come_in_order),
        cmocka_unit_test(several_are_made_at_once),
        cmocka_unit_test(the_next_ones_are_made_ahead),
        cmocka_unit_test(what_nobody_took_is_dropped),
        cmocka_unit_test(a_failure_stops_what_is_behind_it),
        cmocka_unit_test(one_alone_needs_no_thread),
        cmocka_unit_test(waiting_asks_for_more),
        cmocka_unit_test(one_that_is_heavy_is_made_ahead),
        cmocka_unit_test(what_is_likely_heavy_is_made_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
