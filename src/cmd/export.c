/* SPDX-License-Identifier: Apache-2.0 */
/* zerofs export: plans which files to write, starts workers that take one after the other off
 * the plan, shows progress, and reports at the end what is written and what is left.  How a file
 * is copied and journalled: src/export. */
#include <errno.h>
#include <nettle/sha2.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zf/base/thread.h>
#include <zf/export/copy.h>
#include <zf/export/dest.h>
#include <zf/export/sums.h>

#include "export.h"
#include "open.h"
#include "where.h"

#define MOST_JOBS 256

struct workers {
    struct zf_export_run run;
    atomic_uint next; /* file of the plan */
    uint32_t jobs;
    uint32_t working;
    int code; /* of the first failure */
    struct export_failed failed;
    pthread_mutex_t say; /* guards what is above, and stderr */
    pthread_cond_t left;
    bool quiet;
    struct export_progress progress;
};

/* Only the flag of the run that is going on can be reached from a handler. */
static atomic_bool *volatile stop_flag;
static volatile sig_atomic_t stop_signal;

static void export_on_signal(int sig)
{
    stop_signal = sig;
    atomic_store(stop_flag, true);
}

/* The first signal ends the export in good order, the second at once. */
static void export_catch_signals(struct zf_export_run *run)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction sa = {.sa_handler = export_on_signal,
                           .sa_flags = (int)SA_RESETHAND | SA_RESTART};

    stop_flag = &run->stop;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        struct sigaction old;

        /* Whoever started us under nohup(1) meant it. */
        if (sigaction(ends[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN) {
            (void)sigaction(ends[i], &sa, NULL);
        }
    }
    /* A file that grows too large is an error like a full disk. */
    (void)signal(SIGXFSZ, SIG_IGN);
}

static void export_report(struct workers *workers, enum zf_export_end end, const struct zf_err *err)
{
    (void)pthread_mutex_lock(&workers->say);
    progress_clear(&workers->progress.line);
    int code = cmd_fail(err);
    workers->code = workers->code ? workers->code : code;
    (void)pthread_mutex_unlock(&workers->say);
    /* A damaged shard affects the files it is part of; a destination that takes nothing more
     * affects all. */
    if (end == ZF_EXPORT_UNWRITABLE) {
        atomic_store(&workers->run.stop, true);
    }
}

static void *export_work(void *arg)
{
    struct workers *workers = arg;
    struct zf_export_batch batch = {
        .most = workers->jobs < ZF_EXPORT_BATCH ? ZF_EXPORT_BATCH / workers->jobs : 1};
    struct zf_err err;
    zf_auto(mem) unsigned char *buf = aligned_alloc(4096, ZF_EXPORT_BUF);

    if (!buf) {
        (void)zf_fail_sys(&err, "copy");
        export_report(workers, ZF_EXPORT_UNWRITABLE, &err);
    }
    while (buf && !atomic_load(&workers->run.stop)) {
        uint32_t i = atomic_fetch_add(&workers->next, 1);

        if (i >= workers->run.plan->n) {
            break;
        }
        if (workers->run.plan->file[i].leader != i) {
            continue;
        }
        enum zf_export_end end = zf_export_copy(&workers->run, i, buf, &batch, &err);
        if (end == ZF_EXPORT_UNREADABLE) {
            (void)pthread_mutex_lock(&workers->say);
            export_failed_add(&workers->failed, i, &err);
            (void)pthread_mutex_unlock(&workers->say);
        } else if (end != ZF_EXPORT_OK && end != ZF_EXPORT_STOPPED) {
            export_report(workers, end, &err);
        }
    }
    /* Also when all is to end: what is whole gets its name. */
    if (zf_export_sync(&workers->run, &batch, &err) != ZF_EXPORT_OK) {
        export_report(workers, ZF_EXPORT_UNWRITABLE, &err);
    }
    (void)pthread_mutex_lock(&workers->say);
    workers->working--;
    (void)pthread_cond_signal(&workers->left);
    (void)pthread_mutex_unlock(&workers->say);
    return NULL;
}

/* Shows how far it is until all have left. */
static void export_watch(struct workers *workers)
{
    (void)pthread_mutex_lock(&workers->say);
    while (workers->working > 0) {
        (void)zf_thread_wait(&workers->left, &workers->say, 200);
        const uint32_t begun = atomic_load(&workers->next);
        export_progress_show(&workers->progress, begun ? begun - 1 : 0);
    }
    progress_clear(&workers->progress.line);
    (void)pthread_mutex_unlock(&workers->say);
}

static void export_copy_all(struct workers *workers, uint32_t jobs)
{
    pthread_t thread[MOST_JOBS];
    uint32_t want = jobs < workers->run.plan->n ? jobs : workers->run.plan->n, n = 0;

    export_progress_start(&workers->progress, &workers->run, !workers->quiet);
    workers->jobs = want ? want : 1;
    workers->working = want;
    while (n < want && pthread_create(&thread[n], NULL, export_work, workers) == 0) {
        n++;
    }
    (void)pthread_mutex_lock(&workers->say);
    workers->working -= want - n;
    (void)pthread_mutex_unlock(&workers->say);
    if (n == 0 && want) {
        workers->working = 1;
        (void)export_work(workers);
    }
    export_watch(workers);
    while (n > 0) {
        (void)pthread_join(thread[--n], NULL);
    }
}

/* Field by field: a struct may have gaps that hold anything. */
static void export_mix_file(void *ctx, const struct zf_file_stats *s)
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

/* All that decides which bytes a file has.  Every file that was opened counts for every copy: a
 * cast, a header or a state/ file has no shard of its own, and a checkpoint of which one file was
 * rewritten is another checkpoint. */
static bool export_make_seed(struct zf_store *st, const struct opts *o, uint8_t out[32],
                             struct zf_err *err)
{
    struct sha256_ctx ctx;

    if (!opts_digest(o, OPTS_BYTES, out, err)) {
        return false;
    }
    sha256_init(&ctx);
    sha256_update(&ctx, 32, out);
    zf_store_stats(st, export_mix_file, &ctx);
    sha256_digest(&ctx, 32, out);
    return true;
}

/* After the last copy: the digests, and the journal's end. */
static int export_conclude(struct workers *workers)
{
    struct zf_err err;

    if (workers->run.sums && !atomic_load(&workers->run.stop) &&
        !zf_export_sums_write(workers->run.root, workers->run.plan, &err)) {
        (void)zf_err_in(&err, "%s", workers->run.dest);
        int code = cmd_fail(&err);
        workers->code = workers->code ? workers->code : code;
    }
    if (stop_signal) {
        (void)fputs("zerofs export: stopped; the same command goes on from here\n", stderr);
        /* Whoever waits for us learns the true reason. */
        (void)signal(stop_signal, SIG_DFL);
        (void)raise(stop_signal);
    }
    export_failed_print(&workers->failed, workers->run.plan);
    if (workers->code == EXIT_OK && export_failed_for_good(&workers->failed, workers->run.plan)) {
        zf_export_journal_finish(workers->run.journal);
        if (zf_export_names_sync(&workers->run, &err) != ZF_EXPORT_OK) {
            return cmd_fail(&err);
        }
        if (!workers->quiet && workers->failed.of.n == 0) {
            export_progress_close(&workers->progress);
        }
    }
    return workers->code ? workers->code : workers->failed.code;
}

static int export_to(struct workers *workers, const char *ckpt, uint32_t jobs)
{
    zf_auto(fd) int root = -1;
    struct zf_err err;

    if (!zf_export_dest_open(workers->run.dest, where_is_remote(ckpt) ? NULL : ckpt,
                             workers->run.force, &root, &err)) {
        return cmd_fail(&err);
    }
    zf_auto(export_journal) struct zf_export_journal *journal = zf_export_journal_open(root, &err);
    if (!journal) {
        (void)zf_err_in(&err, "%s", workers->run.dest);
        return cmd_fail(&err);
    }
    workers->run.root = root;
    workers->run.journal = journal;
    export_catch_signals(&workers->run);
    export_copy_all(workers, jobs);
    int code = export_conclude(workers);
    export_failed_fini(&workers->failed);
    return code;
}

/* As for cp(1): is dest the name a single file is to get, rather than the directory for it? */
static bool export_names_file(struct zf_tree *tree, const char *path, const char *dest)
{
    struct zf_stat file;
    struct stat st;
    size_t n = strlen(dest);

    return n > 0 && dest[n - 1] != '/' && (stat(dest, &st) != 0 || !S_ISDIR(st.st_mode)) &&
           zf_tree_walk(tree, path, &file) && file.kind == ZF_NODE_FILE;
}

/* The directory a path lies in; malloc'ed. */
static char *export_parent_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return !slash ? strdup(".") : strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

/* One file may be given another name: then *dir_out is the directory that it is to be in.  Errors: ZF_E_NOMEM. */
static bool export_aim(struct workers *workers, struct zf_export_plan *plan, char **words, int n,
                       char **dir_out, struct zf_err *err)
{
    const char *dest = words[n - 1], *slash = strrchr(dest, '/');

    *dir_out = NULL;
    workers->run.dest = workers->run.given = dest;
    if (n != 3 || !export_names_file(workers->run.tree, words[1], dest)) {
        return true;
    }
    *dir_out = export_parent_of(dest);
    if (!*dir_out) {
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    }
    workers->run.dest = *dir_out;
    zf_export_plan_rename(plan, slash ? slash + 1 : dest);
    return true;
}

/* words [n]: the checkpoint, paths in its tree, the destination. */
static int export_words(struct workers *workers, const struct opts *o, char **words, int n,
                        uint32_t jobs)
{
    zf_auto(export_plan) struct zf_export_plan plan = {0};
    zf_auto(mem) char *dir = NULL;
    struct zf_err err;

    zf_auto(tree) struct zf_tree *tree = open_asked(words[0], o, &err);
    if (!tree) {
        return cmd_fail(&err);
    }
    workers->run.tree = tree;
    workers->run.plan = &plan;
    if (!zf_export_plan_make(&plan, tree, words + 1, n - 2, open_listing(tree, o, o->all), &err) ||
        !export_aim(workers, &plan, words, n, &dir, &err) ||
        !export_verify(tree, &plan, o, !workers->quiet, &err) ||
        !export_make_seed(zf_tree_checkpoint(tree)->store, o, workers->run.seed, &err)) {
        return cmd_fail(&err);
    }
    return export_to(workers, words[0], jobs);
}

int cmd_export(const struct opts *o, int n, char **word)
{
    struct workers workers = {
        .say = PTHREAD_MUTEX_INITIALIZER,
        .left = PTHREAD_COND_INITIALIZER,
        .run = {.force = o->force, .sums = o->sha256},
        .quiet = o->quiet,
    };
    const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    const uint32_t jobs = o->jobs    ? (uint32_t)o->jobs
                          : cpus < 1 ? 1
                          : cpus > 4 ? 4
                                     : (uint32_t)cpus;

    return export_words(&workers, o, word, n, jobs);
}
