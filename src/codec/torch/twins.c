/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks of a job repeat themselves: of 1,024 model-states files of ZeRO stage 3, 1,015 have the pickle of
 * another one, byte by byte.  The device's number, which every storage has, is all that differs between the ranks of a
 * node: of long pickles it is masked. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/hash.h>
#include <zf/base/thread.h>

#include "file.h"

#define TWINS_MOST 16u
/* A pickle up to this is kept as it is; of a longer one a print, which takes longer to make than texts do to compare. */
#define TWINS_BYTES (1u << 20)

struct zf_torch_twins {
    pthread_mutex_t lock;
    struct twins_text {
        uint8_t *p; /* NULL: only its print is known */
        uint64_t n;
        struct torch_print print;
    } text[TWINS_MOST];
    uint32_t n;
};

struct zf_torch_twins *zf_torch_twins_new(struct zf_err *err)
{
    struct zf_torch_twins *w = calloc(1, sizeof *w);

    if (!w)
        return zf_null(zf_fail_sys(err, "allocate memory"));
    (void)pthread_mutex_init(&w->lock, NULL);
    return w;
}

void zf_torch_twins_free(struct zf_torch_twins *w)
{
    if (!w)
        return;
    for (uint32_t i = 0; i < w->n; i++)
        free(w->text[i].p);
    (void)pthread_mutex_destroy(&w->lock);
    free(w);
}

/* Texts are never changed or taken out, so they may be looked at without the lock. */
static uint32_t twins_count(struct zf_torch_twins *w)
{
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&w->lock);
    return w->n;
}

/* The text "cuda:N" as protocol 2 writes it; in front of N. */
#define TWINS_DEVICE "X\6\0\0\0cuda:"
#define TWINS_MASK '?'

/* The byte behind the first TWINS_DEVICE from *at on, which is then behind it; NULL = there is none. */
static uint8_t *twins_device(uint8_t *p, uint64_t n, uint64_t *at)
{
    const size_t len = sizeof TWINS_DEVICE - 1;
    uint8_t *hit = *at < n ? memmem(p + *at, (size_t)(n - *at), TWINS_DEVICE, len) : NULL;

    if (!hit || (uint64_t)(hit - p) + len >= n)
        return NULL;
    *at = (uint64_t)(hit - p) + len + 1;
    return hit + len;
}

static void twins_change(uint8_t *p, uint64_t n, uint8_t from, uint8_t to)
{
    uint64_t at = 0;

    for (uint8_t *d; (d = twins_device(p, n, &at));)
        *d = *d == from ? to : *d;
}

/* The device's number, if it is a digit and can be masked and put back. */
static uint8_t twins_number(uint8_t *p, uint64_t n)
{
    uint64_t at = 0;
    uint8_t first = 0;

    for (uint8_t *d; (d = twins_device(p, n, &at));) {
        first = first ? first : *d;
        if (*d == TWINS_MASK)
            return 0;
    }
    return first >= '0' && first <= '9' ? first : 0;
}

/* 128 bits under the process's key: nobody can make two pickles of one print.  Of one with a device they are those of
 * the pickle with its number masked, wherever it is the same, so that two of one print become each other by exchanging
 * two digits within texts.  p is left as it was. */
static struct torch_print twins_print(uint8_t *p, uint64_t n)
{
    const uint8_t number = twins_number(p, n);
    const uint64_t kind = number ? 2 : 0;

    if (number)
        twins_change(p, n, number, TWINS_MASK);
    const struct torch_print print = {
        {zf_hash(kind, p, (size_t)n), zf_hash(kind + 1, p, (size_t)n)}};
    if (number)
        twins_change(p, n, TWINS_MASK, number);
    return print;
}

/* p NULL: the pickle has that print. */
static bool twins_known(const struct zf_torch_twins *w, uint32_t n, const uint8_t *p,
                        uint64_t bytes, const struct torch_print *print)
{
    while (n-- > 0) {
        const struct twins_text *t = &w->text[n];

        if (t->n == bytes && (p ? memcmp(t->p, p, (size_t)bytes) == 0
                                : memcmp(&t->print, print, sizeof *print) == 0))
            return true;
    }
    return false;
}

bool torch_twins_may_know(const struct zf_torch *t, uint64_t n)
{
    bool found = false;

    for (uint32_t i = t->twins ? twins_count(t->twins) : 0; !found && i-- > 0;)
        found = t->twins->text[i].n == n;
    return found;
}

bool torch_twins_know(struct zf_torch *t, uint8_t *p, uint64_t n)
{
    if (!t->twins || n == 0)
        return false;
    const bool small = n <= TWINS_BYTES;

    t->print = small ? (struct torch_print){{0}} : twins_print(p, n);
    t->twin = twins_known(t->twins, twins_count(t->twins), small ? p : NULL, n, &t->print);
    return t->twin;
}

bool torch_twins_take(struct zf_torch *t, uint8_t **p, uint64_t n)
{
    if (torch_twins_know(t, *p, n))
        return true;
    if (t->twins && n > 0 && twins_count(t->twins) < TWINS_MOST) {
        t->text_bytes = n;
        if (n <= TWINS_BYTES)
            t->text = zf_give(*p);
    }
    return false;
}

bool zf_torch_is_twin(const struct zf_torch *t)
{
    return t->twin;
}

void zf_torch_twins_add(struct zf_torch_twins *w, struct zf_torch *t)
{
    if (!t->text_bytes || twins_known(w, twins_count(w), t->text, t->text_bytes, &t->print))
        return;
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&w->lock);
    if (w->n < TWINS_MOST)
        w->text[w->n++] = (struct twins_text){zf_give(t->text), t->text_bytes, t->print};
}
