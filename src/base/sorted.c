/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/base/sorted.h>

#include <assert.h>
#include <string.h>

#include <zf/base/search.h>
#include <zf/base/vec.h>

#define TAIL 32u /* elements that may be unsorted */

static int sorted_order(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static int sorted_order_pairs(const void *a, const void *b)
{
    const int first = sorted_order(a, b);

    return first ? first : sorted_order((const uint64_t *)a + 1, (const uint64_t *)b + 1);
}

static size_t sorted_words(const struct zf_sorted *s)
{
    return s->pairs ? 2 : 1;
}

/* Sorts the elements [from, n), each once. */
static void sorted_from(struct zf_sorted *s, size_t from)
{
    const size_t words = sorted_words(s), each = words * sizeof *s->at;
    size_t n = from;

    if (from == s->n)
        return;
    qsort(s->at + from * words, s->n - from, each, s->pairs ? sorted_order_pairs : sorted_order);
    for (size_t i = from; i < s->n; i++)
        if (i == from || memcmp(s->at + (n - 1) * words, s->at + i * words, each) != 0)
            memmove(s->at + n++ * words, s->at + i * words, each);
    s->n = n;
}

static void sorted_finish(struct zf_sorted *s)
{
    if (!s->is_sorted && s->n) {
        sorted_from(s, 0);
        s->is_sorted = true;
        s->n_runs = 1;
        s->run[0] = s->n;
        s->asked = 0;
    }
}

/* Makes the unsorted end a part of its own, together with those in front of it that are less than twice as long,
 * so that each is more than twice as long as the next. */
static void sorted_close_run(struct zf_sorted *s)
{
    size_t from = s->n_runs ? s->run[s->n_runs - 1] : 0;

    while (s->n_runs && from - (s->n_runs > 1 ? s->run[s->n_runs - 2] : 0) <= 2 * (s->n - from)) {
        s->n_runs--;
        from = s->n_runs ? s->run[s->n_runs - 1] : 0;
    }
    sorted_from(s, from);
    s->run[s->n_runs++] = s->n;
}

/* Room for one more.  Hashes that were added again and again are dropped before the set grows; pairs rarely are. */
static bool sorted_room(struct zf_sorted *s, struct zf_err *err)
{
    if (s->n == s->cap && !s->pairs)
        sorted_finish(s);
    if (s->n >= s->cap / 2) {
        void *at = zf_vec_grow(s->at, s->n, s->cap - s->n + 1, &s->cap,
                               sorted_words(s) * sizeof *s->at, err);
        if (!at)
            return false;
        s->at = at;
    }
    return true;
}

bool zf_sorted_add(struct zf_sorted *s, uint64_t v, struct zf_err *err)
{
    assert(s->n == 0 || !s->pairs);
    if (s->n == s->cap && !sorted_room(s, err))
        return false;
    s->at[s->n++] = v;
    s->is_sorted = false;
    return true;
}

bool zf_sorted_add_pair(struct zf_sorted *s, uint64_t first, uint64_t second, struct zf_err *err)
{
    assert(s->n == 0 || s->pairs);
    s->pairs = true;
    if (s->n == s->cap && !sorted_room(s, err))
        return false;
    s->at[2 * s->n] = first;
    s->at[2 * s->n++ + 1] = second;
    s->is_sorted = false;
    return true;
}

/* The first element of [from, end) whose first word is `first` or more. */
static size_t sorted_least(const struct zf_sorted *s, size_t from, size_t end, uint64_t first)
{
    const size_t words = sorted_words(s);

    size_t i;

    ZF_SEARCH(i, end - from, s->at[(from + i) * words] >= first);
    return from + i;
}

size_t zf_sorted_find(struct zf_sorted *s, uint64_t first, size_t *at_out)
{
    const size_t words = sorted_words(s);

    sorted_finish(s);
    size_t end = *at_out = sorted_least(s, 0, s->n, first);
    while (end < s->n && s->at[end * words] == first)
        end++;
    return end - *at_out;
}

bool zf_sorted_next(struct zf_sorted *s, uint64_t from, uint64_t to, struct zf_sorted_at *at,
                    uint64_t *out)
{
    if (at->run == 0 && at->i == 0) {
        s->asked = s->is_sorted ? 0 : s->asked + 1;
        if (s->asked > s->n / 4)
            sorted_finish(s);
        else if (s->n - (s->n_runs ? s->run[s->n_runs - 1] : 0) >= TAIL)
            sorted_close_run(s);
    }
    for (; at->run < s->n_runs; at->run++, at->i = 0) {
        size_t begin = at->run ? s->run[at->run - 1] : 0, end = s->run[at->run];

        at->i = at->i ? at->i : sorted_least(s, begin, end, from) + 1;
        if (at->i <= end && s->at[at->i - 1] <= to) {
            *out = s->at[at->i++ - 1];
            return true;
        }
    }
    size_t tail = s->n_runs ? s->run[s->n_runs - 1] : 0;
    for (at->i = at->i ? at->i : tail; at->i < s->n;) {
        *out = s->at[at->i++];
        if (*out >= from && *out <= to)
            return true;
    }
    return false;
}
