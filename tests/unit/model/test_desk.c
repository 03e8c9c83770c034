/* SPDX-License-Identifier: Apache-2.0 */
/* Each desk is somebody's alone until it is given back, and then is used again by the same thread. */
#include "support/unit.h"

#include <pthread.h>

#include "model/desk.h"

#define MANY 5

static struct zf_err err;

static void each_is_alone(void **state)
{
    unsigned char *desk[MANY];

    (void)state;
    for (int i = 0; i < MANY; i++) {
        assert_ok(desk[i] = desk_take(&err), &err);
        memset(desk[i], i, DESK_BYTES);
    }
    for (int i = 0; i < MANY; i++) {
        for (size_t k = 0; k < DESK_BYTES; k++) {
            if (desk[i][k] != i) {
                fail_msg("byte %zu of desk %d was written to by another", k, i);
            }
        }
        desk_give(&desk[i]);
        assert_null(desk[i]);
    }
    desk_give(&desk[0]);
}

static void what_was_given_back_is_used_again(void **state)
{
    unsigned char *a = desk_take(&err), *b = desk_take(&err);
    const unsigned char *was[2] = {a, b};

    (void)state;
    desk_give(&a);
    desk_give(&b);
    a = desk_take(&err);
    b = desk_take(&err);
    assert_true((a == was[0] && b == was[1]) || (a == was[1] && b == was[0]));
    desk_give(&a);
    desk_give(&b);
}

static void *user(void *arg)
{
    struct zf_err e;

    *(bool *)arg = true;
    for (int i = 0; i < 100; i++) {
        zf_auto(desk) unsigned char *a = desk_take(&e);
        zf_auto(desk) unsigned char *b = desk_take(&e);

        memset(a, i, DESK_BYTES);
        memset(b, i + 1, DESK_BYTES);
        *(bool *)arg = *(bool *)arg && a[DESK_BYTES - 1] == i && b[0] == i + 1;
    }
    return NULL;
}

static void threads_have_their_own(void **state)
{
    pthread_t thread[4];
    bool ok[4];

    (void)state;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&thread[i], NULL, user, &ok[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(thread[i], NULL), 0);
        assert_true(ok[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_is_alone),
        cmocka_unit_test(what_was_given_back_is_used_again),
        cmocka_unit_test(threads_have_their_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
