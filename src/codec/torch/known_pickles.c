/* SPDX-License-Identifier: Apache-2.0 */
/* Recognizes files with equal pickles: of 1,024 model-states files of ZeRO stage 3, 1,015 have exactly the pickle of
 * another file.  The ranks of a node differ only in the device number of each storage, which is masked in long
 * pickles. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/hash.h>
#include <zf/base/thread.h>

#include "file.h"

#define KNOWN_MOST 16u
/* Pickles of up to this many bytes are kept and compared, which is faster than hashing; longer ones are hashed. */
#define KNOWN_BYTES (1u << 20)

struct zf_torch_known {
    pthread_mutex_t lock;
    struct known_text {
        uint8_t *p; /* NULL: only its hash is kept */
        uint64_t n;
        struct torch_print print;
    } text[KNOWN_MOST];
    uint32_t n;
};

struct zf_torch_known *zf_torch_known_new(struct zf_err *err)
{
    struct zf_torch_known *w = calloc(1, sizeof *w);

    if (!w)
        return zf_null(zf_fail_sys(err, "allocate memory"));
    (void)pthread_mutex_init(&w->lock, NULL);
    return w;
}

void zf_torch_known_free(struct zf_torch_known *w)
{
    if (!w)
        return;
    for (uint32_t i = 0; i < w->n; i++)
        free(w->text[i].p);
    (void)pthread_mutex_destroy(&w->lock);
    free(w);
}

/* Entries are never changed or removed, so the first entries of the result may be read without the lock. */
static uint32_t known_count(struct zf_torch_known *w)
{
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&w->lock);
    return w->n;
}

/* The str "cuda:N" in protocol 2, up to N. */
#define KNOWN_DEVICE "X\6\0\0\0cuda:"
#define KNOWN_MASK '?'

/* Finds the next KNOWN_DEVICE from *at on; returns the byte after it, and moves *at there; NULL = none. */
static uint8_t *known_device(uint8_t *p, uint64_t n, uint64_t *at)
{
    const size_t len = sizeof KNOWN_DEVICE - 1;
    uint8_t *hit = *at < n ? memmem(p + *at, (size_t)(n - *at), KNOWN_DEVICE, len) : NULL;

    if (!hit || (uint64_t)(hit - p) + len >= n)
        return NULL;
    *at = (uint64_t)(hit - p) + len + 1;
    return hit + len;
}

static void known_change(uint8_t *p, uint64_t n, uint8_t from, uint8_t to)
{
    uint64_t at = 0;

    for (uint8_t *d; (d = known_device(p, n, &at));)
        *d = *d == from ? to : *d;
}

/* The first device number, if it is a digit that can be masked and restored; else 0. */
static uint8_t known_number(uint8_t *p, uint64_t n)
{
    uint64_t at = 0;
    uint8_t first = 0;

    for (uint8_t *d; (d = known_device(p, n, &at));) {
        first = first ? first : *d;
        if (*d == KNOWN_MASK)
            return 0;
    }
    return first >= '0' && first <= '9' ? first : 0;
}

/* A 128-bit hash with a key of this process, so that nobody can craft two pickles with the same hash.  Device numbers
 * are masked: pickles with equal hashes differ at most in this digit within "cuda:N" texts.  p is restored before
 * returning. */
static struct torch_print known_print(uint8_t *p, uint64_t n)
{
    const uint8_t number = known_number(p, n);
    const uint64_t kind = number ? 2 : 0;

    if (number)
        known_change(p, n, number, KNOWN_MASK);
    const struct torch_print print = {
        {zf_hash(kind, p, (size_t)n), zf_hash(kind + 1, p, (size_t)n)}};
    if (number)
        known_change(p, n, KNOWN_MASK, number);
    return print;
}

/* Is the pickle known?  p NULL: compares its hash instead of its bytes. */
static bool known_has(const struct zf_torch_known *w, uint32_t n, const uint8_t *p, uint64_t bytes,
                      const struct torch_print *print)
{
    while (n-- > 0) {
        const struct known_text *t = &w->text[n];

        if (t->n == bytes && (p ? memcmp(t->p, p, (size_t)bytes) == 0
                                : memcmp(&t->print, print, sizeof *print) == 0))
            return true;
    }
    return false;
}

bool torch_known_may_have(const struct zf_torch *t, uint64_t n)
{
    bool found = false;

    for (uint32_t i = t->known ? known_count(t->known) : 0; !found && i-- > 0;)
        found = t->known->text[i].n == n;
    return found;
}

bool torch_known_has(struct zf_torch *t, uint8_t *p, uint64_t n)
{
    if (!t->known || n == 0)
        return false;
    const bool small = n <= KNOWN_BYTES;

    t->print = small ? (struct torch_print){{0}} : known_print(p, n);
    t->is_known = known_has(t->known, known_count(t->known), small ? p : NULL, n, &t->print);
    return t->is_known;
}

bool torch_known_take(struct zf_torch *t, uint8_t **p, uint64_t n)
{
    if (torch_known_has(t, *p, n))
        return true;
    if (t->known && n > 0 && known_count(t->known) < KNOWN_MOST) {
        t->text_bytes = n;
        if (n <= KNOWN_BYTES)
            t->text = zf_give(*p);
    }
    return false;
}

bool zf_torch_is_known(const struct zf_torch *t)
{
    return t->is_known;
}

void zf_torch_known_add(struct zf_torch_known *w, struct zf_torch *t)
{
    if (!t->text_bytes || known_has(w, known_count(w), t->text, t->text_bytes, &t->print))
        return;
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&w->lock);
    if (w->n < KNOWN_MOST)
        w->text[w->n++] = (struct known_text){zf_give(t->text), t->text_bytes, t->print};
}
