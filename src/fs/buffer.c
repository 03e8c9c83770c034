/* SPDX-License-Identifier: Apache-2.0 */
#include "buffer.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

/* The most that the kernel asks for; a larger request makes the buffer grow. */
#define USUAL (1u << 20)
#define PAGE 4096u
/* More than this many are not kept: so many are in use at once only when storage hangs. */
#define KEEP 12u

static struct {
    pthread_mutex_t lock;
    struct buffer *top;
    unsigned n;
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void buffer_free(struct buffer *b)
{
    free(b->at);
    free(b);
}

static struct buffer *buffer_kept(void)
{
    (void)pthread_mutex_lock(&kept.lock);
    struct buffer *b = kept.top;
    if (b) {
        kept.top = b->next;
        kept.n--;
    }
    (void)pthread_mutex_unlock(&kept.lock);
    return b;
}

struct buffer *buffer_take(size_t n)
{
    struct buffer *b = buffer_kept();

    if (!b) {
        b = calloc(1, sizeof *b);
    }
    if (b && b->cap < n) {
        b->cap = n > USUAL ? (n + PAGE - 1) / PAGE * PAGE : USUAL;
        free(b->at);
        b->at = aligned_alloc(PAGE, b->cap);
    }
    if (b && !b->at) {
        buffer_free(b);
        return NULL;
    }
    return b;
}

void buffer_give(struct buffer *b)
{
    if (!b) {
        return;
    }
    (void)pthread_mutex_lock(&kept.lock);
    const bool room = kept.n < KEEP;
    if (room) {
        b->next = kept.top;
        kept.top = b;
        kept.n++;
    }
    (void)pthread_mutex_unlock(&kept.lock);
    if (!room) {
        buffer_free(b);
    }
}
