/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/base/buffer.h>
#include <zf/base/thread.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#define PAGE 4096u
/* The most buffers kept for reuse; more are in use at once only when storage hangs. */
#define KEEP 12u

static struct {
    pthread_mutex_t lock;
    struct zf_buffer *top;
    unsigned n;
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void buffer_free(struct zf_buffer *b)
{
    free(b->at);
    free(b);
}

static struct zf_buffer *buffer_kept(void)
{
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&kept.lock);
    struct zf_buffer *b = kept.top;
    if (b) {
        kept.top = b->next;
        kept.n--;
    }
    return b;
}

struct zf_buffer *zf_buffer_take(size_t n)
{
    struct zf_buffer *b = buffer_kept();

    if (!b)
        b = calloc(1, sizeof *b);
    if (b && b->cap < n) {
        b->cap = n > ZF_BUFFER_BYTES ? (n + PAGE - 1) / PAGE * PAGE : ZF_BUFFER_BYTES;
        free(b->at);
        b->at = aligned_alloc(PAGE, b->cap);
    }
    if (b && !b->at) {
        buffer_free(b);
        return NULL;
    }
    return b;
}

void zf_buffer_give(struct zf_buffer *b)
{
    if (!b)
        return;
    (void)pthread_mutex_lock(&kept.lock);
    const bool room = kept.n < KEEP;
    if (room) {
        b->next = kept.top;
        kept.top = b;
        kept.n++;
    }
    (void)pthread_mutex_unlock(&kept.lock);
    if (!room)
        buffer_free(b);
}
