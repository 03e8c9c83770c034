/* SPDX-License-Identifier: Apache-2.0 */
/* Who is told what will be read: which bytes arrive at the source that can fetch them. */
#include "support/unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include <zf/source/items.h>
#include <zf/source/want.h>

#include "source/want.h"

static struct zf_err err;
static uint64_t told_off, told_n;
static enum zf_prefetch told_how;
static unsigned n_told;

static bool far_pread(struct zf_source *s, void *buf, size_t n, uint64_t off, struct zf_err *e)
{
    (void)s, (void)off, (void)e;
    memset(buf, 0, n);
    return true;
}

static void far_want(struct zf_source *s, uint64_t off, uint64_t n, enum zf_prefetch how)
{
    (void)s;
    told_off = off;
    told_n = n;
    told_how = how;
    n_told++;
}

static void far_fini(struct zf_source *s)
{
    zf_source_fini(s);
    free(s);
}

static const struct zf_source_ops far_ops = {
    .kind = "far", .pread = far_pread, .want = far_want, .fini = far_fini};

static struct zf_source *far_away(uint64_t size)
{
    struct zf_source *s = calloc(1, sizeof *s);

    assert_ok(zf_source_init(s, &far_ops, "far", size, &err), &err);
    n_told = 0;
    return s;
}

static void assert_told(uint64_t off, uint64_t n)
{
    assert_int_equal(n_told, 1);
    assert_int_equal(told_off, off);
    assert_int_equal(told_n, n);
    n_told = 0;
}

static void through_what_stands_between(void **state)
{
    zf_auto(source) struct zf_source *far = far_away(1000);
    zf_auto(source) struct zf_source *w = zf_window_new(far, 100, 500, NULL, &err);
    zf_auto(source) struct zf_source *s = zf_swap_new(w, 4, &err);

    (void)state;
    zf_source_want(far, 10, 20, ZF_PREFETCH_ALL);
    assert_told(10, 20);
    zf_source_want(s, 40, 100, ZF_PREFETCH_ALL);
    assert_told(140, 100);
    zf_source_want(s, 480, 100, ZF_PREFETCH_ALL); /* cut at the window's end */
    assert_told(580, 20);
    zf_source_want(s, 500, 1, ZF_PREFETCH_ALL);
    zf_source_want(s, UINT64_MAX, 1, ZF_PREFETCH_ALL);
    zf_source_want(s, 0, 0, ZF_PREFETCH_ALL);
    assert_int_equal(n_told, 0);
    zf_source_want(s, 1, UINT64_MAX, ZF_PREFETCH_ALL);
    assert_told(101, 499);
}

static void of_lost_bytes_only_what_is_there(void **state)
{
    zf_auto(source) struct zf_source *far = far_away(1000);
    zf_auto(source) struct zf_source *l =
        zf_lost_behind(far, 600, 2000, &(struct zf_lost){.why = "gone"}, &err);

    (void)state;
    assert_ok(l, &err);
    zf_source_want(l, 700, 10, ZF_PREFETCH_ALL);
    assert_int_equal(n_told, 0);
    zf_source_want(l, 500, 10, ZF_PREFETCH_ALL);
    assert_told(500, 10);
}

static bool locate(void *ctx, struct zf_source *file, const struct zf_item *it,
                   struct zf_item_at *out, struct zf_err *e)
{
    (void)ctx, (void)file, (void)e;
    out->off = it->rec_off + 64;
    return true;
}

/* An item that was not looked up yet is not looked up for this. */
static void items_before_and_behind_their_first_read(void **state)
{
    zf_auto(source) struct zf_source *far = far_away(1u << 20);
    zf_auto(source) struct zf_source *items = zf_items_new(far, locate, NULL, NULL, &err);
    uint64_t a, b;
    char buf[10];

    (void)state;
    assert_ok(zf_items_add(items, 1000, 500, &a, &err), &err);
    assert_ok(zf_items_add(items, 5000, 500, &b, &err), &err);
    zf_items_seal(items);
    zf_source_want(items, b + 100, 50, ZF_PREFETCH_ALL);
    assert_int_equal(n_told, 1);
    assert_int_equal(told_off, 5100);
    assert_true(told_n >= 50 + 64);
    n_told = 0;
    assert_ok(zf_source_pread(items, buf, sizeof buf, b, &err), &err);
    zf_source_want(items, b + 100, 50, ZF_PREFETCH_KERNEL);
    assert_told(5164, 50);
    assert_int_equal(told_how, ZF_PREFETCH_KERNEL);
    zf_source_want(items, a, 600, ZF_PREFETCH_ALL);
    assert_int_equal(n_told, 2);
}

/* ---- the threads ------------------------------------------------------------------------------ */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct zf_source *hangs;
static bool released;
static unsigned n_inside, n_done;
static uint64_t n_fetched;

static void fetch(struct zf_source *s, uint64_t off, uint64_t n)
{
    (void)off;
    (void)pthread_mutex_lock(&lock);
    if (s == hangs) {
        n_inside++;
        assert_int_equal(n_inside, 1);
        (void)pthread_cond_broadcast(&changed);
        while (!released)
            (void)pthread_cond_wait(&changed, &lock);
        n_inside--;
    }
    n_done++;
    n_fetched += n;
    (void)pthread_cond_broadcast(&changed);
    (void)pthread_mutex_unlock(&lock);
}

static void one_that_hangs_holds_up_itself(void **state)
{
    zf_auto(source) struct zf_source *bad = far_away(1u << 20);
    zf_auto(source) struct zf_source *good = far_away(1u << 20);

    (void)state;
    hangs = bad;
    want_later(bad, 0, 10, fetch);
    (void)pthread_mutex_lock(&lock);
    while (!n_inside)
        (void)pthread_cond_wait(&changed, &lock);
    (void)pthread_mutex_unlock(&lock);
    /* More of it than there are threads; not neighbours, which become one. */
    for (uint64_t i = 1; i < 20; i++)
        want_later(bad, i * 100, 10, fetch);
    for (uint64_t i = 0; i < 20; i++)
        want_later(good, i * 100, 10, fetch);
    (void)pthread_mutex_lock(&lock);
    while (n_done < 20)
        (void)pthread_cond_wait(&changed, &lock);
    released = true;
    (void)pthread_cond_broadcast(&changed);
    while (n_done < 40)
        (void)pthread_cond_wait(&changed, &lock);
    (void)pthread_mutex_unlock(&lock);
    assert_int_equal(n_fetched, 400);
    /* The threads let go of the sources. */
    while (atomic_load(&bad->refs) > 1 || atomic_load(&good->refs) > 1)
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* What cannot be taken up is forgotten, and nobody waits for it. */
static void more_than_can_be_kept(void **state)
{
    zf_auto(source) struct zf_source *bad = far_away(1u << 20);

    (void)state;
    hangs = bad;
    released = false;
    n_done = 0;
    for (uint64_t i = 0; i < 5000; i++)
        want_later(bad, i * 100, 10, fetch);
    assert_true(atomic_load(&bad->refs) < 500);
    (void)pthread_mutex_lock(&lock);
    released = true;
    (void)pthread_cond_broadcast(&changed);
    (void)pthread_mutex_unlock(&lock);
    while (atomic_load(&bad->refs) > 1)
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    assert_true(n_done < 500);
}

/* ---- pieces ----------------------------------------------------------------------------------- */

#define PIECE 128u
#define N_PIECES 200u

static unsigned got[N_PIECES], most_inside;
static uint64_t wrong;

/* Of the one that hangs nothing ends before it is released. */
static void fetch_piece(struct zf_source *s, uint64_t off, uint64_t n)
{
    (void)pthread_mutex_lock(&lock);
    n_inside++;
    most_inside = n_inside > most_inside ? n_inside : most_inside;
    (void)pthread_cond_broadcast(&changed);
    while (s == hangs && !released)
        (void)pthread_cond_wait(&changed, &lock);
    if (s == hangs) {
        got[off / PIECE]++;
        wrong += off % PIECE + n != PIECE && off != 10 && off / PIECE != N_PIECES - 1;
        n_fetched += n;
    }
    n_inside--;
    n_done++;
    (void)pthread_cond_broadcast(&changed);
    (void)pthread_mutex_unlock(&lock);
}

static void await(const unsigned *count, unsigned n)
{
    (void)pthread_mutex_lock(&lock);
    while (*count < n)
        (void)pthread_cond_wait(&changed, &lock);
    (void)pthread_mutex_unlock(&lock);
}

/* Forty at once, each byte by one of them; another source's are fetched all the same. */
static void in_pieces_by_many(void **state)
{
    zf_auto(source) struct zf_source *bad = far_away(1u << 20);
    zf_auto(source) struct zf_source *good = far_away(1u << 20);
    const uint64_t n = (uint64_t)PIECE * N_PIECES - 10 - 5;

    (void)state;
    hangs = bad;
    released = false;
    n_inside = n_done = 0;
    n_fetched = 0;
    want_pieces(bad, 10, n, PIECE, fetch_piece);
    await(&n_inside, 40);
    want_pieces(good, 0, (uint64_t)PIECE * 3, PIECE, fetch_piece);
    await(&n_done, 3);
    want_later(good, 0, 10, fetch_piece);
    await(&n_done, 4);
    (void)pthread_mutex_lock(&lock);
    released = true;
    (void)pthread_cond_broadcast(&changed);
    (void)pthread_mutex_unlock(&lock);
    await(&n_done, 4 + N_PIECES);
    assert_int_equal(n_fetched, n);
    assert_int_equal(wrong, 0);
    assert_true(most_inside < 100);
    for (unsigned i = 0; i < N_PIECES; i++)
        assert_int_equal(got[i], 1);
    while (atomic_load(&bad->refs) > 1 || atomic_load(&good->refs) > 1)
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void waiting_is_noticed_by_who_watches(void **state)
{
    (void)state;
    assert_false(zf_want_watched());
    assert_false(zf_want_watch(true));
    assert_true(zf_want_watched());
    assert_false(zf_want_waited());
    zf_want_note_wait();
    assert_true(zf_want_waited());
    assert_false(zf_want_waited());
    zf_want_note_wait();
    assert_true(zf_want_watch(false));
    assert_false(zf_want_waited());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(through_what_stands_between),
        cmocka_unit_test(of_lost_bytes_only_what_is_there),
        cmocka_unit_test(items_before_and_behind_their_first_read),
        cmocka_unit_test(one_that_hangs_holds_up_itself),
        cmocka_unit_test(more_than_can_be_kept),
        cmocka_unit_test(in_pieces_by_many),
        cmocka_unit_test(waiting_is_noticed_by_who_watches),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
