/* SPDX-License-Identifier: Apache-2.0 */
/* The small sources: memory, windows, swapped, lost and faulty bytes, and the door in front of
 * them. */
#include "support/unit.h"
#include "support/fault.h"

#include <limits.h>
#include <stdlib.h>

#include <zf/source/source.h>

#define SIZE 64

static uint8_t bytes[SIZE];

static int fill(void **state)
{
    (void)state;
    for (int i = 0; i < SIZE; i++)
        bytes[i] = (uint8_t)(i * 7 + 1);
    return 0;
}

static struct zf_source *memory(void)
{
    struct zf_err err;
    struct zf_source *s = zf_mem_new("mem", bytes, SIZE, false, &err);

    assert_ok(s, &err);
    return s;
}

static void refuses_what_is_not_inside(void **state)
{
    struct zf_err err;
    uint8_t buf[SIZE + 1];

    (void)state;
    zf_auto(source) struct zf_source *s = memory();
    assert_true(zf_source_pread(s, buf, SIZE, 0, &err));
    assert_memory_equal(buf, bytes, SIZE);
    assert_true(zf_source_pread(s, NULL, 0, SIZE, &err));
    assert_false(zf_source_pread(s, buf, SIZE + 1, 0, &err));
    assert_err(&err, ZF_E_IO, 0, "65 bytes are needed here, but only 64");
    assert_string_equal(err.path, "mem");
    assert_false(zf_source_pread(s, buf, 1, SIZE, &err));
    assert_false(zf_source_pread(s, buf, 2, UINT64_MAX, &err));
    assert_int_equal(err.code, ZF_E_IO);

    struct iovec huge[2] = {{buf, SIZE_MAX}, {buf, SIZE_MAX}};
    assert_false(zf_source_preadv(s, huge, 2, 0, &err));
    assert_int_equal(err.code, ZF_E_IO);
}

static void windows_have_bounds(void **state)
{
    struct zf_err err;
    uint8_t buf[SIZE];

    (void)state;
    zf_auto(source) struct zf_source *s = memory();
    for (uint64_t off = 0; off <= SIZE; off++) {
        for (uint64_t len = 0; off + len <= SIZE; len++) {
            zf_auto(source) struct zf_source *w = zf_window_new(s, off, len, NULL, &err);

            assert_ok(w, &err);
            assert_true(zf_source_pread(w, buf, len, 0, &err));
            assert_memory_equal(buf, bytes + off, len);
            assert_false(zf_source_pread(w, buf, len + 1, 0, &err));
        }
        assert_null(zf_window_new(s, off, SIZE - off + 1, NULL, &err));
        assert_err(&err, ZF_E_FORMAT, off, "only 64 exist");
    }
    assert_null(zf_window_new(s, UINT64_MAX, 2, NULL, &err));
}

static void windows_on_windows_know_their_origin(void **state)
{
    struct zf_err err;
    uint64_t off = 3;
    uint8_t b;

    (void)state;
    struct zf_source *s = memory();
    struct zf_source *a = zf_window_new(s, 10, 50, "a", &err);
    zf_auto(source) struct zf_source *b_in_a = zf_window_new(a, 5, 20, "b", &err);
    zf_source_unref(&a);
    assert_string_equal(b_in_a->name, "mem!a!b");
    assert_ptr_equal(zf_source_origin(b_in_a, &off), s);
    assert_int_equal(off, 18);
    zf_source_unref(&s);
    assert_true(zf_source_pread(b_in_a, &b, 1, 3, &err));
    assert_int_equal(b, bytes[18]);
}

/* More pieces than one preadv(2) takes, some of them empty. */
static void scatters_over_many_pieces(void **state)
{
    enum { N = IOV_MAX * 2 + 5 };
    struct zf_err err;
    struct iovec *iov = calloc(N, sizeof *iov);
    uint8_t *from = malloc(N), *to = calloc(1, N);
    size_t at = 0;

    (void)state;
    assert_non_null(iov);
    for (size_t i = 0; i < N; i++) {
        from[i] = (uint8_t)(i * 31 >> 3);
        iov[i].iov_base = to + at;
        iov[i].iov_len = i % 3 == 0 ? 0 : 1;
        at += iov[i].iov_len;
    }
    zf_auto(source) struct zf_source *s = zf_mem_new("", from, N, true, &err);
    zf_auto(source) struct zf_source *w = zf_window_new(s, 2, at, NULL, &err);
    assert_ok(zf_source_preadv(w, iov, N, 0, &err), &err);
    assert_memory_equal(to, from + 2, at);
    free(to);
    free(iov);
}

static void swaps_elements_at_any_offset(void **state)
{
    struct zf_err err;
    uint8_t want[SIZE], got[SIZE];

    (void)state;
    zf_auto(source) struct zf_source *s = memory();
    for (uint32_t width = 2; width <= 16; width *= 2) {
        zf_auto(source) struct zf_source *w = zf_swap_new(s, width, &err);

        assert_ok(w, &err);
        for (size_t i = 0; i < SIZE; i++)
            want[i] = bytes[i / width * width + (width - 1 - i % width)];
        for (size_t off = 0; off < SIZE; off++) {
            for (size_t n = 0; off + n <= SIZE; n++) {
                memset(got, 0, sizeof got);
                assert_true(zf_source_pread(w, got, n, off, &err));
                assert_memory_equal(got, want + off, n);
            }
        }
    }
    zf_auto(source) struct zf_source *odd = zf_window_new(s, 0, 7, NULL, &err);
    assert_null(zf_swap_new(odd, 2, &err));
    assert_int_equal(err.code, ZF_E_FORMAT);
    assert_null(zf_swap_new(s, 3, &err));
    assert_int_equal(err.code, ZF_E_USAGE);
}

static void lost_bytes_say_why(void **state)
{
    struct zf_err err;
    uint8_t b;

    (void)state;
    zf_auto(source) struct zf_source *s = zf_lost_new(8, "rank 3 of 100% is missing", &err);
    assert_true(zf_source_pread(s, &b, 0, 8, &err));
    assert_false(zf_source_pread(s, &b, 1, 0, &err));
    assert_err(&err, ZF_E_IO, ZF_OFF_NONE, "rank 3 of 100% is missing");
    assert_int_equal(zf_err_errno(&err), 5);
}

/* Exactly the reads that touch the bad spot fail, whatever stands in between. */
static void faults_travel(void **state)
{
    struct zf_err err;
    uint8_t buf[SIZE];

    (void)state;
    zf_auto(source) struct zf_source *s = memory();
    for (uint64_t bad = 0; bad < SIZE; bad++) {
        zf_auto(source) struct zf_source *f = fault_new(s, bad, 2, &err);
        zf_auto(source) struct zf_source *w = zf_window_new(f, 0, SIZE, "w", &err);
        zf_auto(source) struct zf_source *t = zf_swap_new(w, 2, &err);

        for (uint64_t off = 0; off < SIZE; off++) {
            for (uint64_t n = 1; off + n <= SIZE; n += 5) {
                bool hit = off < bad + 2 && bad < off + n;
                uint64_t first = off / 2 * 2, last = (off + n + 1) / 2 * 2;
                struct iovec iov[2] = {{buf, n / 2}, {buf + n / 2, n - n / 2}};

                assert_int_equal(zf_source_pread(w, buf, n, off, &err), !hit);
                assert_int_equal(zf_source_preadv(w, iov, 2, off, &err), !hit);
                hit = first < bad + 2 && bad < last;
                assert_int_equal(zf_source_pread(t, buf, n, off, &err), !hit);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_what_is_not_inside),
        cmocka_unit_test(windows_have_bounds),
        cmocka_unit_test(windows_on_windows_know_their_origin),
        cmocka_unit_test(scatters_over_many_pieces),
        cmocka_unit_test(swaps_elements_at_any_offset),
        cmocka_unit_test(lost_bytes_say_why),
        cmocka_unit_test(faults_travel),
    };

    return cmocka_run_group_tests(tests, fill, NULL);
}
