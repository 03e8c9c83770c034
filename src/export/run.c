/* SPDX-License-Identifier: Apache-2.0 */
/* The export's threads: each copies one file of the plan after the other. */
#include <zf/export.h>

#include <nettle/sha2.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/thread.h>

#include "export.h"

#define MOST_JOBS 256u

struct zf_export {
    struct zf_export_opts o;
    struct export_run run;
    atomic_uint next; /* index of the next file to copy */
    uint32_t jobs;
    uint32_t working;
    pthread_mutex_t
        lock; /* guards `working`, and is held during o's callbacks unread, failed and tick */
    pthread_cond_t left;
};

/* Hashes a file's identity field by field, because a struct may have uninitialised padding. */
static void run_mix_file(void *ctx, const struct zf_file_stats *s)
{
    const struct zf_identity none = {.size = s->size}, *id = s->id ? s->id : &none;
    const uint64_t v[] = {id->dev,
                          id->ino,
                          id->size,
                          (uint64_t)id->mtime.tv_sec,
                          (uint64_t)id->mtime.tv_nsec,
                          (uint64_t)id->ctime.tv_sec,
                          (uint64_t)id->ctime.tv_nsec};

    sha256_update(ctx, strlen(s->path) + 1, (const uint8_t *)s->path);
    sha256_update(ctx, sizeof v, (const uint8_t *)v);
}

/* Digest of everything that affects the contents of exported files.  It covers all opened shards for every copy: a cast
 * tensor, a header or a state/ file may depend on several shards, and a checkpoint with one rewritten shard is another
 * checkpoint. */
static void run_make_seed(struct zf_export *x)
{
    struct sha256_ctx ctx;

    sha256_init(&ctx);
    sha256_update(&ctx, sizeof x->o.options, x->o.options);
    zf_store_stats(zf_tree_checkpoint(x->o.tree)->store, run_mix_file, &ctx);
    sha256_digest(&ctx, sizeof x->run.seed, x->run.seed);
}

struct zf_export *zf_export_open(const struct zf_export_opts *o, struct zf_err *err)
{
    zf_auto(export) struct zf_export *x = calloc(1, sizeof *x);

    if (!x)
        return zf_null(zf_fail_sys(err, "export"));
    x->o = *o;
    x->run = (struct export_run){.tree = o->tree,
                                 .plan = o->plan,
                                 .dest = o->dest,
                                 .root = -1,
                                 .force = o->force,
                                 .sums = o->sums};
    (void)pthread_mutex_init(&x->lock, NULL);
    (void)pthread_cond_init(&x->left, NULL);
    run_make_seed(x);
    if (!export_dest_open(o->dest, o->ckpt, o->force, &x->run.root, err))
        return NULL;
    x->run.journal = export_journal_open(x->run.root, err);
    if (!x->run.journal)
        return zf_null(zf_err_in(err, "%s", o->dest));
    return zf_give(x);
}

void zf_export_free(struct zf_export *x)
{
    if (!x)
        return;
    export_journal_free(x->run.journal);
    zf_auto_fd(&x->run.root);
    (void)pthread_mutex_destroy(&x->lock);
    (void)pthread_cond_destroy(&x->left);
    free(x);
}

void zf_export_stop(struct zf_export *x)
{
    atomic_store(&x->run.stop, true);
}

struct zf_export_count zf_export_count(const struct zf_export *x)
{
    struct zf_export_count c = {.begun = atomic_load(&x->next)};

    /* `kept` is loaded first, so that a concurrent addition to both cannot make it larger than `bytes`. */
    c.kept = atomic_load(&x->run.kept);
    c.bytes = atomic_load(&x->run.bytes);
    c.begun = c.begun < x->run.plan->n ? c.begun : x->run.plan->n;
    return c;
}

/* Reports a failed write and stops all copies: unlike a damaged shard, a full disk affects every file. */
static void run_failed(struct zf_export *x, const struct zf_err *err)
{
    (void)pthread_mutex_lock(&x->lock);
    x->o.failed(x->o.ctx, err);
    (void)pthread_mutex_unlock(&x->lock);
    zf_export_stop(x);
}

static void run_copy(struct zf_export *x, uint32_t i, unsigned char *buf,
                     struct export_batch *batch)
{
    struct zf_err err;
    const enum export_end end = export_copy(&x->run, i, buf, batch, &err);

    if (end == EXPORT_UNREADABLE) {
        (void)pthread_mutex_lock(&x->lock);
        x->o.unread(x->o.ctx, i, &err);
        (void)pthread_mutex_unlock(&x->lock);
    } else if (end == EXPORT_UNWRITABLE) {
        run_failed(x, &err);
    }
}

static void *run_work(void *arg)
{
    struct zf_export *x = arg;
    struct export_batch batch = {.most = x->jobs < EXPORT_BATCH ? EXPORT_BATCH / x->jobs : 1};
    struct zf_err err;
    zf_auto(mem) unsigned char *buf = aligned_alloc(4096, EXPORT_BUF);

    if (!buf) {
        (void)zf_fail_sys(&err, "copy");
        run_failed(x, &err);
    }
    while (!atomic_load(&x->run.stop)) {
        const uint32_t i = atomic_fetch_add(&x->next, 1);

        if (i >= x->run.plan->n)
            break;
        if (x->run.plan->file[i].link_of == i)
            run_copy(x, i, buf, &batch);
    }
    /* Also after a stop: complete files get their final names. */
    if (export_sync(&x->run, &batch, &err) != EXPORT_OK)
        run_failed(x, &err);
    (void)pthread_mutex_lock(&x->lock);
    x->working--;
    (void)pthread_cond_signal(&x->left);
    (void)pthread_mutex_unlock(&x->lock);
    return NULL;
}

/* Calls tick until all threads have ended. */
static void run_watch(struct zf_export *x)
{
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&x->lock);
    while (x->working > 0) {
        (void)zf_thread_wait(&x->left, &x->lock, 200);
        x->o.tick(x->o.ctx);
    }
}

void zf_export_run(struct zf_export *x)
{
    pthread_t thread[MOST_JOBS];
    const uint32_t most = x->o.jobs < MOST_JOBS ? x->o.jobs : MOST_JOBS;
    const uint32_t want = most < x->run.plan->n ? most : x->run.plan->n;
    uint32_t n = 0;
    struct zf_err err;

    x->jobs = want ? want : 1;
    x->working = want;
    while (n < want && pthread_create(&thread[n], NULL, run_work, x) == 0)
        n++;
    (void)pthread_mutex_lock(&x->lock);
    x->working -= want - n;
    (void)pthread_mutex_unlock(&x->lock);
    if (n == 0 && want) {
        x->working = 1;
        (void)run_work(x);
    }
    run_watch(x);
    while (n > 0)
        (void)pthread_join(thread[--n], NULL);
    if (x->run.sums && !atomic_load(&x->run.stop) &&
        !export_sums_write(x->run.root, x->run.plan, &err)) {
        (void)zf_err_in(&err, "%s", x->run.dest);
        run_failed(x, &err);
    }
}

bool zf_export_finish(struct zf_export *x, struct zf_err *err)
{
    export_journal_finish(x->run.journal);
    return export_names_sync(&x->run, err) == EXPORT_OK;
}
