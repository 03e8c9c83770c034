/* SPDX-License-Identifier: Apache-2.0 */
#include "save.h"

#include <stdatomic.h>
#include <string.h>

#include <zf/base/clock.h>
#include <zf/base/thread.h>
#include <zf/codec/json.h>
#include <zf/overlay/control.h>
#include <zf/overlay/index.h>

/* A save that could not be opened is tried again after this time at the earliest. */
#define RETRY_NS 1000000000ll
/* Factor for a remote save, where listing it costs a request per file. */
#define RETRY_FAR 30

struct save {
    const char *run;
    char *name;
    const struct zf_run_opts *o;
    struct zf_log *log;
    _Atomic(struct zf_tree *) tree;    /* the checkpoint's tree; set once */
    _Atomic(struct zf_tree *) refusal; /* the tree shown while it cannot be opened; set once */
    pthread_mutex_t lock;              /* protects all fields below */
    int64_t tried_ns;                  /* CLOCK_MONOTONIC; 0 = never */
    struct fingerprint seen;           /* the directory's, taken before the last attempt */
    time_t when;
    struct zf_err why; /* why the last attempt failed */
};

/* ---- the tree of a save that cannot be opened ------------------------------------------------ */

/* A copy of the last failure, for threads that do not hold the lock. */
static struct zf_err save_refusal_why(struct save *s, time_t *when_out)
{
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&s->lock);
    *when_out = s->when;
    return s->why;
}

static char *save_refusal_index(void *ctx, size_t *n_out, struct zf_err *err)
{
    struct save *s = ctx;
    char text[sizeof s->why.path + sizeof s->why.msg + 64];
    time_t when;
    struct zf_err why = save_refusal_why(s, &when);

    (void)zf_err_text(&why, text, sizeof text);
    return zf_index_dump(json_pack("{s:s, s:o, s:o}", "schema", "zerofs.error/1", "tag",
                                   zf_json_text(s->name), "error", zf_json_text(text)),
                         n_out, err);
}

static char *save_refusal_stats(void *ctx, size_t *n_out, struct zf_err *err)
{
    (void)ctx;
    return zf_index_dump(json_pack("{s:s, s:[]}", "schema", "zerofs.stats/1", "sources"), n_out,
                         err);
}

static char *save_refusal_log(void *ctx, size_t *n_out)
{
    time_t when;
    struct zf_err why = save_refusal_why(ctx, &when);

    return zf_log_line(when, &why, n_out);
}

/* Called when the directory is opened; the kernel does so before it lists it, and looks names up one by one. */
static void save_refusal_enter(void *ctx, struct zf_err *err)
{
    time_t when;

    *err = save_refusal_why(ctx, &when);
    err->code = ZF_E_IO;
}

static struct zf_tree *save_refusal_new(struct save *s, struct zf_err *err)
{
    const struct zf_control_opts c = {.index = save_refusal_index,
                                      .stats = save_refusal_stats,
                                      .log_text = save_refusal_log,
                                      .why = save_refusal_enter,
                                      .ctx = s,
                                      .live = true};

    return zf_control_new(NULL, &c, err);
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Is it worth trying to open the save (again)?  Takes the fingerprint first, so that the next call finds
 * a change made during the opening.  Pre: the lock is held. */
static bool save_worth_trying(struct save *s)
{
    int64_t now = zf_clock_ns();
    bool first = s->tried_ns == 0;
    struct fingerprint before = s->seen;

    if (!first && now - s->tried_ns < RETRY_NS)
        return false;
    s->tried_ns = now ? now : 1;
    fingerprint_look(&s->seen, s->o->opener, s->run, s->name, s->o->lim);
    return first || !before.settled || before.hash != s->seen.hash;
}

/* Records a failure; a repeated one is logged only once.  Pre: the lock is held. */
static void save_failed(struct save *s, const struct zf_err *err)
{
    bool same = strcmp(s->why.msg, err->msg) == 0 && strcmp(s->why.path, err->path) == 0;

    s->why = *err;
    s->when = time(NULL);
    /* A save still being written is not a failure; its own log mentions it. */
    if (!same && err->code != ZF_E_BUSY)
        zf_log_say(s->log, err);
}

/* Opens the save's tree in the state `seen`, or returns NULL.  Pre: the lock is held. */
static struct zf_tree *save_open_whole(struct save *s, uint16_t *withheld_out, struct zf_err *err)
{
    if (!s->seen.settled) {
        (void)zf_fail(err, ZF_E_BUSY, ZF_OFF_NONE,
                      "it is being written; it will be opened once nothing in it has changed for "
                      "some seconds");
        return zf_null(zf_err_in(err, "%s", s->name));
    }
    zf_auto(tree) struct zf_tree *tree = s->o->open(s->o->ctx, s->run, s->name, withheld_out, err);
    if (!tree)
        return NULL;
    struct fingerprint after = fingerprint_take(s->o->opener, s->run, s->name, s->o->lim);
    if (after.same != s->seen.same) {
        (void)zf_fail(err, ZF_E_BUSY, ZF_OFF_NONE, "it changed while it was being opened");
        (void)zf_err_in(err, "%s", s->name);
        s->seen = after;
        return NULL;
    }
    return zf_give(tree);
}

bool save_take(struct save *s, struct zf_tree *tree, uint16_t withheld, struct zf_err *err)
{
    tree = zf_control_checkpoint(tree, s->log, err);
    if (tree)
        zf_control_withhold(tree, withheld);
    atomic_store_explicit(&s->tree, tree, memory_order_release);
    return tree != NULL;
}

/* Under the lock. */
static void save_open(struct save *s)
{
    struct zf_err err = {.code = ZF_OK};
    uint16_t withheld = 0;
    struct zf_tree *tree = save_open_whole(s, &withheld, &err);

    if (!tree || !save_take(s, tree, withheld, &err)) {
        save_failed(s, &err);
        if (!atomic_load_explicit(&s->refusal, memory_order_relaxed))
            atomic_store_explicit(&s->refusal, save_refusal_new(s, &err), memory_order_release);
    }
}

struct zf_tree *save_opened(const struct save *s)
{
    return atomic_load_explicit(&s->tree, memory_order_acquire);
}

bool save_changed(struct save *s)
{
    const int64_t now = zf_clock_ns();
    bool changed = false;

    if (!save_opened(s))
        return false; /* the first access opens it */
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&s->lock);
    if (now - s->tried_ns >= RETRY_NS * (s->seen.far ? RETRY_FAR : 1)) {
        const uint64_t before = s->seen.same;

        s->tried_ns = now;
        changed = fingerprint_take(s->o->opener, s->run, s->name, s->o->lim).same != before;
    }
    return changed;
}

struct zf_tree *save_tree(struct save *s)
{
    struct zf_tree *tree = save_opened(s);

    if (tree)
        return tree;
    (void)pthread_mutex_lock(&s->lock);
    if (!save_opened(s) && save_worth_trying(s))
        save_open(s);
    tree = save_opened(s);
    (void)pthread_mutex_unlock(&s->lock);
    return tree ? tree : atomic_load_explicit(&s->refusal, memory_order_acquire);
}

bool save_enter(struct save *s, struct zf_err *err)
{
    struct zf_tree *tree = save_tree(s);

    if (!tree)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    return !tree->ops->enter || tree->ops->enter(tree, ZF_TREE_ROOT, err);
}

struct save *save_new(const char *run, const char *name, const struct zf_run_opts *o,
                      struct zf_log *log, struct zf_err *err)
{
    struct save *s = calloc(1, sizeof *s);

    if (!s || !(s->name = strdup(name))) {
        free(s);
        return zf_null(zf_fail_sys(err, "keep a save's name"));
    }
    s->run = run;
    s->o = o;
    s->log = log;
    (void)pthread_mutex_init(&s->lock, NULL);
    return s;
}

void save_free(struct save *s)
{
    if (s) {
        zf_tree_free(atomic_load_explicit(&s->tree, memory_order_relaxed));
        zf_tree_free(atomic_load_explicit(&s->refusal, memory_order_relaxed));
        (void)pthread_mutex_destroy(&s->lock);
        free(s->name);
        free(s);
    }
}
