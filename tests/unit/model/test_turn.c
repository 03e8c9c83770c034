/* SPDX-License-Identifier: Apache-2.0 */
/* Every small matrix against a plain loop, at any alignment, and with what is round it left alone. */
#include "support/unit.h"

#include <stdlib.h>

#include "model/box.h"

#define SIDE 37               /* two squares of 16 and five more */
#define PITCH (SIDE * 8 + 24) /* whole lines of 64 bytes */
#define BYTES (SIDE * PITCH + 64)

static unsigned char from[BYTES];
_Alignas(64) static unsigned char to[BYTES], want[BYTES];

static void turn_slowly(const struct turn *t, size_t bytes)
{
    for (size_t r = 0; r < t->rows; r++) {
        for (size_t c = 0; c < t->cols; c++)
            for (size_t i = 0; i < bytes; i++)
                t->to[r * t->to_pitch + c * bytes + i] = t->from[c * t->from_pitch + r * bytes + i];
    }
}

/* Turns both ways; nothing else of `to` changes. */
static void turn_and_compare(struct turn t, size_t at, size_t bytes)
{
    memset(to, 0xa5, sizeof to);
    memset(want, 0xa5, sizeof want);
    t.to = to + at;
    turn_matrix(&t, bytes);
    t.to = want + at;
    turn_slowly(&t, bytes);
    if (memcmp(to, want, sizeof to) != 0)
        fail_msg("%zu rows, %zu columns of %zu bytes%s", t.rows, t.cols, bytes,
                 t.past ? ", past the caches" : "");
}

/* bytes: of an element.  Pitches and places change from one matrix to the next; those of whole lines may be written past
 * the caches. */
static void turn_all_shapes(size_t bytes)
{
    unsigned n = 0;

    for (size_t rows = 0; rows <= SIDE; rows++) {
        for (size_t cols = 0; cols <= SIDE; cols++, n++) {
            struct turn t = {.from = from + n / 3 % 19,
                             .to_pitch = cols * bytes + n % 12,
                             .from_pitch = rows * bytes + n / 5 % 12,
                             .rows = rows,
                             .cols = cols,
                             .past = n % 2};

            turn_and_compare(t, n % 17, bytes);
            t.past = true;
            t.to_pitch = (cols * bytes + 63) / 64 * 64;
            turn_and_compare(t, n % 3 ? 0 : 16, bytes);
        }
    }
}

static void every_small_matrix(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (unsigned char)((i * 0x9e3779b97f4a7c15u) >> 56);
    for (size_t bytes = 1; bytes <= 8; bytes *= 2) {
        assert_true(turn_can(bytes));
        turn_all_shapes(bytes);
    }
}

static void other_elements_are_refused(void **state)
{
    (void)state;
    for (uint64_t bytes = 0; bytes < 64; bytes++)
        assert_int_equal(turn_can(bytes), bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8);
    assert_false(turn_can(1ull << 32 | 4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_small_matrix),
        cmocka_unit_test(other_elements_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
