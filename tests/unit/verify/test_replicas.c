/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of two sides of a copy: equal however the files are cut, and not equal for any byte that differs, as memcmp has it. */
#include "support/unit.h"

#include "../../../src/verify/checks.h"
#include "support/random.h"

#define SIZE 5000u
#define BEHIND 16u

static const struct zf_source *const file[2] = {(const struct zf_source *)&file[0],
                                                (const struct zf_source *)&file[1]};

static struct replicas two(uint64_t off0, uint64_t off1, uint64_t n)
{
    static struct replicas_range range[2];
    static uint32_t of[2] = {0, 1};
    struct replicas t = {.key = {0x123456789abcdef, 0xfedcba987654321}};

    range[0] = (struct replicas_range){.file = file[0], .off = off0, .n = n, .reach = off0 + n};
    range[1] = (struct replicas_range){.file = file[1], .off = off1, .n = n, .reach = off1 + n};
    t.range.at = range;
    t.range.n = 2;
    t.of.at = of;
    t.of.n = 2;
    return t;
}

/* A file in pieces of any length. */
static void read_all(struct replicas *t, int which, const uint8_t *p)
{
    struct zf_err err;

    for (uint64_t at = 0, end; at < SIZE; at = end) {
        replicas_parts parts = {0};

        end = at + 1 + random_below(random_below(4) ? 700 : 6);
        end = end < SIZE ? end : SIZE;
        assert_ok(replicas_add(t, file[which], p + at, at, end, &parts, &err), &err);
        replicas_join(t, &parts);
        zf_vec_fini(&parts);
    }
}

static void sums_are_those_of_bytes(void **state)
{
    (void)state;
    static uint8_t a[SIZE + BEHIND], b[SIZE + BEHIND];

    for (int i = 0; i < 3000; i++) {
        const uint64_t n = 1 + random_below(i % 2 ? 40 : SIZE), x = random_below(SIZE - n + 1),
                       y = random_below(SIZE - n + 1);
        struct replicas t = two(x, y, n);

        for (uint32_t k = 0; k < SIZE; k++) {
            a[k] = (uint8_t)random_below(256);
            b[k] = (uint8_t)random_below(256);
        }
        (void)memcpy(b + y, a + x, n);
        if (random_below(2))
            b[y + random_below(n)] ^= (uint8_t)(1u << random_below(8));
        if (random_below(8) == 0 && n > 8) { /* two words change places */
            (void)memcpy(b + y, a + x + 4, 4);
            (void)memcpy(b + y + 4, a + x, 4);
        }
        read_all(&t, 0, a);
        assert_false(replicas_equal(&t, 0)); /* the other is not read */
        read_all(&t, 1, b);
        assert_int_equal(replicas_equal(&t, 0), memcmp(a + x, b + y, n) == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums_are_those_of_bytes)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
