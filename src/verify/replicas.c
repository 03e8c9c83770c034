/* SPDX-License-Identifier: Apache-2.0 */
/* Compares copies while reading each file only once: both sides of each are hashed with keys that each process draws at
 * random.  Different bytes have equal hashes in one of 2^58 cases, whatever the files contain. */
#include "checks.h"

#include <zf/base/hash.h>
#include <zf/base/search.h>

#define PRIME ((UINT64_C(1) << 61) - 1)
#define WORD 4u

/* ---- numbers modulo 2^61 - 1 ----------------------------------------------------------------- */

__extension__ typedef unsigned __int128 wide;

static uint64_t replicas_plus(uint64_t a, uint64_t b)
{
    const uint64_t s = a + b;

    return s >= PRIME ? s - PRIME : s;
}

/* a * b + c */
static uint64_t replicas_times(uint64_t a, uint64_t b, uint64_t c)
{
    const wide m = (wide)a * b + c;

    return replicas_plus((uint64_t)m & PRIME, (uint64_t)(m >> 61));
}

static uint64_t replicas_power(uint64_t a, uint64_t n)
{
    uint64_t out = 1;

    for (; n > 0; n >>= 1) {
        out = n & 1 ? replicas_times(out, a, 0) : out;
        a = replicas_times(a, a, 0);
    }
    return out;
}

/* ---- which ranges ---------------------------------------------------------------------------- */

/* One side of a copy. */
struct replicas_side {
    const struct zf_source *file;
    uint64_t off, n, number;
};

static int replicas_by_place(const void *a, const void *b)
{
    const struct replicas_side *x = a, *y = b;

    return x->file != y->file ? ((uintptr_t)x->file > (uintptr_t)y->file ? 1 : -1)
           : x->off != y->off ? (x->off > y->off ? 1 : -1)
                              : (x->n > y->n) - (x->n < y->n);
}

static bool replicas_side_of(const struct zf_copy *c, int k, struct replicas_side *out)
{
    const struct zf_trace t = zf_source_trace(c->src[k], c->off[k], c->n);

    *out = (struct replicas_side){.file = t.src, .off = t.off, .n = c->n};
    return t.src->ops->identity && !t.codec && !t.swap && t.len >= c->n;
}

static bool replicas_number(struct replicas *t, const struct replicas_side *side, size_t n,
                            struct zf_err *err)
{
    for (size_t i = 0; i < n; i++) {
        const bool again = i > 0 && replicas_by_place(&side[i - 1], &side[i]) == 0;
        struct replicas_range *last = t->range.n ? &t->range.at[t->range.n - 1] : NULL;

        if (!again) {
            const uint64_t end = side[i].off + side[i].n,
                           before = last && last->file == side[i].file ? last->reach : 0;

            last = zf_vec_push(&t->range, err);
            if (!last)
                return false;
            *last = (struct replicas_range){.file = side[i].file,
                                            .off = side[i].off,
                                            .n = side[i].n,
                                            .reach = end > before ? end : before};
        }
        t->of.at[side[i].number] = (uint32_t)(t->range.n - 1);
    }
    return true;
}

bool replicas_init(struct replicas *t, const struct zf_copy *copy, uint64_t n, struct zf_err *err)
{
    zf_auto(mem) struct replicas_side *side = NULL;
    size_t n_sides = 0;

    *t = (struct replicas){.of = {0}};
    for (uint32_t k = 0; k < REPLICA_KEYS; k++)
        t->key[k] = zf_hash(k, "copies", 6) % PRIME;
    if (n >= REPLICAS_NONE / 2)
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "there are too many copies");
    side = calloc(2 * n + 1, sizeof *side);
    if (!side || !zf_vec_room(&t->of, 2 * n + 1, err))
        return side || zf_fail_sys(err, "compare copies");
    for (uint64_t i = 0; i < n; i++) {
        struct replicas_side *to = &side[n_sides];

        t->of.at[2 * i] = t->of.at[2 * i + 1] = REPLICAS_NONE;
        if (copy[i].src[0] && replicas_side_of(&copy[i], 0, &to[0]) &&
            replicas_side_of(&copy[i], 1, &to[1])) {
            to[0].number = 2 * i;
            to[1].number = 2 * i + 1;
            n_sides += 2;
        }
    }
    t->of.n = 2 * n;
    if (n_sides > 0)
        qsort(side, n_sides, sizeof *side, replicas_by_place);
    return replicas_number(t, side, n_sides, err);
}

void replicas_fini(struct replicas *t)
{
    zf_vec_fini(&t->range);
    zf_vec_fini(&t->of);
}

/* ---- summing up ------------------------------------------------------------------------------ */

/* The sum of words [first, end) of a range; p points to the first of them. */
static struct replicas_sum replicas_sum(const struct replicas *t, const struct replicas_range *r,
                                        const uint8_t *p, uint64_t first, uint64_t end)
{
    struct replicas_sum s = {{0}};
    uint64_t w = end;
    uint32_t word = 0;

    if (w * WORD > r->n) { /* the last word is incomplete */
        w--;
        memcpy(&word, p + (w - first) * WORD, (size_t)(r->n - w * WORD));
        s = (struct replicas_sum){{word, word}};
    }
    while (w-- > first) {
        memcpy(&word, p + (w - first) * WORD, WORD);
        for (uint32_t k = 0; k < REPLICA_KEYS; k++)
            s.of[k] = replicas_times(s.of[k], t->key[k], word);
    }
    for (uint32_t k = 0; k < REPLICA_KEYS; k++)
        s.of[k] = replicas_times(s.of[k], replicas_power(t->key[k], first), 0);
    return s;
}

/* Index of the first range of the file that ends after off. */
static size_t replicas_first(const struct replicas *t, const struct zf_source *file, uint64_t off)
{
    const struct replicas_range *r = t->range.at;
    size_t i;

    ZF_SEARCH(i, t->range.n,
              (uintptr_t)r[i].file > (uintptr_t)file || (r[i].file == file && r[i].reach > off));
    return i;
}

bool replicas_add(const struct replicas *t, const struct zf_source *file, const uint8_t *p,
                  uint64_t off, uint64_t end, replicas_parts *out, struct zf_err *err)
{
    for (size_t i = replicas_first(t, file, off);
         i < t->range.n && t->range.at[i].file == file && t->range.at[i].off < end; i++) {
        const struct replicas_range *r = &t->range.at[i];
        const uint64_t until = end - r->off < r->n ? end - r->off : r->n,
                       first = off > r->off ? (off - r->off + WORD - 1) / WORD : 0,
                       last = (until + WORD - 1) / WORD;

        if (first >= last)
            continue;
        struct replicas_part *part = zf_vec_push(out, err);
        if (!part)
            return false;
        *part = (struct replicas_part){
            .range = i,
            .words = last - first,
            .sum = replicas_sum(t, r, p + (r->off + first * WORD - off), first, last)};
    }
    return true;
}

void replicas_join(struct replicas *t, const replicas_parts *parts)
{
    for (size_t i = 0; i < parts->n; i++) {
        struct replicas_range *r = &t->range.at[parts->at[i].range];

        r->words += parts->at[i].words;
        for (uint32_t k = 0; k < REPLICA_KEYS; k++)
            r->sum.of[k] = replicas_plus(r->sum.of[k], parts->at[i].sum.of[k]);
    }
}

bool replicas_equal(const struct replicas *t, uint64_t i)
{
    const uint32_t x = t->of.at[2 * i], y = t->of.at[2 * i + 1];

    if (x == REPLICAS_NONE)
        return false;
    const struct replicas_range *a = &t->range.at[x], *b = &t->range.at[y];
    const uint64_t words = a->n / WORD + (a->n % WORD > 0);

    return a->words == words && b->words == words && memcmp(&a->sum, &b->sum, sizeof a->sum) == 0;
}
