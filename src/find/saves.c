/* SPDX-License-Identifier: Apache-2.0 */
/* A directory is a save if a family fits it (match.c).  A weak fit (only optimizer files, or an
 * unfinished save) counts only if there is no other save next to it.
 *
 * Directories are searched level by level; all saves of the first level that has any are the result.
 * Directories that are parts of one save (model/, optim/) count as their parent directory. */
#include "saves.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/ahead.h>
#include <zf/base/path.h>
#include <zf/base/vec.h>

#include "foreign.h"
#include "latest.h"
#include "match.h"
#include "save_name.h"

/* At most this many levels (experiment / run / checkpoint-60), and this many directories per
 * level. */
enum { SAVES_DEPTH = 3, SAVES_DIRS = 128 };
/* At most this many neighbouring saves are searched for files that a save lacks. */
enum { SAVES_BESIDE = 16 };

void zf_saves_free(struct zf_saves *s)
{
    for (size_t i = 0; i < s->n; i++)
        free(s->at[i].path);
    zf_vec_fini(s);
    *s = (struct zf_saves){.at = NULL};
}

bool saves_add(struct zf_saves *s, const char *dir, const char *name, struct zf_err *err)
{
    zf_auto(mem) char *path = zf_relpath_join(dir, name, err);
    struct zf_save_dir *d = path ? zf_vec_push(s, err) : NULL;

    if (!d)
        return false;
    const char *slash = strrchr(path, '/');
    d->step = d->number = -1;
    if (save_name_step(path, &d->step))
        d->number = d->step;
    else
        (void)save_name_number(slash ? slash + 1 : path, &d->number);
    d->path = zf_give(path);
    return true;
}

void saves_drop(struct zf_save_dir *d)
{
    free(d->path);
    d->path = NULL;
}

void saves_squeeze(struct zf_saves *s)
{
    size_t n = 0;

    for (size_t i = 0; i < s->n; i++)
        if (s->at[i].path)
            s->at[n++] = s->at[i];
    s->n = n;
}

bool saves_are_parts(const struct zf_saves *s)
{
    size_t n = 0;

    while (n < s->n && save_name_is_part(s->at[n].path))
        n++;
    return n == s->n;
}

void saves_drop_release(struct zf_saves *s)
{
    bool iterations = false;

    for (size_t i = 0; i < s->n; i++)
        iterations = iterations || strncmp(s->at[i].path, "iter_", 5) == 0;
    for (size_t i = 0; i < s->n; i++)
        if (iterations && strcmp(s->at[i].path, "release") == 0)
            saves_drop(&s->at[i]);
    saves_squeeze(s);
}

static int saves_newer(const void *a, const void *b)
{
    const struct zf_save_dir *x = a, *y = b;

    return x->number < y->number ? 1 : x->number > y->number ? -1 : strcmp(x->path, y->path);
}

void saves_sort_newest(struct zf_saves *s)
{
    if (s->n > 0)
        qsort(s->at, s->n, sizeof *s->at, saves_newer);
}

void saves_print(const struct zf_saves *s, const char *above, char *out, size_t n)
{
    size_t at = 0;

    out[0] = '\0';
    for (size_t i = 0; i < s->n; i++) {
        int more = snprintf(out + at, n - at, "%s%s%s%s", i ? ", " : "", above ? above : "",
                            above ? "/" : "", s->at[i].path);
        if (more < 0 || (size_t)more >= n - at - 8) {
            (void)snprintf(out + at, n - at, "%s…", i ? ", " : "");
            return;
        }
        at += (size_t)more;
    }
}

/* Is `name` in `dir` only a link to another directory next to it ("last" -> "step-60")? */
static bool saves_is_twin(struct zf_store *st, const char *dir, const char *name)
{
    struct zf_err ignored = {.code = ZF_OK};
    zf_auto(mem) char *path = zf_relpath_join(dir, name, &ignored);
    zf_auto(store) struct zf_store *sub = path ? zf_store_sub(st, path, &ignored) : NULL;

    if (!sub || strcmp(zf_store_base(sub), name) == 0)
        return false;
    zf_auto(mem) char *other = zf_relpath_join(dir, zf_store_base(sub), &ignored);
    return other && zf_store_has(st, other, ZF_ENTRY_DIR);
}

/* ---- one directory --------------------------------------------------------------------------- */

/* Does `dir` have a file that matches?  DeepSpeed writes the model's file first. */
static bool saves_has_file(struct zf_store *st, const char *dir, const char *pattern)
{
    for (struct zf_entries l = zf_store_entries(st, dir); l.e < l.end; l.e++)
        if (l.e->kind == ZF_ENTRY_FILE && fnmatch(pattern, l.e->name, 0) == 0)
            return true;
    return false;
}

/* Is this a DeepSpeed save with only the model's files, while others of the series have an optimizer?  Then it is
 * unfinished, or half of it was removed. */
static bool saves_lacks_optimizer(struct zf_store *st, const char *dir)
{
    static const char model[] = "*mp_rank_*_model_states.pt", optim[] = "*_optim_states.pt";
    const char *slash = strrchr(dir, '/'), *base = slash ? slash + 1 : dir;
    struct zf_err ignored = {.code = ZF_OK};
    zf_auto(mem) char *above = strndup(dir, slash ? (size_t)(slash - dir) : 0);
    unsigned seen = 0;

    if (!above || !saves_has_file(st, dir, model) || saves_has_file(st, dir, optim))
        return false;
    for (struct zf_entries l = zf_store_entries(st, above); l.e < l.end && seen < SAVES_BESIDE;
         l.e++) {
        if (l.e->kind != ZF_ENTRY_DIR || !save_name_same_series(l.e->name, base))
            continue;
        zf_auto(mem) char *path = zf_relpath_join(above, l.e->name, &ignored);
        if (path && saves_has_file(st, path, optim))
            return true;
        seen++;
    }
    return false;
}

/* How well `dir` fits a family, as far as it can be read: NAMES if two families fit equally well, so that opening it
 * reports that; WEAK if it is unfinished. */
static enum zf_fit saves_fit(struct zf_store *st, const char *dir, const struct zf_limits *lim)
{
    struct zf_open_opts o = {.lim = lim};
    struct zf_err err = {.code = ZF_OK};
    zf_auto(match) struct match m = {.format = NULL};
    zf_auto(store) struct zf_store *sub = zf_store_sub(st, dir, &err);

    /* A parameter of a universal checkpoint is no save.  Source: deepspeed/checkpoint/constants.py
     * (0.14 … 0.18), FP32_WEIGHT_KEY. */
    if (!sub || zf_store_has(sub, "fp32.pt", ZF_ENTRY_FILE))
        return ZF_FIT_NO;
    if (foreign_whole(sub, NULL, &err))
        return ZF_FIT_NAMES; /* opening it will report what it is */
    if (!match_dir(sub, &o, &m, &err))
        return err.code == ZF_E_FORMAT ? ZF_FIT_NAMES : ZF_FIT_NO;
    bool begun = m.format && (m.probe.unfinished || saves_lacks_optimizer(st, dir));
    return !m.format ? ZF_FIT_NO : begun ? ZF_FIT_WEAK : m.probe.fit;
}

void saves_examine(struct zf_store *st, struct zf_saves *s, size_t i, const struct zf_limits *lim)
{
    const uint64_t since = zf_store_failures(st);
    struct zf_save_dir *d = &s->at[i];
    struct zf_err why;

    d->fit = saves_fit(st, d->path, lim);
    if (d->fit != ZF_FIT_PROOF && zf_store_failure(st, since, 0, &why)) {
        d->fit = ZF_FIT_NAMES;
        if (!s->unknown.code)
            s->unknown = why;
    }
    /* Read errors matter only if this save is chosen. */
    zf_store_forget_failures(st, since);
}

/* Directories that are examined in parallel. */
struct saves_look {
    struct zf_store *st;
    const struct zf_limits *lim;
    const struct zf_saves *dirs;
};

static void *saves_look(void *ctx, uint64_t i, struct zf_err *err)
{
    const struct saves_look *l = ctx;

    (void)err;
    (void)saves_fit(l->st, l->dirs->at[i].path, l->lim);
    return ctx;
}

/* In a remote store, examining a directory takes several sequential requests.  So all directories are first
 * examined in parallel, and the store has cached the answers when each is examined in order. */
static void saves_look_ahead(struct zf_store *st, const struct zf_saves *dirs,
                             const struct zf_limits *lim)
{
    struct saves_look l = {.st = st, .lim = lim, .dirs = dirs};
    struct zf_err ignored;

    if (!zf_store_is_far(st) || dirs->n < 2)
        return;
    const struct zf_ahead_work work = {
        .make = saves_look, .ctx = &l, .most = zf_store_ahead(st), .few = ZF_AHEAD_FAR};
    (void)!zf_ahead_all(work, dirs->n, &ignored);
}

static bool saves_is_named(const char *name)
{
    return !save_name_is_ignored(name) && save_name_is_step(name);
}

static bool saves_may_be(const char *name)
{
    return !save_name_is_ignored(name);
}

static bool saves_may_lead_on(const char *name)
{
    return name[0] != '.' && !save_name_is_unfinished(name);
}

/* Adds the directories in `dir` whose names fit until s has `most`.  A link to one of them is not listed, too. */
static bool saves_add_dirs(struct zf_store *st, const char *dir, bool (*fits)(const char *name),
                           size_t most, struct zf_saves *s, struct zf_err *err)
{
    const struct zf_entry *e;
    size_t n;

    if (!zf_store_list(st, dir, &e, &n, err))
        return false;
    for (size_t i = 0; i < n && s->n < most; i++)
        if (e[i].kind == ZF_ENTRY_DIR && fits(e[i].name) && !saves_is_twin(st, dir, e[i].name) &&
            !saves_add(s, dir, e[i].name, err))
            return false;
    return true;
}

/* Finds the saves in `dir`: all that fit a family well or, if there are none, the weak fits.  Of kind ZF_SAVES_BOTH
 * also the directories named like saves. */
static bool saves_in(struct zf_store *st, const char *dir, enum zf_saves_kind kind,
                     const struct zf_limits *lim, struct zf_saves *out, struct zf_err *err)
{
    size_t whole = 0, weak = 0;

    if (!saves_add_dirs(st, dir, saves_may_be, SIZE_MAX, out, err))
        return false;
    const uint64_t since = zf_store_failures(st);
    saves_look_ahead(st, out, lim);
    for (size_t i = 0; i < out->n; i++) {
        saves_examine(st, out, i, lim);
        whole += out->at[i].fit > ZF_FIT_WEAK;
        weak += out->at[i].fit == ZF_FIT_WEAK;
    }
    zf_store_forget_failures(st, since); /* those of saves_look_ahead, as saves_examine does */
    const enum zf_fit least = whole ? ZF_FIT_NAMES : ZF_FIT_WEAK;
    for (size_t i = 0; i < out->n; i++)
        if (out->at[i].fit < least &&
            !(kind == ZF_SAVES_BOTH && save_name_is_step(out->at[i].path)))
            saves_drop(&out->at[i]);
    saves_squeeze(out);
    out->weak = whole ? weak : 0;
    out->begun = weak > 0 && !whole;
    return true;
}

/* The index of the save that a pointer file, or a link `latest`, names; s->n: none. */
static bool saves_find_latest(struct zf_store *st, struct zf_saves *s, struct zf_err *err)
{
    zf_auto(latest) struct latest l = {.state = LATEST_UNREAD};

    s->latest = s->n;
    if (!latest_find(st, false, &l, err))
        return !zf_err_unknown(err);
    const char *base = l.save ? zf_store_base(l.save) : l.name;
    for (size_t i = 0; l.name && i < s->n; i++)
        if (strcmp(s->at[i].path, l.name) == 0 || strcmp(s->at[i].path, base) == 0)
            s->latest = i;
    return true;
}

bool zf_saves_list(struct zf_store *st, enum zf_saves_kind kind, const struct zf_limits *lim,
                   struct zf_saves *out, struct zf_err *err)
{
    const uint64_t nomem = zf_err_nomem_count();

    *out = (struct zf_saves){.at = NULL};
    bool ok = kind == ZF_SAVES_NAMED
                  ? saves_add_dirs(st, "", saves_is_named, SIZE_MAX, out, err)
                  : saves_in(st, "", kind, lim, out, err) && saves_find_latest(st, out, err);
    /* A directory must not be missing in the result for lack of memory. */
    if (ok && zf_err_nomem_count() != nomem)
        ok = zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    if (!ok)
        zf_saves_free(out);
    return ok;
}

/* ---- further down ---------------------------------------------------------------------------- */

/* Adds the saves in `dir`, or dir itself if they are its parts.  A directory below the root has none if it is certain that
 * it cannot be listed (too many entries). */
static bool saves_search(struct zf_store *st, const char *dir, const struct zf_limits *lim,
                         struct zf_saves *out, struct zf_err *err)
{
    zf_auto(saves) struct zf_saves s = {.at = NULL};
    struct zf_err why = {.code = ZF_OK};

    if (!saves_in(st, dir, ZF_SAVES_WHOLE, lim, &s, &why)) {
        const bool fails = !*dir || zf_err_unknown(&why);

        if (fails)
            *err = why;
        return !fails;
    }
    if (out->unknown.code == ZF_OK)
        out->unknown = s.unknown;
    out->begun = s.n > 0 ? s.begun && (out->begun || out->n == 0) : out->begun;
    if (*dir && s.n > 1 && saves_are_parts(&s))
        return saves_add(out, "", dir, err);
    for (size_t i = 0; i < s.n; i++)
        if (!saves_add(out, "", s.at[i].path, err))
            return false;
    out->weak += s.weak;
    return true;
}

/* Does the directory `name` in `dir` have subdirectories? */
static bool saves_has_dirs(struct zf_store *st, const char *dir, const char *name)
{
    struct zf_err ignored = {.code = ZF_OK};
    zf_auto(mem) char *path = zf_relpath_join(dir ? dir : "", name, &ignored);

    for (struct zf_entries l = zf_store_entries(st, path ? path : ""); path && l.e < l.end; l.e++)
        if (l.e->kind == ZF_ENTRY_DIR)
            return true;
    return false;
}

/* Are there directories next to the only save of s that were not searched? */
static bool saves_unseen(struct zf_store *st, const struct zf_saves *s)
{
    const char *name = s->at[0].path, *slash;

    for (size_t above = 0;; above = (size_t)(slash - name) + 1) {
        zf_auto(mem) char *dir = strndup(name, above ? above - 1 : 0);
        const char *next = name + above;

        slash = strchr(next, '/');
        const size_t n = slash ? (size_t)(slash - next) : strlen(next);
        for (struct zf_entries l = zf_store_entries(st, dir ? dir : ""); l.e < l.end; l.e++) {
            bool mine = strncmp(l.e->name, next, n) == 0 && l.e->name[n] == '\0';

            if (l.e->kind == ZF_ENTRY_DIR && !mine && saves_has_dirs(st, dir, l.e->name))
                return true;
        }
        if (!slash)
            return false;
    }
}

bool saves_nearest(struct zf_store *st, const struct zf_limits *lim, struct zf_saves *out,
                   struct zf_err *err)
{
    zf_auto(saves) struct zf_saves dirs = {.at = NULL};
    struct zf_err why;

    *out = (struct zf_saves){.at = NULL};
    bool ok = saves_add(&dirs, "", "", err);
    for (int depth = 0; ok && depth < SAVES_DEPTH && dirs.n && out->n == 0; depth++) {
        zf_auto(saves) struct zf_saves now = dirs;

        dirs = (struct zf_saves){.at = NULL};
        for (size_t i = 0; ok && i < now.n; i++) {
            ok = saves_search(st, now.at[i].path, lim, out, err);
            /* A directory that cannot be listed leads nowhere. */
            if (ok && out->n == 0 &&
                !saves_add_dirs(st, now.at[i].path, saves_may_lead_on, SAVES_DIRS, &dirs, &why))
                ok = why.code != ZF_E_NOMEM || ((*err = why), false);
        }
    }
    if (!ok) {
        zf_saves_free(out);
        return false;
    }
    out->part = out->n == 1 && saves_unseen(st, out);
    return true;
}
