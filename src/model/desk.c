/* SPDX-License-Identifier: Apache-2.0 */
#include "desk.h"

#include <pthread.h>
#include <stdlib.h>

/* A cast of a tensor in columns takes two. */
#define DESKS 2
#define PAGE 4096u

/* What a thread keeps. */
struct desks {
    unsigned n;
    unsigned char *at[DESKS];
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static int key_failed;

static void desk_drop(void *arg)
{
    struct desks *d = arg;

    while (d->n > 0) {
        free(d->at[--d->n]);
    }
    free(d);
}

static void desk_make_key(void)
{
    key_failed = pthread_key_create(&key, desk_drop);
}

/* This thread's, or NULL: then nothing is kept. */
static struct desks *desk_of_thread(void)
{
    (void)pthread_once(&once, desk_make_key);
    if (key_failed) {
        return NULL;
    }
    struct desks *d = pthread_getspecific(key);
    if (!d) {
        d = calloc(1, sizeof *d);
        if (d && pthread_setspecific(key, d) != 0) {
            free(d);
            d = NULL;
        }
    }
    return d;
}

unsigned char *desk_take(struct zf_err *err)
{
    struct desks *d = desk_of_thread();
    unsigned char *desk = d && d->n > 0 ? d->at[--d->n] : aligned_alloc(PAGE, DESK_BYTES);

    if (!desk) {
        (void)zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    }
    return desk;
}

void desk_give(unsigned char **desk)
{
    unsigned char *gone = *desk;
    struct desks *d = gone ? desk_of_thread() : NULL;

    *desk = NULL;
    if (d && d->n < DESKS) {
        d->at[d->n++] = gone;
    } else {
        free(gone);
    }
}
