/* SPDX-License-Identifier: Apache-2.0 */
#include "open.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <zf/find.h>
#include <zf/overlay/runs.h>
#include <zf/source/gate.h>

#include "access.h"
#include "kept.h"
#include "opening.h"
#include "recipe_file.h"
#include "remote.h"
#include "where.h"

static struct zf_store *open_place(void *ctx, const char *where, const struct zf_limits *lim,
                                   struct zf_err *err)
{
    const struct opts *o = ctx;

    if (!where_is_remote(where)) {
        const struct zf_dir_opts how = {
            .xdev = o->xdev,
            .links = o->links,
            .shared = opts_passes(o, "allow_other") || opts_passes(o, "allow_root"),
            .strict = o->changed == CHANGED_STRICT,
        };

        return zf_store_dir_with(where, &how, lim, err);
    }
    struct zf_remote *remote = remote_of(o, err);
    return remote ? zf_remote_open(remote, where, lim, err) : NULL;
}

struct zf_opener open_opener(const struct opts *o)
{
    return (struct zf_opener){.open = open_place, .ctx = (void *)(uintptr_t)o};
}

static bool open_wants_selection(const struct opts *o)
{
    return o->strip_prefix || o->rename.n || o->only.n || o->except.n;
}

/* Warns of a pattern that matches nothing, because it may be a typing error. */
static void open_warn_unused(void *ctx, const char *option, const char *value)
{
    (void)ctx;
    opening_clear();
    (void)fprintf(stderr, "zerofs: warning: %s=%s matches no tensor\n", option, value);
}

/* Gives the same warning for the patterns of keep=, an option of the view. */
static void open_warn_unused_keep(const struct zf_checkpoint *c, const struct opts *o)
{
    for (uint32_t k = 0; k < o->keep.n; k++) {
        bool used = false;

        for (uint32_t s = 0; !used && s < c->n_sets; s++)
            for (uint32_t i = 0; !used && i < c->set[s].n; i++)
                used = fnmatch(o->keep.at[k], c->set[s].tensor[i].name, 0) == 0;
        if (!used)
            open_warn_unused(NULL, "keep", o->keep.at[k]);
    }
}

static struct zf_open_opts open_how(const struct opts *o, const struct zf_opener *opener,
                                    const struct kept *k)
{
    return (struct zf_open_opts){
        .lim = &o->lim,
        .opener = opener,
        .format = o->format,
        .tag = o->tag,
        .side = o->side,
        .tp_rules = o->tp_rules,
        .degraded = o->degraded,
        .fill_lost = o->lost == LOST_NAN,
        .copies = o->all_copies,
        .bare = o->bare,
        .sealing = k && k->keep ? zf_keep_sealing : NULL,
        .sealing_ctx = k ? k->keep : NULL,
    };
}

static struct zf_checkpoint *open_found(struct zf_store *st, const struct opts *o, struct kept *k,
                                        struct zf_err *err)
{
    const struct zf_opener opener = open_opener(o);
    const struct zf_open_opts how = open_how(o, &opener, k);

    return zf_open(st, &how, err);
}

/* Applies the options that select and rename tensors.  Takes c, which may be NULL. */
static struct zf_checkpoint *open_selected(struct zf_checkpoint *c, const struct opts *o,
                                           struct zf_err *err)
{
    struct zf_select select = {
        .strip_prefix = o->strip_prefix,
        .only = (const char *const *)o->only.at,
        .n_only = o->only.n,
        .except = (const char *const *)o->except.at,
        .n_except = o->except.n,
        .rename = (const char *const *)o->rename.at,
        .n_rename = o->rename.n,
        .unused = open_warn_unused,
    };

    return c && open_wants_selection(o) ? zf_checkpoint_select(c, &select, err) : c;
}

/* Completes the path in a failure: sources give the path as the user would, formats give it relative to
 * the directory of the checkpoint, which is then put in front. */
static void open_say_where(const struct zf_store *st, const char *path, struct zf_err *err)
{
    const char *at = st && err->path[0] ? zf_store_name(st) : path;
    const char *slash = strrchr(at, '/');
    /* If the user gave a file, paths are relative to its directory. */
    bool file = at != path && zf_store_focus(st);
    int n = (int)(!file ? strlen(at) : slash ? (size_t)(slash - at) : 0);

    if (n && strncmp(err->path, at, (size_t)n) != 0)
        (void)zf_err_in(err, "%.*s", n, at);
}

/* Opens the newest complete save of a run, as -o tag=whole does; *st_out: its store, also if it is refused, or NULL. */
static struct zf_checkpoint *open_chosen(const char *run, const struct opts *o,
                                         const struct zf_choice *choice, struct zf_store **st_out,
                                         struct kept *k, struct zf_err *err)
{
    const struct zf_opener opener = open_opener(o);
    struct zf_open_opts how = open_how(o, &opener, k);

    *st_out = NULL;
    how.choice = choice;
    how.tag = "whole";
    if (!where_check(run, err))
        return NULL;
    *st_out = zf_store_by(&opener, run, &o->lim, err);
    struct zf_checkpoint *c = *st_out ? zf_open(*st_out, &how, err) : NULL;
    if (!c && *st_out)
        open_say_where(*st_out, run, err);
    return c;
}

bool open_newest(const char *run, const struct opts *o, const struct zf_choice *choice,
                 bool *changed_out, struct zf_err *err)
{
    struct zf_store *of;
    /* Checking a save may take much longer than opening. */
    zf_auto(opening) struct opening line = {.mine = false};

    line = choice->accepts ? line : opening_begin(true);
    zf_auto(checkpoint) struct zf_checkpoint *c = open_chosen(run, o, choice, &of, NULL, err);
    zf_auto(store) struct zf_store *st = of;
    struct zf_err changed;

    *changed_out = st && !zf_store_unchanged(st, &changed);
    if (*changed_out)
        *err = changed;
    return c && !*changed_out;
}

/* Tries the cached model, with a separate store, because its requests do not belong to an opening.  False:
 * the path does not exist, or the server does not answer, and a second store would wait as long
 * again. */
static bool open_kept(const char *path, const struct opts *o, struct kept *k,
                      struct zf_checkpoint **c_out, struct zf_err *err)
{
    const struct zf_opener opener = open_opener(o);

    *c_out = NULL;
    if (!kept_has(k))
        return true;
    zf_auto(store) struct zf_store *st = zf_store_by(&opener, path, &o->lim, err);
    if (st)
        *c_out = kept_load(k, st);
    return st != NULL;
}

/* A file system that caches attributes may list a file only seconds after it was written, and later than the index that
 * names it.  So on these, a missing file of a save younger than this is looked up once more. */
#define OPEN_YOUNG_SECONDS 60
#define OPEN_LATE_SECONDS 2

static bool open_is_early(const struct zf_store *st, const struct zf_err *err)
{
    const struct timespec wait = {.tv_sec = OPEN_LATE_SECONDS};
    const time_t age = time(NULL) - zf_store_mtime(st).tv_sec;

    if (!zf_store_lags(st) || age > OPEN_YOUNG_SECONDS || age < -OPEN_YOUNG_SECONDS ||
        (err->code != ZF_E_FORMAT && err->code != ZF_E_NOENT))
        return false;
    (void)nanosleep(&wait, NULL);
    return true;
}

/* Reads a checkpoint.  *changed_out: files changed meanwhile, so that neither a checkpoint nor a refusal
 * is valid; *err names the file. */
static struct zf_checkpoint *open_read(const char *path, const struct opts *o, struct kept *k,
                                       bool *changed_out, struct zf_err *err)
{
    const struct zf_opener opener = open_opener(o);
    zf_auto(store) struct zf_store *st = zf_store_by(&opener, path, &o->lim, err);
    struct zf_checkpoint *c = st ? open_found(st, o, k, err) : NULL;
    struct zf_err changed;

    *changed_out = st && !zf_store_unchanged(st, &changed);
    if (*changed_out) {
        zf_checkpoint_free(c);
        *err = changed;
        return NULL;
    }
    if (c) {
        kept_put(k, st, c, o);
        c = open_selected(c, o, err);
    }
    if (!c && st && err->code == ZF_E_UNKNOWN)
        where_below(path, err);
    if (!c && st && err->code != ZF_E_USAGE)
        open_say_where(st, path, err);
    *changed_out = !c && st && open_is_early(st, err);
    return c;
}

static struct zf_checkpoint *open_once(const char *path, const struct opts *o, bool *changed_out,
                                       struct zf_err *err)
{
    zf_auto(kept) struct kept k = {.keep = NULL};

    *changed_out = false;
    if (!where_check(path, err))
        return NULL;
    struct zf_checkpoint *c;
    if (!kept_begin(&k, path, o, err) || !open_kept(path, o, &k, &c, err))
        return NULL;
    return c ? open_selected(c, o, err) : open_read(path, o, &k, changed_out, err);
}

/* Adds hf/ by -o recipe=.  Takes c, which may be NULL. */
static struct zf_checkpoint *open_model(struct zf_checkpoint *c, const struct opts *o,
                                        struct zf_err *err)
{
    zf_auto(checkpoint) struct zf_checkpoint *of = c;
    zf_auto(mem) char *text = NULL;
    struct zf_hf_opts how;

    if (!of || (o->recipe && strcmp(o->recipe, "off") == 0))
        return zf_give(of);
    return recipe_file_read(o->recipe, &o->lim, &how, &text, err) && zf_hf_model(of, &how, err)
               ? zf_give(of)
               : NULL;
}

/* Opens the checkpoint without hf/. */
static struct zf_checkpoint *open_bare(const char *path, const struct opts *o, struct zf_err *err)
{
    /* A read of a mount may open a save: it waits, and does not fail with ZF_E_BUSY. */
    bool changed, yields = zf_gate_yielding(false);
    struct zf_checkpoint *c = open_once(path, o, &changed, err);

    /* The writer may have finished by now, and new files may be listed. */
    c = changed ? open_once(path, o, &changed, err) : c;
    (void)zf_gate_yielding(yields);
    return c;
}

struct zf_checkpoint *open_checkpoint(const char *path, const struct opts *o, struct zf_err *err)
{
    zf_auto(opening) struct opening line = opening_begin(false);

    return open_model(open_bare(path, o, err), o, err);
}

/* All that is needed to make the model of hf/ later. */
struct open_later {
    struct zf_limits lim;
    struct zf_gate *gate; /* held while the settings are read, as storage may hang; others wait */
};

static bool open_later_model(void *ctx, struct zf_checkpoint *c, struct zf_err *err)
{
    const struct open_later *l = ctx;
    const struct zf_hf_opts how = {.lim = &l->lim, .fits = true};
    const bool yields = zf_gate_yielding(false);
    const bool ok = zf_hf_model(c, &how, err);

    (void)zf_gate_yielding(yields);
    return ok || zf_err_in(err, "hf/");
}

static bool open_later_enter(void *ctx, bool wait, bool *held_out, struct zf_err *err)
{
    const struct open_later *l = ctx;

    *held_out = false;
    return wait || zf_gate_enter(l->gate, held_out, err);
}

static void open_later_leave(void *ctx, bool held)
{
    const struct open_later *l = ctx;

    zf_gate_leave(l->gate, held);
}

static void open_later_free(void *ctx)
{
    struct open_later *l = ctx;

    zf_gate_unref(l->gate);
    free(l);
}

/* Prepares hf/ for later, but applies a recipe that the user named at once, so that it can be refused.  Takes c and
 * frees it on failure. */
static struct zf_checkpoint *open_begin(struct zf_checkpoint *c, const struct opts *o,
                                        struct zf_view_later *out, struct zf_err *err)
{
    zf_auto(checkpoint) struct zf_checkpoint *of = c;
    const struct zf_hf_opts how = {.lim = &o->lim};
    bool later;

    if (!of || o->recipe)
        return open_model(zf_give(of), o, err);
    if (!zf_hf_begin(of, &how, &later, err))
        return NULL;
    if (later) {
        struct open_later *l = calloc(1, sizeof *l);

        if (!l || !(l->gate = zf_gate_new())) {
            free(l);
            return zf_null(zf_fail_sys(err, "make a tree"));
        }
        l->lim = o->lim;
        *out = (struct zf_view_later){.model = open_later_model,
                                      .enter = open_later_enter,
                                      .leave = open_later_leave,
                                      .free = open_later_free,
                                      .ctx = l};
    }
    return zf_give(of);
}

bool open_is_damage(const char *path, const struct opts *o, const struct zf_err *err)
{
    return !o->degraded && (err->code == ZF_E_FORMAT || err->code == ZF_E_NOENT ||
                            (err->code == ZF_E_IO && err->sys == 0 && !where_is_remote(path)));
}

static bool open_has_tensors(const struct zf_checkpoint *c)
{
    uint64_t n = 0;

    for (uint32_t i = 0; c && i < c->n_sets; i++)
        n += c->set[i].n;
    return n > 0;
}

bool open_is_refused(const char *path, const struct opts *o, const struct zf_checkpoint *c,
                     struct zf_err *why_out)
{
    struct opts again = *o; /* borrows its strings */

    if (c->n_notes == 0)
        return false;
    again.degraded = false;
    again.model_cache = (char *)"off"; /* read the files themselves */
    zf_auto(checkpoint) struct zf_checkpoint *plain = open_checkpoint(path, &again, why_out);
    return !plain;
}

/* True if opening with -o degraded, which is tried here, avoids the refusal. */
static bool open_is_past(const char *path, const struct opts *o, const struct zf_err *err)
{
    struct opts again = *o; /* borrows its strings */
    struct zf_err ignored;

    if (!open_is_damage(path, o, err) && (o->degraded || err->code != ZF_E_UNSUPPORTED))
        return false;
    again.degraded = true;
    zf_auto(checkpoint) struct zf_checkpoint *c = open_checkpoint(path, &again, &ignored);
    return open_has_tensors(c);
}

void open_say_remedy(const char *path, const struct opts *o, struct zf_err *err)
{
    const char *limit = err->code == ZF_E_LIMIT ? zf_limit_name(err->limit) : NULL;

    if (err->hint)
        return;
    if (limit)
        zf_err_hint(err, "-o limit=%s=N raises it", limit);
    else if (open_is_past(path, o, err))
        zf_err_hint(err, "-o degraded shows the rest");
}

/* Makes the tree of c, which it takes; later: from open_begin. */
static struct zf_tree *open_view(struct zf_checkpoint *c, const struct opts *o,
                                 const struct zf_view_later *later, struct zf_err *err)
{
    struct zf_view_opts how = {
        .shard_size = o->shard_size,
        .keep = (const char *const *)o->keep.at,
        .n_keep = o->keep.n,
        .lim = &o->lim,
        .show = o->shown,
        .omit_lost = o->lost == LOST_OMIT,
        .later = *later,
    };

    open_warn_unused_keep(c, o);
    return zf_tree_new(c, &how, err);
}

/* Opens a tree without a progress line, for mounts, which open saves while they serve. */
static struct zf_tree *open_tree_served(const char *path, const struct opts *o, struct zf_err *err)
{
    struct zf_view_later later = {.model = NULL};
    struct zf_checkpoint *c = open_begin(open_bare(path, o, err), o, &later, err);

    return c ? open_view(c, o, &later, err) : NULL;
}

struct zf_tree *open_tree(const char *path, const struct opts *o, struct zf_err *err)
{
    zf_auto(opening) struct opening line = opening_begin(false);

    return open_tree_served(path, o, err);
}

struct zf_tree *open_asked(const char *path, const struct opts *o, struct zf_err *err)
{
    struct zf_tree *tree = open_tree(path, o, err);

    if (!tree)
        open_say_remedy(path, o, err);
    return tree;
}

bool open_listing(struct zf_tree *t, const struct opts *o, bool all)
{
    if (all || !o->show.n)
        zf_tree_list_all(t);
    return all || o->show.n;
}

uint16_t open_withheld(const struct zf_tree *t, const char *path, const struct opts *o,
                       struct zf_log *log)
{
    zf_auto(access) struct access a = {.gid = (gid_t)o->gid};
    struct zf_err why;

    /* Remote objects have no owner or mode. */
    if (!opts_passes(o, "allow_other") || where_is_remote(path))
        return 0;
    access_add_checkpoint(&a, zf_tree_checkpoint(t), path);
    if (a.first) {
        (void)zf_fail(&why, ZF_E_IO, ZF_OFF_NONE,
                      "its mode %04o keeps %s out of the mount, despite allow_other",
                      (unsigned)a.its_mode,
                      a.withheld & 0005 ? "other users" : "users of the group");
        (void)zf_err_in(&why, "%s", a.first);
        zf_log_say(log, &why);
    }
    return (uint16_t)a.withheld;
}

static struct zf_tree *open_save(void *ctx, const char *run, const char *tag,
                                 uint16_t *withheld_out, struct zf_err *err)
{
    const struct open_saves *s = ctx;
    struct opts o = *s->o; /* borrows its strings */

    o.tag = (char *)tag;
    struct zf_tree *tree = open_tree_served(run, &o, err);
    *withheld_out = tree ? open_withheld(tree, run, s->o, s->log) : 0;
    return tree;
}

/* Opens the save that the choice considers first, from the cached model or caching it for the next time. */
static struct zf_checkpoint *open_first(const char *run, const struct opts *o,
                                        const struct zf_choice *choice, struct zf_err *err)
{
    zf_auto(kept) struct kept k = {.keep = NULL};
    struct zf_store *of;
    struct zf_err changed;
    struct zf_checkpoint *c = NULL;

    if (choice->first && (!kept_begin(&k, run, o, err) || !open_kept(run, o, &k, &c, err)))
        return NULL;
    if (c && strcmp(c->tag, choice->first) == 0)
        return c;
    zf_checkpoint_free(c); /* it is of another save */
    c = open_chosen(run, o, choice, &of, &k, err);
    zf_auto(store) struct zf_store *st = of;
    if (c && k.keep && zf_store_unchanged(st, &changed))
        kept_put(&k, st, c, o);
    return c;
}

static struct zf_tree *open_whole(void *ctx, const char *run, const struct zf_choice *choice,
                                  uint16_t *withheld_out, struct zf_err *err)
{
    const struct open_saves *s = ctx;
    struct zf_view_later later = {.model = NULL};
    struct zf_checkpoint *c = open_first(run, s->o, choice, err);

    c = open_begin(c ? open_selected(c, s->o, err) : NULL, s->o, &later, err);
    struct zf_tree *tree = c ? open_view(c, s->o, &later, err) : NULL;
    *withheld_out = tree ? open_withheld(tree, run, s->o, s->log) : 0;
    return tree;
}

static uint16_t open_save_withheld(void *ctx, const char *dir)
{
    const struct open_saves *s = ctx;
    zf_auto(access) struct access a = {.gid = (gid_t)s->o->gid};

    if (opts_passes(s->o, "allow_other") && !where_is_remote(dir))
        access_add(&a, dir);
    return (uint16_t)a.withheld;
}

struct zf_tree *open_run(const char *path, const struct open_saves *s, struct zf_err *err)
{
    const struct zf_run_opts how = {
        .lim = &s->o->lim,
        .opener = &s->opener,
        .open = open_save,
        .open_whole = open_whole,
        .poll_ns = s->o->poll,
        .withheld = open_save_withheld,
        .ctx = (void *)s,
    };

    return (s->o->current ? zf_current_tree : zf_runs_tree)(path, &how, s->log, err);
}
