/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/base/sorted.h>

#include <assert.h>
#include <string.h>

#include <zf/base/vec.h>

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

/* In order, each once. */
static void sorted_settle(struct zf_sorted *s)
{
    const size_t words = sorted_words(s), each = words * sizeof *s->at;
    size_t n = 0;

    if (s->is_sorted || !s->n) {
        return;
    }
    qsort(s->at, s->n, each, s->pairs ? sorted_order_pairs : sorted_order);
    for (size_t i = 0; i < s->n; i++) {
        if (i == 0 || memcmp(s->at + (n - 1) * words, s->at + i * words, each) != 0) {
            memmove(s->at + n++ * words, s->at + i * words, each);
        }
    }
    s->n = n;
    s->is_sorted = true;
}

/* Room for one more; what was added again and again is dropped before the set grows. */
static bool sorted_room(struct zf_sorted *s, struct zf_err *err)
{
    if (s->n == s->cap) {
        sorted_settle(s);
    }
    if (s->n >= s->cap / 2) {
        void *at = zf_vec_grow(s->at, s->n, s->cap - s->n + 1, &s->cap,
                               sorted_words(s) * sizeof *s->at, err);
        if (!at) {
            return false;
        }
        s->at = at;
    }
    return true;
}

bool zf_sorted_add(struct zf_sorted *s, uint64_t v, struct zf_err *err)
{
    assert(s->n == 0 || !s->pairs);
    if (s->n == s->cap && !sorted_room(s, err)) {
        return false;
    }
    s->at[s->n++] = v;
    s->is_sorted = false;
    return true;
}

bool zf_sorted_add_pair(struct zf_sorted *s, uint64_t first, uint64_t second, struct zf_err *err)
{
    assert(s->n == 0 || s->pairs);
    s->pairs = true;
    if (s->n == s->cap && !sorted_room(s, err)) {
        return false;
    }
    s->at[2 * s->n] = first;
    s->at[2 * s->n++ + 1] = second;
    s->is_sorted = false;
    return true;
}

size_t zf_sorted_find(struct zf_sorted *s, uint64_t first, size_t *at_out)
{
    const size_t words = sorted_words(s);

    sorted_settle(s);
    size_t from = 0, end = s->n;
    while (from < end) {
        size_t mid = from + (end - from) / 2;

        if (s->at[mid * words] < first) {
            from = mid + 1;
        } else {
            end = mid;
        }
    }
    *at_out = from;
    while (end < s->n && s->at[end * words] == first) {
        end++;
    }
    return end - from;
}
