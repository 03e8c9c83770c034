/* SPDX-License-Identifier: Apache-2.0 */
#include "current.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/clock.h>
#include <zf/base/thread.h>
#include <zf/find.h>
#include <zf/view.h>

#include "save.h"

/* Looks take at most 1/REST of the time. */
#define REST 10
#define LEAST_MS 10
#define MOST_MS (24 * 3600 * 1000)

/* A save of the run, shown or not. */
struct known {
    char *name;
    struct fingerprint print; /* at the last look */
    uint64_t look;            /* number of the last look that found the save */
    struct zf_err
        why; /* why it was not complete in the state `bad`; ZF_OK: nothing is known against it */
    uint64_t bad;   /* the fingerprint's `same` at that time */
    uint64_t tried; /* number of the look at that time */
};

struct current {
    struct run_list *l;
    pthread_t thread;
    pthread_mutex_t lock; /* protects `over` */
    pthread_cond_t end;
    bool over;
    /* All fields below belong to the thread that looks. */
    uint64_t look;
    zf_vec(struct known) known;
    /* The save that is shown; NULL: none. */
    char *name;
    uint64_t same;          /* its fingerprint's `same` */
    struct zf_store *store; /* the store of its files */
    bool said_none;
};

/* One pass over the saves. */
struct pass {
    struct current *c;
    const char *only;         /* the save to open; NULL: the pass searches for it */
    struct zf_err why;        /* why it is not complete */
    bool over;                /* the pass has a result and considers no other save */
    bool passed;              /* another save came before `want` */
    char *want;               /* the save to open; NULL: the one shown is the newest */
    struct fingerprint print; /* fingerprint of `want` */
};

/* ---- what is known of saves ------------------------------------------------------------------------ */

/* Finds or adds the record of a save.  NULL: no memory. */
static struct known *current_known(struct current *c, const char *name, struct zf_err *err)
{
    for (size_t i = 0; i < c->known.n; i++)
        if (strcmp(c->known.at[i].name, name) == 0)
            return &c->known.at[i];
    char *copy = strdup(name);
    struct known *k = copy ? zf_vec_push(&c->known, err) : NULL;
    if (!k) {
        free(copy);
        return zf_null(zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for a save"));
    }
    k->name = copy;
    return k;
}

/* Removes the records of saves that this look did not find. */
static void current_forget(struct current *c)
{
    size_t n = 0;

    for (size_t i = 0; i < c->known.n; i++)
        if (c->known.at[i].look == c->look)
            c->known.at[n++] = c->known.at[i];
        else
            free(c->known.at[i].name);
    c->known.n = n;
}

/* Is nothing known against the save in its current state?  Errors that may be temporary (zf_err_unknown) are
 * retried once per look. */
static bool current_untried(const struct current *c, const struct known *k)
{
    return k->why.code == ZF_OK || k->bad != k->print.same ||
           (k->tried != c->look &&
            (zf_err_unknown(&k->why) || k->why.code == ZF_E_STALE || k->why.code == ZF_E_BUSY));
}

/* Skips the save in its current state.  A repeated reason is logged only once. */
static void current_pass_over(struct current *c, struct known *k, uint64_t same,
                              const struct zf_err *why)
{
    const bool news = strcmp(k->why.msg, why->msg) != 0 || strcmp(k->why.path, why->path) != 0;
    struct zf_err said = *why;

    k->why = *why;
    k->bad = same;
    k->tried = c->look;
    if (news && why->code != ZF_E_BUSY) {
        zf_say(said.msg, sizeof said.msg, CURRENT "/ skips this save: %s", why->msg);
        if (!*why->path)
            (void)zf_err_in(&said, "%s", k->name);
        (void)zf_err_in(&said, "%s", c->l->path);
        zf_log_say(c->l->log, &said);
    }
}

/* ---- the save that is shown ------------------------------------------------------------------------ */

struct intact {
    struct zf_store *now;
    bool broken;
};

static void current_compare_file(void *ctx, const struct zf_file_stats *s)
{
    struct intact *i = ctx;
    const struct zf_entry *e = i->broken || !s->id ? NULL : zf_store_find(i->now, s->path);

    if (s->id && (!e || e->id.dev != s->id->dev || e->id.ino != s->id->ino ||
                  e->id.size != s->id->size || zf_clock_cmp(&e->id.mtime, &s->id->mtime) != 0))
        i->broken = true;
}

/* Are all files of the shown save still there, unchanged?  True, too, if that cannot be found out. */
static bool current_is_intact(const struct current *c)
{
    struct zf_err ignored;
    zf_auto(store) struct zf_store *now =
        zf_store_by(c->l->o.opener, c->l->path, c->l->o.lim, &ignored);
    struct intact i = {.now = now};

    if (now)
        zf_store_stats(c->store, current_compare_file, &i);
    return now ? !i.broken || zf_store_failures(now) > 0 : zf_err_unknown(&ignored);
}

static void current_say_shown(struct current *c, const char *name)
{
    struct zf_err said;

    if (name) {
        (void)zf_fail(&said, ZF_E_STALE, ZF_OFF_NONE, CURRENT "/ shows %.200s%s%.200s",
                      *name ? name : c->l->path, !c->name ? "" : ", after ",
                      !c->name   ? ""
                      : *c->name ? c->name
                                 : c->l->path);
        zf_log_say(c->l->log, &said);
    } else if (c->name || !c->said_none) {
        (void)zf_fail(&said, ZF_E_NOENT, ZF_OFF_NONE,
                      "no save is whole yet: " CURRENT "/ will appear with the first whole save");
        zf_log_say(c->l->log, &said);
        c->said_none = true;
    }
}

/* Shows e, or nothing.  Takes ownership of name. */
static bool current_show(struct current *c, struct run_entry *e, char *name, uint64_t same,
                         struct zf_store *store, struct zf_err *err)
{
    if (!run_list_show(c->l, e, err)) {
        free(name);
        return false;
    }
    current_say_shown(c, name);
    free(c->name);
    zf_store_unref(&c->store);
    c->name = name;
    c->same = same;
    c->store = store ? zf_store_ref(store) : NULL;
    return true;
}

/* ---- a look ---------------------------------------------------------------------------------------- */

static bool current_considers(void *ctx, const char *name, struct zf_err *err)
{
    struct pass *p = ctx;
    struct current *c = p->c;

    (void)zf_fail(err, ZF_E_BUSY, ZF_OFF_NONE, "it is being written");
    struct known *k = p->over ? NULL : current_known(c, name, err);
    if (!k)
        return false;
    if (p->only) {
        *err = k->why.code != ZF_OK && k->bad == k->print.same ? k->why : *err;
        return strcmp(p->only, name) == 0;
    }
    fingerprint_look(&k->print, c->l->o.opener, c->l->path, name, c->l->o.lim);
    k->look = c->look;
    const bool shown = c->name && strcmp(c->name, name) == 0;
    if (shown && (k->print.same == c->same || (!k->print.settled && current_is_intact(c)))) {
        p->over = true;
    } else if (k->print.settled && current_untried(c, k)) {
        p->over = true;
        p->want = strdup(name);
        p->print = k->print;
    }
    p->passed = p->passed || !p->over;
    return false;
}

static void current_judged(void *ctx, const char *name, const struct zf_err *why)
{
    struct pass *p = ctx;

    if (p->only && why && strcmp(p->only, name) == 0)
        p->why = *why;
}

static struct zf_tree *current_pass(struct pass *p, uint16_t *withheld_out, struct zf_err *err)
{
    const struct zf_run_opts *o = &p->c->l->o;
    const struct zf_choice choice = {
        .considers = current_considers,
        .judged = current_judged,
        .ctx = p,
        .first = p->passed ? NULL : p->only,
    };

    return o->open_whole(o->ctx, p->c->l->path, &choice, withheld_out, err);
}

/* Opens the save that the pass wants, if it is complete and nothing in it changed in the meantime. */
static struct zf_tree *current_open(struct current *c, const struct pass *found,
                                    uint16_t *withheld_out, struct zf_err *err)
{
    const struct zf_run_opts *o = &c->l->o;
    struct pass p = {.c = c, .only = found->want, .passed = found->passed};
    zf_auto(tree) struct zf_tree *tree = current_pass(&p, withheld_out, err);

    if (!tree) {
        *err = p.why.code != ZF_OK ? p.why : *err;
        return NULL;
    }
    if (fingerprint_take(o->opener, c->l->path, found->want, o->lim).same != found->print.same) {
        return zf_null(
            zf_fail(err, ZF_E_BUSY, ZF_OFF_NONE, "it changed while it was being opened"));
    }
    return zf_give(tree);
}

/* Shows the save that the pass wants, or skips it from now on.  False: no memory. */
static bool current_try(struct current *c, const struct pass *found, bool *shown_out,
                        struct zf_err *err)
{
    uint16_t withheld = 0;
    struct zf_err why = {.code = ZF_OK};
    struct zf_tree *tree = current_open(c, found, &withheld, &why);

    *shown_out = false;
    if (!tree) {
        struct known *k = current_known(c, found->want, err);

        if (k)
            current_pass_over(c, k, found->print.same, &why);
        return k != NULL;
    }
    zf_auto(store) struct zf_store *store = zf_store_ref(zf_tree_checkpoint(tree)->store);
    zf_auto(mem) char *name = strdup(found->want);
    zf_auto(run_entry) struct run_entry *e = run_list_opened(
        c->l, *found->want ? found->want : c->l->path, CURRENT, tree, withheld, err);
    if (!name)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for a save");
    *shown_out = e && current_show(c, e, zf_give(name), found->print.same, store, err);
    return *shown_out;
}

/* Handles a search that found neither the shown save nor one to show.  why: how it ended. */
static bool current_lack(struct current *c, const struct zf_err *why, struct zf_err *err)
{
    if (c->name && (zf_err_unknown(why) || current_is_intact(c)))
        return true;
    if (!c->name) {
        current_say_shown(c, NULL);
        return true;
    }
    return current_show(c, NULL, NULL, 0, NULL, err);
}

/* Looks until the newest complete save is shown.  Each pass finds it, or finds something against a newer one. */
static bool current_look(struct current *c, struct zf_err *err)
{
    bool ok = true, shown = false;

    c->look++;
    while (ok && !shown) {
        struct pass p = {.c = c};
        struct zf_err why = {.code = ZF_OK};
        uint16_t withheld;

        zf_tree_free(current_pass(&p, &withheld, &why)); /* a search returns NULL */
        zf_auto(mem) char *want = p.want;
        if (want) {
            ok = current_try(c, &p, &shown, err);
        } else {
            ok = p.over || current_lack(c, &why, err);
            shown = true;
        }
    }
    current_forget(c);
    return ok;
}

/* ---- the thread ------------------------------------------------------------------------------------ */

static void *current_run(void *arg)
{
    struct current *c = arg;
    const int64_t poll = (int64_t)c->l->o.poll_ns;
    int64_t wait = poll;

    (void)pthread_mutex_lock(&c->lock);
    while (!c->over) {
        struct zf_err err;
        const int64_t ms = wait / 1000000;

        if (zf_thread_wait(&c->end, &c->lock,
                           (unsigned)(ms < LEAST_MS  ? LEAST_MS
                                      : ms > MOST_MS ? MOST_MS
                                                     : ms)))
            continue;
        (void)pthread_mutex_unlock(&c->lock);
        const int64_t began = zf_clock_ns();
        if (!current_look(c, &err))
            zf_log_say(c->l->log, &err);
        const int64_t rest = (zf_clock_ns() - began) * REST;
        wait = rest > poll ? rest : poll;
        (void)pthread_mutex_lock(&c->lock);
    }
    (void)pthread_mutex_unlock(&c->lock);
    return NULL;
}

static void current_fini(struct current *c)
{
    c->look++;
    current_forget(c);
    zf_vec_fini(&c->known);
    free(c->name);
    zf_store_unref(&c->store);
    (void)pthread_mutex_destroy(&c->lock);
    (void)pthread_cond_destroy(&c->end);
    free(c);
}

struct current *current_new(struct run_list *t, struct zf_err *err)
{
    struct current *c = calloc(1, sizeof *c);

    if (!c)
        return zf_null(zf_fail_sys(err, "look for the newest save"));
    c->l = t;
    (void)pthread_mutex_init(&c->lock, NULL);
    (void)pthread_cond_init(&c->end, NULL);
    if (!current_look(c, err)) {
        current_fini(c);
        return NULL;
    }
    errno = zf_thread_start(&c->thread, current_run, c);
    if (errno) {
        (void)zf_fail_sys(err, "start a thread");
        current_fini(c);
        return NULL;
    }
    return c;
}

void current_free(struct current *c)
{
    if (c) {
        (void)pthread_mutex_lock(&c->lock);
        c->over = true;
        (void)pthread_cond_signal(&c->end);
        (void)pthread_mutex_unlock(&c->lock);
        (void)pthread_join(c->thread, NULL);
        current_fini(c);
    }
}
