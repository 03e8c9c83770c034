/* SPDX-License-Identifier: Apache-2.0 */
#include "opening.h"

#include <zf/base/thread.h>
#include <zf/source/begun.h>

#include "progress.h"

#define OPENING_SECONDS 2.0 /* until the line appears */

static struct {
    pthread_mutex_t lock; /* of `taken`; the line does not end while a thread clears it */
    bool taken;
    struct progress_watch watch;
    struct zf_begun before; /* the counters when it began */
    bool many;
} opening = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void opening_ask(void *ctx, struct progress_at *out)
{
    const struct zf_begun now = zf_begun();

    (void)ctx;
    out->doing = "opening";
    out->what = "files";
    out->item = now.n - opening.before.n;
    out->items = !opening.many && now.of >= now.n ? now.of - opening.before.n : 0;
}

struct opening opening_begin(bool many)
{
    struct opening o;

    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&opening.lock);
    o.mine = !opening.taken;
    if (o.mine) {
        opening.taken = true;
        opening.many = many;
        opening.before = zf_begun();
        progress_watch(&opening.watch, true, OPENING_SECONDS, opening_ask, NULL);
    }
    return o;
}

void opening_clear(void)
{
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&opening.lock);
    if (opening.taken)
        progress_watch_clear(&opening.watch);
}

void opening_end(struct opening *o)
{
    if (o->mine) {
        (void)pthread_mutex_lock(&opening.lock);
        progress_watch_end(&opening.watch);
        opening.taken = false;
        (void)pthread_mutex_unlock(&opening.lock);
        o->mine = false;
    }
}
