/* SPDX-License-Identifier: Apache-2.0 */
/* What is wrong with packed pieces, to the byte: random pieces against a count of how often each byte is covered. */
#include <stdlib.h>

#include "support/unit.h"

#include "model/map_flat.h"

enum { SIZE = 40, MOST = 8 };

/* The bytes that pieces a and b have in common. */
static bool common(const struct flat_piece *a, const struct flat_piece *b, uint64_t *first,
                   uint64_t *last)
{
    uint64_t a_end = a->first + a->len, b_end = b->first + b->len;

    *first = a->first > b->first ? a->first : b->first;
    *last = (a_end < b_end ? a_end : b_end) - 1;
    return *first <= *last;
}

static void check(const struct flat_piece *piece, uint64_t n)
{
    struct flat_piece p[MOST];
    unsigned count[SIZE] = {0};
    uint64_t wrong = 0, end, first, last;
    bool found = false;

    for (uint64_t i = 0; i < n; i++) {
        p[i] = piece[i];
        for (uint64_t k = 0; k < p[i].len; k++)
            count[p[i].first + k]++;
    }
    struct fault f = flat_prove(p, n, SIZE);
    while (wrong < SIZE && count[wrong] == 1)
        wrong++;
    if (wrong == SIZE) {
        assert_int_equal(f.kind, ZF_FAULT_NONE);
        return;
    }
    assert_int_equal(f.first, wrong);
    if (count[wrong] == 0) {
        for (end = wrong; end < SIZE && count[end] == 0;)
            end++;
        assert_int_equal(f.kind, ZF_FAULT_HOLE);
        assert_int_equal(f.last, end - 1);
        return;
    }
    assert_int_equal(f.kind, ZF_FAULT_TWICE);
    for (uint64_t i = 0; i < n; i++) {
        for (uint64_t k = 0; k < i; k++) {
            found |=
                common(&piece[i], &piece[k], &first, &last) && first == f.first && last == f.last;
        }
    }
    /* or three pieces meet there, and it is one of them with both others */
    for (uint64_t k = f.first; k <= f.last; k++)
        assert_true(k < SIZE && count[k] > 1);
    assert_true(found || count[wrong] > 2 || count[f.last] > 2);
}

static uint64_t below(uint64_t n)
{
    return (uint64_t)rand() % n;
}

static void random_pieces(void **state)
{
    (void)state;
    srand(1);
    for (int round = 0; round < 50000; round++) {
        struct flat_piece p[MOST];
        uint64_t n = 0;

        /* pieces that tile, then perhaps one that is shifted, longer, gone, or there again */
        for (uint64_t at = 0; at < SIZE && n < MOST - 1; at += p[n++].len) {
            uint64_t len = n == MOST - 2 ? SIZE - at : 1 + below(12);

            p[n] = (struct flat_piece){.first = at, .len = at + len > SIZE ? SIZE - at : len};
        }
        uint64_t i = below(n);
        switch (below(5)) {
        case 0:
            p[i].first -= p[i].first > 0;
            break;
        case 1:
            p[i].len += p[i].first + p[i].len < SIZE;
            break;
        case 2:
            p[i] = p[--n];
            break;
        case 3:
            p[n++] = p[i];
            break;
        default:
            break;
        }
        for (uint64_t k = n; k-- > 1;) {
            uint64_t with = below(k + 1);
            struct flat_piece x = p[k];

            p[k] = p[with];
            p[with] = x;
        }
        check(p, n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_pieces),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
