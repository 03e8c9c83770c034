/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that work beside those of the program. */
#ifndef ZF_BASE_THREAD_H
#define ZF_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>

#include <zf/base/auto.h>

/* Held to the end of the scope: `zf_auto(lock) pthread_mutex_t *lock = zf_lock(&t->lock);`. */
static inline pthread_mutex_t *zf_lock(pthread_mutex_t *m)
{
    (void)pthread_mutex_lock(m);
    return m;
}
static inline void zf_auto_lock(pthread_mutex_t **m)
{
    (void)pthread_mutex_unlock(*m);
}

/* Starts a thread in which signals are blocked.  Returns 0 or an errno. */
int zf_thread_start(pthread_t *out, void *(*run)(void *), void *arg);

/* Waits for the condition, at most `ms` milliseconds.  False: the time is over. */
bool zf_thread_wait(pthread_cond_t *cond, pthread_mutex_t *lock, unsigned ms);

#endif
