/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/base/thread.h>

#include <signal.h>
#include <time.h>

int zf_thread_start(pthread_t *out, void *(*run)(void *), void *arg)
{
    sigset_t all, was;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &was);
    int rc = pthread_create(out, NULL, run, arg);
    (void)pthread_sigmask(SIG_SETMASK, &was, NULL);
    return rc;
}

bool zf_thread_wait(pthread_cond_t *cond, pthread_mutex_t *lock, unsigned ms)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += ms % 1000 * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    return pthread_cond_timedwait(cond, lock, &until) == 0;
}
