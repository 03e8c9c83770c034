/* SPDX-License-Identifier: Apache-2.0 */
/* The reply buffers of the serving threads. */
#include "support/unit.h"

#include <pthread.h>

#include "fs/buffer.h"

static void is_aligned_and_holds_what_was_asked_for(void **state)
{
    (void)state;
    for (size_t n = 1; n <= 5u << 20; n = n * 3 + 1) {
        char *p = buffer_get(n);

        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 4096, 0);
        memset(p, 1, n);
    }
}

static void is_kept_until_more_is_needed(void **state)
{
    (void)state;
    void *p = buffer_get(9u << 20);

    assert_ptr_equal(buffer_get(1), p);
    assert_ptr_equal(buffer_get(9u << 20), p);
    assert_ptr_equal(buffer_get(100), p);
}

static void *get(void *mine)
{
    void *p = buffer_get(100);

    return p && p != mine && buffer_get(200) == p ? p : NULL;
}

static void is_its_threads_own(void **state)
{
    pthread_t thread;
    void *theirs;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, get, buffer_get(100)), 0);
    assert_int_equal(pthread_join(thread, &theirs), 0);
    assert_non_null(theirs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_aligned_and_holds_what_was_asked_for),
        cmocka_unit_test(is_kept_until_more_is_needed),
        cmocka_unit_test(is_its_threads_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
