/* SPDX-License-Identifier: Apache-2.0 */
/* Which reads make a stream, and what is asked for then. */
#include "support/unit.h"

#include "fs/ahead.h"
#include "support/random.h"

#define KIB 1024ull
#define MIB (1024 * KIB)
#define MOST (128 * MIB)
#define US 1000ll
#define MS (1000 * US)

static struct ahead a;
static int64_t now;
static uint64_t asked_to, asked;
static struct ahead_ask led; /* what the last read led through; n = 0: nothing */
static uint64_t led_in_all;
static uint64_t made_from, made_to; /* bytes to be computed ahead: the last hint */

static struct ahead_ask saw(uint64_t ino, uint64_t off, uint64_t n, bool waited, int64_t ns)
{
    const struct ahead_saw r = {
        .ino = ino, .off = off, .n = n, .waited = waited, .began = now - ns, .ended = now};
    struct ahead_ask ask = ahead_read(&a, &r);

    led = ask.how == ZF_PREFETCH_KERNEL ? ask : (struct ahead_ask){0};
    led_in_all += led.n;
    if (ask.how == ZF_PREFETCH_COMPUTED) {
        made_from = ask.off;
        made_to = ask.off + ask.n;
    }
    ask = ask.how == ZF_PREFETCH_ALL ? ask : (struct ahead_ask){0};
    asked += ask.n;
    asked_to = ask.n ? ask.off + ask.n : asked_to;
    return ask;
}

/* One read that took `ns`, behind the last one. */
static struct ahead_ask one(uint64_t ino, uint64_t off, uint64_t n, bool waited, int64_t ns)
{
    now += ns;
    return saw(ino, off, n, waited, ns);
}

static int set_up(void **state)
{
    (void)state;
    ahead_init(&a, MOST);
    asked = asked_to = led_in_all = made_from = made_to = 0;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    ahead_fini(&a);
    return 0;
}

static void test_what_never_waits_asks_for_nothing(void **state)
{
    (void)state;
    for (uint64_t off = 0; off < 256 * MIB; off += 128 * KIB)
        assert_int_equal(one(7, off, 128 * KIB, false, 1000).n, 0);
    assert_int_equal(led_in_all, 0);
}

/* Blocks that are computed are announced to a single reader, each byte once, at most 32 MiB ahead. */
static void test_what_never_waits_is_made_ahead(void **state)
{
    uint64_t end = 0;

    (void)state;
    for (uint64_t off = 0; off < 256 * MIB; off += 128 * KIB) {
        const uint64_t before = made_to;

        (void)one(7, off, 128 * KIB, false, 1000);
        if (made_to == before)
            continue;
        assert_true(end == 0 || made_from == end);
        assert_true(made_from >= off + 128 * KIB);
        end = made_to;
        assert_true(end <= off + 33 * MIB && end <= 2 * (off + 128 * KIB));
        assert_true(off < 64 * MIB || end >= off + 28 * MIB);
    }
    assert_true(end >= 256 * MIB);
}

static void test_several_have_nothing_made_ahead(void **state)
{
    (void)state;
    for (uint64_t off = 0; off < 64 * MIB; off += MIB) {
        (void)one(7, off, MIB, false, 1000);
        (void)one(8, off, MIB, false, 1000);
    }
    assert_int_equal(made_to, 0);
}

static void test_the_second_wait_opens(void **state)
{
    (void)state;
    assert_int_equal(one(7, 0, 128 * KIB, true, 10 * MS).n, 0);
    struct ahead_ask ask = one(7, 128 * KIB, 128 * KIB, true, 10 * MS);
    assert_int_equal(ask.off, 256 * KIB);
    assert_int_equal(ask.n, MIB);
}

/* Every byte behind the first reads is asked for once, in order and before it is read. */
static void test_asked_once_and_in_order(void **state)
{
    uint64_t end = 0;

    (void)state;
    for (uint64_t off = 0; off < 512 * MIB; off += 128 * KIB) {
        struct ahead_ask ask = one(7, off, 128 * KIB, true, 10 * MS);

        if (ask.n) {
            assert_true(end == 0 || ask.off == end);
            assert_true(ask.off >= off + 128 * KIB);
            end = ask.off + ask.n;
        }
        assert_true(off < 128 * KIB || end >= off + 256 * KIB);
    }
    assert_true(end <= 577 * MIB);
}

/* A quarter of the window is asked for as soon as it is free, not a read later. */
static void test_asked_by_quarters(void **state)
{
    unsigned asks = 0;

    (void)state;
    for (uint64_t off = 0; off < 32 * MIB; off += 128 * KIB) {
        struct ahead_ask ask = one(7, off, 128 * KIB, off < 256 * KIB, 10 * MS);

        if (ask.n)
            assert_int_equal(ask.n, asks++ == 0 ? MIB : MIB / 4);
    }
    assert_true(asks > 100);
}

static void test_slightly_out_of_order(void **state)
{
    uint64_t end = 0;

    (void)state;
    for (uint64_t off = 0; off < 64 * MIB; off += 512 * KIB) {
        static const uint64_t turn[] = {1, 0, 3, 2};

        for (size_t i = 0; i < 4; i++) {
            struct ahead_ask ask = one(7, off + turn[i] * 128 * KIB, 128 * KIB, true, MS);

            assert_true(ask.n == 0 || end == 0 || ask.off >= end);
            end = ask.n ? ask.off + ask.n : end;
        }
    }
    assert_true(end >= 64 * MIB);
}

/* Storage of half a byte a nanosecond: doubling brings nothing, so the window stays small. */
static void test_a_full_line_is_not_filled_more(void **state)
{
    (void)state;
    for (uint64_t off = 0; off < 256 * MIB; off += 128 * KIB) {
        struct ahead_ask ask = one(7, off, 128 * KIB, true, 256 * KIB);

        assert_true(ask.n <= 32 * MIB);
        assert_true(off > 64 * MIB || asked_to <= off + 5 * MIB);
    }
}

/* As long as twice as much is twice as fast, it grows, up to its share. */
static void test_latency_widens(void **state)
{
    uint64_t most = 0;

    (void)state;
    for (uint64_t off = 0; off < 1024 * MIB; off += 128 * KIB) {
        uint64_t ahead = asked_to > off ? asked_to - off : 128 * KIB;

        (void)one(7, off, 128 * KIB, true, (int64_t)(1e13 / (double)ahead));
        most = asked_to > off && asked_to - off > most ? asked_to - off : most;
    }
    assert_true(most >= 60 * MIB && most <= 66 * MIB);
}

static void test_all_streams_keep_to_the_bound(void **state)
{
    uint64_t to[32] = {0};

    (void)state;
    for (uint64_t off = 0; off < 256 * MIB; off += 128 * KIB) {
        uint64_t sum = 0;

        for (uint64_t i = 0; i < 32; i++) {
            struct ahead_ask ask = one(i + 1, off, 128 * KIB, true, MS);

            to[i] = ask.n ? ask.off + ask.n : to[i];
        }
        for (uint64_t i = 0; i < 32; i++)
            sum += to[i] > off ? to[i] - off : 0;
        assert_true(sum <= MOST + 32 * MIB);
    }
}

static void test_several_readers_of_one_file(void **state)
{
    (void)state;
    for (uint64_t off = 0; off < 8 * MIB; off += 128 * KIB) {
        (void)one(7, off, 128 * KIB, true, MS);
        (void)one(7, off + 1024 * MIB, 128 * KIB, true, MS);
    }
    assert_true(asked >= 16 * MIB);
}

static void test_jumps_get_nothing(void **state)
{
    static const uint64_t sizes[] = {4 * KIB, 16 * KIB, 128 * KIB};

    (void)state;
    for (uint64_t i = 0; i < 20000; i++) {
        uint64_t n = sizes[i % 3];

        (void)one(7, random_below(1024 * MIB / n) * n, n, true, MS);
    }
    /* By chance two may lie side by side. */
    assert_true(asked <= 40 * MIB);
    asked = 0;
    for (uint64_t off = 0; off < 1024 * MIB; off += 64 * KIB)
        (void)one(8, off, 4 * KIB, true, MS); /* a column */
    assert_int_equal(asked, 0);
    for (uint64_t off = 1024 * MIB; off >= 128 * KIB; off -= 128 * KIB)
        (void)one(9, off, 128 * KIB, true, MS); /* backwards */
    assert_int_equal(asked, 0);
    for (uint64_t i = 0; i < 1000; i++) {
        const uint64_t at = random_below(1000) * MIB;

        for (uint64_t k = 0; k < 3; k++)
            (void)one(10, at + k * MIB, MIB, true, MS); /* not slow for so many bytes */
    }
    assert_int_equal(led_in_all, 0);
}

/* The read that it jumped with counts among its reads: with the next one it is a stream that others do not push
 * out of sight. */
static void test_who_jumped_may_go_on(void **state)
{
    static const uint64_t jump[] = {0, 8, 20};

    (void)state;
    for (size_t i = 0; i < sizeof jump / sizeof *jump; i++)
        (void)one(7, jump[i] * KIB, 4 * KIB, false, US);
    (void)one(7, 36 * KIB, 4 * KIB, false, US); /* more is left out by now than was read */
    assert_int_equal(one(7, 40 * KIB, 4 * KIB, true, 20 * MS).n, 0);
    for (uint64_t i = 0; i < 20; i++)
        (void)one(100 + i, 0, 4 * KIB, false, US);
    struct ahead_ask ask = one(7, 44 * KIB, 4 * KIB, true, 20 * MS);
    assert_int_equal(ask.off, 48 * KIB);
    assert_int_equal(ask.n, MIB);
}

/* ---- fast storage ----------------------------------------------------------------------------- */

/* 2 GB/s, as one reader of the kernel's own reading ahead meets it: a read waits for 4 MiB, the next three for
 * nothing; every half a second the disk does something else for 7 ms. */
static void test_a_fast_disk_is_left_to_the_kernel(void **state)
{
    uint64_t end = 0;

    (void)state;
    for (uint64_t off = 0; off < 2048 * MIB; off += MIB) {
        const bool waits = off % (4 * MIB) == 0;

        assert_int_equal(one(7, off, MIB, waits,
                             off % (1024 * MIB) == 0 ? 7 * MS
                             : waits                 ? 2 * MS
                                                     : 80 * US)
                             .n,
                         0);
        /* but it is led on, in one piece, no farther than 32 MiB and than the reader has come */
        if (led.n) {
            assert_true(end == 0 || led.off == end);
            assert_true(led.off >= off + MIB);
            end = led.off + led.n;
            assert_true(end <= off + 33 * MIB && end <= 2 * (off + MIB));
        }
        assert_true(off < 64 * MIB || end >= off + 28 * MIB);
    }
    assert_true(end >= 2048 * MIB);
}

/* Who waited once only may have had bad luck. */
static void test_one_wait_leads_nobody(void **state)
{
    (void)state;
    for (uint64_t off = 0; off < 256 * MIB; off += MIB)
        (void)one(7, off, MIB, off == 8 * MIB, 2 * MS);
    assert_int_equal(led_in_all, 0);
    (void)one(7, 256 * MIB, MIB, true, 2 * MS);
    assert_int_equal(led.off, 257 * MIB);
    assert_int_equal(led.n, 32 * MIB);
}

/* Then who is left goes on alone. */
static void test_several_are_not_led(void **state)
{
    (void)state;
    for (uint64_t off = 0; off < 256 * MIB; off += MIB) {
        (void)one(7, off, MIB, true, MS);
        (void)one(8, off, MIB, true, MS);
    }
    assert_int_equal(led_in_all, 0);
    for (uint64_t off = 256 * MIB; off < 512 * MIB; off += MIB)
        (void)one(7, off, MIB, true, MS);
    assert_in_range(led_in_all, 240 * MIB, 288 * MIB);
}

/* Four readers that wait at the same time for the same disk do not make it slower. */
static void test_waiting_together_counts_once(void **state)
{
    (void)state;
    for (uint64_t off = 0; off < 256 * MIB; off += MIB) {
        now += 2 * MS;
        for (uint64_t i = 0; i < 4; i++)
            assert_int_equal(saw(7 + i, off, MIB, true, 2 * MS).n, 0);
    }
    /* A quarter of that is slow, and all of them are told. */
    for (uint64_t off = 256 * MIB; off < 512 * MIB; off += MIB) {
        now += 8 * MS;
        for (uint64_t i = 0; i < 4; i++)
            (void)saw(7 + i, off, MIB, true, 8 * MS);
    }
    assert_true(asked >= 4 * 240 * MIB);
}

static void test_what_is_in_memory_does_not_make_storage_fast(void **state)
{
    uint64_t other = 0;

    (void)state;
    for (uint64_t off = 0; off < 16 * MIB; off += 128 * KIB) {
        (void)one(7, off, 128 * KIB, true, 2 * MS);
        for (uint64_t i = 0; i < 10; i++, other += MIB)
            assert_int_equal(one(8, other, MIB, false, US).n, 0);
    }
    assert_true(asked >= 15 * MIB);
}

/* Once nobody waits any more it is soon left off, and begun again when they do; nothing is asked for
 * twice. */
static void test_left_off_and_begun_again(void **state)
{
    uint64_t end = 0, off = 0;

    (void)state;
    for (int turn = 0; turn < 3; turn++) {
        const uint64_t slow = off + 8 * MIB, fast = slow + 256 * MIB;

        for (; off < slow; off += 128 * KIB) {
            struct ahead_ask ask = one(7, off, 128 * KIB, true, 10 * MS);

            assert_true(ask.n == 0 || ask.off >= end);
            end = ask.n ? ask.off + ask.n : end;
        }
        assert_true(end > slow);
        for (; off < fast; off += 128 * KIB) {
            struct ahead_ask ask = one(7, off, 128 * KIB, false, US);

            end = ask.n ? ask.off + ask.n : end;
        }
        assert_true(end < slow + 80 * MIB);
    }
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(test_what_never_waits_asks_for_nothing),
        T(test_what_never_waits_is_made_ahead),
        T(test_several_have_nothing_made_ahead),
        T(test_the_second_wait_opens),
        T(test_asked_once_and_in_order),
        T(test_asked_by_quarters),
        T(test_slightly_out_of_order),
        T(test_a_full_line_is_not_filled_more),
        T(test_latency_widens),
        T(test_all_streams_keep_to_the_bound),
        T(test_several_readers_of_one_file),
        T(test_jumps_get_nothing),
        T(test_who_jumped_may_go_on),
        T(test_a_fast_disk_is_left_to_the_kernel),
        T(test_one_wait_leads_nobody),
        T(test_several_are_not_led),
        T(test_waiting_together_counts_once),
        T(test_what_is_in_memory_does_not_make_storage_fast),
        T(test_left_off_and_begun_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
