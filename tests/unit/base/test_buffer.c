/* SPDX-License-Identifier: Apache-2.0 */
/* The buffers that all threads share. */
#include "support/unit.h"

#include <pthread.h>
#include <stdlib.h>

#include <zf/base/buffer.h>

static unsigned made;

/* In front of libc's: counts. */
void *aligned_alloc(size_t align, size_t n)
{
    void *p = NULL;

    made++;
    return posix_memalign(&p, align, n) == 0 ? p : NULL;
}

static void is_aligned_and_holds_what_was_asked_for(void **state)
{
    (void)state;
    for (size_t n = 1; n <= 5u << 20; n = n * 3 + 1) {
        zf_auto(buffer) struct zf_buffer *b = zf_buffer_take(n);

        assert_non_null(b);
        assert_int_equal((uintptr_t)b->at % 4096, 0);
        assert_true(b->cap >= n);
        memset(b->at, 1, n);
    }
}

static void is_kept_until_more_is_needed(void **state)
{
    struct zf_buffer *b = zf_buffer_take(9u << 20);
    char *at = b->at;

    (void)state;
    for (size_t n = 1; n <= 9u << 20; n = n * 5 + 3) {
        zf_buffer_give(b);
        b = zf_buffer_take(n);
        assert_ptr_equal(b->at, at);
    }
    zf_buffer_give(b);
}

static void what_came_back_last_goes_out_first(void **state)
{
    struct zf_buffer *a = zf_buffer_take(100), *b = zf_buffer_take(100), *c = zf_buffer_take(100);

    (void)state;
    assert_true(a->at != b->at && b->at != c->at && a->at != c->at);
    zf_buffer_give(c);
    zf_buffer_give(a);
    zf_buffer_give(b);
    assert_ptr_equal(zf_buffer_take(100), b);
    assert_ptr_equal(zf_buffer_take(100), a);
    zf_buffer_give(a);
    assert_ptr_equal(zf_buffer_take(100), a);
    zf_buffer_give(a);
    zf_buffer_give(b);
    zf_buffer_give(NULL);
}

/* Many are out at once when storage hangs; most of that memory is given back afterwards. */
static void not_many_are_kept(void **state)
{
    struct zf_buffer *b[100];

    (void)state;
    for (int round = 0; round < 2; round++) {
        made = 0;
        for (size_t i = 0; i < 100; i++) {
            b[i] = zf_buffer_take(100);
            assert_non_null(b[i]);
        }
        assert_in_range(made, 80, 100);
        for (size_t i = 0; i < 100; i++)
            zf_buffer_give(b[i]);
    }
}

/* No two threads ever have the same one. */
static void *fill(void *arg)
{
    const char mine = *(const char *)arg;

    for (int i = 0; i < 2000; i++) {
        zf_auto(buffer) struct zf_buffer *b = zf_buffer_take(64);

        memset(b->at, mine, 64);
        for (size_t k = 0; k < 64; k++)
            if (b->at[k] != mine)
                return arg;
    }
    return NULL;
}

static void is_lent_to_one_at_a_time(void **state)
{
    static char names[] = "abcdefghijklmnopqrst";
    pthread_t thread[sizeof names - 1];

    (void)state;
    for (size_t i = 0; names[i]; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, fill, &names[i]), 0);
    for (size_t i = 0; names[i]; i++) {
        void *bad;

        assert_int_equal(pthread_join(thread[i], &bad), 0);
        assert_null(bad);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_aligned_and_holds_what_was_asked_for),
        cmocka_unit_test(is_kept_until_more_is_needed),
        cmocka_unit_test(what_came_back_last_goes_out_first),
        cmocka_unit_test(not_many_are_kept),
        cmocka_unit_test(is_lent_to_one_at_a_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
