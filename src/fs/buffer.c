/* SPDX-License-Identifier: Apache-2.0 */
#include "buffer.h"

#include <pthread.h>
#include <stdlib.h>

/* The most that the kernel asks for; a larger request makes the buffer grow. */
#define USUAL (1u << 20)
#define PAGE 4096u

struct buffer {
    size_t cap;
    void *p;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static int key_failed;

static void buffer_drop(void *arg)
{
    struct buffer *b = arg;

    free(b->p);
    free(b);
}

static void buffer_make_key(void)
{
    key_failed = pthread_key_create(&key, buffer_drop);
}

void *buffer_get(size_t n)
{
    (void)pthread_once(&once, buffer_make_key);
    if (key_failed) {
        return NULL;
    }
    struct buffer *b = pthread_getspecific(key);
    if (!b) {
        b = calloc(1, sizeof *b);
        if (!b || pthread_setspecific(key, b) != 0) {
            free(b);
            return NULL;
        }
    }
    if (b->cap < n) {
        size_t cap = n > USUAL ? (n + PAGE - 1) / PAGE * PAGE : USUAL;

        free(b->p);
        b->p = aligned_alloc(PAGE, cap);
        b->cap = b->p ? cap : 0;
    }
    return b->p;
}
