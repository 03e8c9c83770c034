/* SPDX-License-Identifier: Apache-2.0 */
/* How much is read to keep the kernel reading ahead, and where. */
#include "support/unit.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include <zf/source/want.h>

#include "source/file_self.h"
#include "unit/source/scratch.h"

#define KIB 1024ull
#define MIB (1024 * KIB)

/* Bytes that this process has read by system calls, and those of a look at that. */
static uint64_t bytes_read(void)
{
    unsigned long long n = 0;
    FILE *f = fopen("/proc/self/io", "re");

    if (!f || fscanf(f, "rchar: %llu", &n) != 1)
        skip(); /* a kernel that does not count */
    assert_int_equal(fclose(f), 0);
    return n;
}

static uint64_t look; /* bytes that a look reads */

static int empty_file(void **state, uint64_t size)
{
    char path[4200];

    scratch_path(*state, "a", path);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)size), 0);
    const uint64_t before = bytes_read();
    look = bytes_read() - before;
    return fd;
}

/* lead reads so many bytes, or a few more, where the numbers that a look reads have become longer. */
static void assert_reads(uint64_t bytes, int fd, struct lead *l, uint64_t off, uint64_t n)
{
    const uint64_t before = bytes_read();

    lead(fd, l, off, n);
    assert_in_range(bytes_read() - before - look, bytes, bytes + 8);
}

static void begins_like_a_reader_and_goes_on_by_single_bytes(void **state)
{
    struct lead l = {0};
    int fd = empty_file(state, 256 * MIB);

    assert_reads(2 * MIB + 48, fd, &l, 5000, 8 * MIB);
    assert_int_equal(l.next, 5000 + 8 * MIB);
    /* What goes on, or leaves out a little, is no beginning. */
    assert_reads(32, fd, &l, 5000 + 8 * MIB, 4 * MIB);
    assert_reads(36, fd, &l, 5000 + 12 * MIB + 512 * KIB, 4 * MIB);
    /* Nor is what was led through already. */
    assert_reads(0, fd, &l, 5000 + 14 * MIB, MIB);
    assert_int_equal(close(fd), 0);
}

static void begins_anew_elsewhere(void **state)
{
    struct lead l = {0};
    int fd = empty_file(state, 256 * MIB);

    lead(fd, &l, 100 * MIB, 4 * MIB);
    assert_reads(2 * MIB + 16, fd, &l, 200 * MIB, 4 * MIB);
    assert_reads(2 * MIB + 16, fd, &l, 0, 4 * MIB);
    assert_int_equal(close(fd), 0);
}

/* A piece that is small costs what it has: in a save of a thousand ranks each is in another file. */
static void no_more_than_was_named(void **state)
{
    struct lead l = {0};
    int fd = empty_file(state, 256 * MIB);

    assert_reads(256 * KIB, fd, &l, 64 * MIB, 200 * KIB);
    assert_reads(2, fd, &l, 64 * MIB + 200 * KIB, 312 * KIB); /* its neighbour */
    /* Behind the file's end is nothing. */
    assert_reads(10, fd, &l, 256 * MIB - 10, 10);
    assert_int_equal(close(fd), 0);
}

/* Through a source: by another thread, and WILLNEED reads nothing. */
static void a_file_is_led_through(void **state)
{
    struct zf_err err;

    assert_int_equal(close(empty_file(state, 64 * MIB)), 0);
    zf_auto(store) struct zf_store *st = scratch_store(*state, 8);
    zf_auto(source) struct zf_source *a = zf_store_open(st, "a", &err);
    assert_ok(a, &err);
    const unsigned refs = atomic_load(&a->refs);
    const uint64_t before = bytes_read();

    for (enum zf_prefetch how = ZF_PREFETCH_ALL; how <= ZF_PREFETCH_KERNEL; how++) {
        zf_source_want(a, 0, 4 * MIB, how);
        while (atomic_load(&a->refs) > refs)
            (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        const uint64_t least = how == ZF_PREFETCH_KERNEL ? 2 * MIB : 0;
        assert_in_range(bytes_read() - before, least, least + 64 * KIB);
    }
    /* Where answers are quick nobody is asked to fetch what is read next. */
    const uint64_t led = bytes_read();
    zf_source_want(a, 32 * MIB, 4 * MIB, ZF_PREFETCH_NOW);
    assert_int_equal(atomic_load(&a->refs), refs);
    assert_in_range(bytes_read() - led, 0, 64 * KIB);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, scratch_setup, scratch_teardown)
    const struct CMUnitTest tests[] = {
        T(begins_like_a_reader_and_goes_on_by_single_bytes),
        T(begins_anew_elsewhere),
        T(no_more_than_was_named),
        T(a_file_is_led_through),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
