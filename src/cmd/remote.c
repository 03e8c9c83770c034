/* SPDX-License-Identifier: Apache-2.0 */
#include "remote.h"

#include <pthread.h>
#include <stdio.h>

#include <zf/base/thread.h>

#include "opening.h"

static struct {
    pthread_mutex_t lock;
    struct zf_remote *one;
} remote_made = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void remote_say(void *ctx, const char *line)
{
    (void)ctx;
    opening_clear();
    (void)fprintf(stderr, "zerofs: %s\n", line);
}

struct zf_remote *remote_of(const struct opts *o, struct zf_err *err)
{
    const struct zf_remote_opts r = {
        .connections = (uint32_t)o->connections,
        .cache_mem = o->cache_mem,
        .timeout = (double)o->timeout / 1e9,
        .cacert = o->cacert,
        .cache_dir = o->cache_dir,
        .cache_size = o->cache_size,
        .say = o->verbose ? remote_say : NULL,
        .advise = remote_say,
        .local_cache = o->local_cache,
    };

    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&remote_made.lock);
    if (!remote_made.one)
        remote_made.one = zf_remote_new(&r, err);
    return remote_made.one;
}

void remote_end(void)
{
    zf_remote_free(remote_made.one);
    remote_made.one = NULL;
}
