/* SPDX-License-Identifier: Apache-2.0 */
/* A save whose files are all intact may still lack some: its writer has not written them yet, or died, and no file says
 * how many there should be (train/rank1.pt, optimizer states, config.json).  The other saves of the run show it. */
#include "locate.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/path.h>
#include <zf/base/vec.h>
#include <zf/codec/json.h>

#include "save_name.h"
#include "pick.h"
#include "saves.h"

/* Larger JSON files are not checked. */
#define WHOLE_JSON_BYTES (16u << 20)

/* The number of saves that a save is compared with, the next older first, and how many are tried at most. */
enum { WHOLE_ALIKE = 3, WHOLE_TRIED = 8 };

struct whole {
    struct zf_store *st;
    struct zf_open_opts how; /* without degraded mode */
    whole_open_fn *one;
    struct zf_saves saves; /* the newest first */
    struct zf_saves
        other; /* directories with names of saves that are not in `saves`, the newest first */
    char note[500];
    size_t n_passed;
    struct zf_err first; /* why the newest is not complete */
};

/* ---- files that a save lacks ------------------------------------------------------------------- */

struct whole_files {
    const char *dir; /* the save's directory, with a final '/' */
    zf_vec(char *) name;
    struct zf_err *err; /* its code: ZF_OK */
};

/* Collects a file of a save, except shards listed in .metadata, which differ from save to save. */
static void whole_add_file(void *ctx, const struct zf_file_stats *s)
{
    struct whole_files *f = ctx;
    const size_t n = strlen(f->dir);

    if (strncmp(s->path, f->dir, n) != 0 || fnmatch("*.distcp", s->path, 0) == 0 ||
        f->err->code != ZF_OK)
        return;
    char **one = zf_vec_push(&f->name, f->err);
    if (one && !(*one = strdup(s->path + n))) {
        f->name.n--;
        (void)zf_fail(f->err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    }
}

/* Translates a file name of the save of step `from` to that of step `to`; malloc'ed. */
static char *whole_rename(const char *name, int64_t from, int64_t to)
{
    char *out = malloc(strlen(name) * 16 + 1), *o = out;

    for (const char *p = name; out && *p;) {
        const int n = (int)strspn(p, "0123456789");

        if (n > 0 && n <= 15 && strtoll(p, NULL, 10) == from)
            o += sprintf(o, "%0*lld", *p == '0' ? n : 1, (long long)to);
        else
            o = stpncpy(o, p, n > 0 ? (size_t)n : 1);
        p += n > 0 ? n : 1;
    }
    if (out)
        *o = '\0';
    return out;
}

/* A save and another one of its series. */
struct whole_pair {
    const struct whole *w;
    const struct zf_save_dir *save, *of;
    struct zf_store *of_st;
    const struct zf_checkpoint *c, *of_c;
};

/* The note that the file (a path in the save) could not be read; or NULL. */
static const char *whole_unreadable(const struct zf_checkpoint *c, const char *file)
{
    for (uint32_t i = 0; i < c->n_notes; i++)
        if (c->note[i].kind == ZF_NOTE_UNREADABLE && strcmp(c->note[i].about, file) == 0)
            return c->note[i].text;
    return NULL;
}

/* Is the file valid JSON and not empty?  False: *err says why. */
static bool whole_parses(const struct whole *w, struct zf_store *st, const char *path,
                         struct zf_err *err)
{
    uint64_t n;
    zf_auto(mem) char *text = zf_store_slurp(st, path, WHOLE_JSON_BYTES, &n, err);
    zf_auto(json) json_t *j = text ? zf_json_load(text, n, w->how.lim, err) : NULL;

    return j || (!text && err->code == ZF_E_LIMIT);
}

/* Is the file at `path` of the save no worse than that at `of_path` of the other save? */
static bool whole_is_sound(const struct whole_pair *p, const char *file, const char *path,
                           const char *of_file, const char *of_path, struct zf_err *err)
{
    struct zf_err ignored = {.code = ZF_OK};
    const struct zf_entry *e = zf_store_find(p->w->st, path),
                          *of = zf_store_find(p->of_st, of_path);
    const char *note = whole_unreadable(p->c, file);

    if (e && of && e->id.size == 0 && of->id.size > 0) {
        (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "the file is empty");
        return zf_err_in(err, "%s", path);
    }
    if (note && !whole_unreadable(p->of_c, of_file)) {
        (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "%.600s", note);
        return zf_err_in(err, "%s", p->save->path);
    }
    if (fnmatch("*.json", file, 0) != 0 || whole_parses(p->w, p->w->st, path, err) ||
        !whole_parses(p->w, p->of_st, of_path, &ignored))
        return true;
    return err->path[0] ? false : zf_err_in(err, "%s", path);
}

/* Does the save have this file of the other save?  False: *err says what is wrong. */
static bool whole_has(const struct whole_pair *p, const char *file, struct zf_err *err)
{
    zf_auto(mem) char *of_path = zf_relpath_join(p->of->path, file, err);
    zf_auto(mem) char *same = of_path ? zf_relpath_join(p->save->path, file, err) : NULL;
    zf_auto(mem) char *renamed = whole_rename(file, p->of->step, p->save->step);
    zf_auto(mem) char *path = same && renamed ? zf_relpath_join(p->save->path, renamed, err) : NULL;

    if (!path)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    if (zf_store_has(p->w->st, same, ZF_ENTRY_FILE))
        return whole_is_sound(p, file, same, file, of_path, err);
    if (zf_store_has(p->w->st, path, ZF_ENTRY_FILE))
        return whole_is_sound(p, renamed, path, file, of_path, err);
    (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "%.200s is missing, but %.80s has one", renamed,
                  p->of->path);
    zf_err_hint(err, "-o tag=%.80s opens the save as it is", p->save->path);
    return zf_err_in(err, "%s", p->save->path);
}

/* Compares the open save with `of`, which gets a store of its own, so that errors in it do not affect the open
 * save.  *opened_out: could it be compared? */
static bool whole_compare(const struct whole *w, const struct zf_save_dir *save,
                          const struct zf_checkpoint *c, const struct zf_save_dir *of,
                          bool *opened_out, struct zf_err *err)
{
    struct zf_err why = {.code = ZF_OK};
    struct zf_open_opts how = w->how;
    zf_auto(mem) char *dir = malloc(strlen(of->path) + 2);
    struct whole_files f = {.dir = dir, .err = &why};

    *opened_out = false;
    if (!dir)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    (void)sprintf(dir, "%s/", of->path);
    how.tag = of->path;
    how.sealing = NULL;
    zf_auto(store) struct zf_store *st =
        zf_store_by(how.opener, zf_store_name(w->st), how.lim, &why);
    zf_auto(checkpoint) struct zf_checkpoint *other = st ? w->one(st, &how, "", &why) : NULL;
    if (!other)
        return why.code != ZF_E_NOMEM || ((*err = why), false);
    const struct whole_pair pair = {
        .w = w, .save = save, .of = of, .of_st = st, .c = c, .of_c = other};
    zf_err_clear(&why);
    zf_store_stats(st, whole_add_file, &f);
    *opened_out = true;
    bool ok = why.code == ZF_OK || ((*err = why), false);
    for (size_t i = 0; i < f.name.n; i++) {
        ok = ok && whole_has(&pair, f.name.at[i], err);
        free(f.name.at[i]);
    }
    zf_vec_fini(&f.name);
    return ok;
}

static const char *whole_base(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* Does save i have the files of one of the earlier saves?  After a change to fewer ranks, there are soon two such
 * saves. */
static bool whole_is_alike(const struct whole *w, size_t i, const struct zf_checkpoint *c,
                           struct zf_err *err)
{
    const struct zf_save_dir *save = &w->saves.at[i];
    size_t compared = 0, tried = 0;

    for (size_t k = i + 1; k < w->saves.n && compared < WHOLE_ALIKE && tried < WHOLE_TRIED; k++) {
        struct zf_err why;
        bool opened;

        if (!save_name_same_series(whole_base(save->path), whole_base(w->saves.at[k].path)))
            continue;
        tried++;
        const bool has = whole_compare(w, save, c, &w->saves.at[k], &opened, &why);
        if (!has && why.code == ZF_E_NOMEM) {
            *err = why;
            return false;
        }
        if (has && opened)
            return true;
        if (!has && compared == 0)
            *err = why;
        compared += opened;
    }
    return compared == 0;
}

/* ---- trying the saves -------------------------------------------------------------------------- */

/* Is this, by its name, a directory within a save that lacks its weights?  Then the save is still being written. */
static bool whole_is_part(const struct zf_save_dir *save, struct zf_err *err)
{
    static const char *const part[] = {"*/optim",     "*/optimizer", "*/train", "*/mp_rank_[0-9]*",
                                       "*/rng_state", "*/zero/*",    NULL};

    return save->step >= 0 && save_name_fits(save->path, part, 0) &&
           (zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "a part of a save, and no other is there"),
            (void)zf_err_in(err, "%s", save->path), true);
}

static void whole_report(const struct zf_open_opts *o, const char *name, const struct zf_err *why)
{
    if (o->choice)
        o->choice->judged(o->choice->ctx, name, why);
}

static bool whole_considers(const struct zf_open_opts *o, const char *name, struct zf_err *err)
{
    return !o->choice || !o->choice->considers || o->choice->considers(o->choice->ctx, name, err);
}

static bool whole_accepts(const struct zf_open_opts *o, const char *name, struct zf_err *err)
{
    return !o->choice || !o->choice->accepts || o->choice->accepts(o->choice->ctx, name, err);
}

static void whole_pass(struct whole *w, const char *name, const struct zf_err *why)
{
    char text[300];
    const size_t at = strlen(w->note);

    if (w->n_passed++ == 0) {
        w->first = *why;
        zf_say(w->note + at, sizeof w->note - at, "%s%.80s is not whole: %s", at ? "; " : "", name,
               zf_err_text(why, text, sizeof text));
    }
    whole_report(&w->how, name, why);
}

/* Notes why a directory with the name of a save is skipped. */
static void whole_pass_other(struct whole *w, const char *name)
{
    struct zf_open_opts how = w->how;
    struct zf_err why;

    how.tag = name;
    how.sealing = NULL;
    const bool considered = whole_considers(&how, name, &why);
    zf_auto(checkpoint) struct zf_checkpoint *c = considered ? w->one(w->st, &how, "", &why) : NULL;
    if (c) {
        (void)zf_fail(&why, ZF_E_FORMAT, ZF_OFF_NONE, "unfinished, or without weights");
        (void)zf_err_in(&why, "%s", name);
    }
    whole_pass(w, name, &why);
}

/* Opens save i if it is complete.  NULL: *err says why it is skipped; or ZF_E_NOMEM. */
static struct zf_checkpoint *whole_try(struct whole *w, size_t i, struct zf_err *err)
{
    w->how.tag = w->saves.at[i].path;
    if (w->saves.begun) {
        (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "unfinished, or without weights");
        return zf_null(zf_err_in(err, "%s", w->how.tag));
    }
    if (whole_is_part(&w->saves.at[i], err) || !whole_considers(&w->how, w->how.tag, err))
        return NULL;
    zf_auto(checkpoint) struct zf_checkpoint *c = w->one(w->st, &w->how, w->note, err);
    if (!c || !whole_is_alike(w, i, c, err) || !whole_accepts(&w->how, w->how.tag, err))
        return NULL;
    whole_report(&w->how, w->how.tag, NULL);
    return zf_give(c);
}

static struct zf_checkpoint *whole_choose(struct whole *w, struct zf_err *err)
{
    for (size_t i = 0, k = 0; i < w->saves.n || k < w->other.n;) {
        if (k < w->other.n && (i == w->saves.n || w->other.at[k].step >= w->saves.at[i].step)) {
            whole_pass_other(w, w->other.at[k++].path);
            continue;
        }
        struct zf_checkpoint *c = whole_try(w, i, err);
        if (c || err->code == ZF_E_NOMEM)
            return c;
        whole_pass(w, w->saves.at[i++].path, err);
    }
    (void)zf_fail(err, w->first.code, w->first.off,
                  "none of the %zu saves here is whole; the newest: %s", w->saves.n, w->first.msg);
    err->limit = w->first.limit;
    if (!w->first.hint)
        zf_err_hint(err, "-o tag=newest -o degraded shows what is left of it");
    memcpy(err->path, w->first.path, sizeof err->path);
    return NULL;
}

/* Finds the other directories, only if the caller wants to be told about them. */
static bool whole_find_others(struct whole *w, struct zf_err *err)
{
    struct zf_saves *o = &w->other;

    if (!w->how.choice)
        return true;
    if (!zf_saves_list(w->st, ZF_SAVES_NAMED, w->how.lim, o, err))
        return false;
    for (size_t i = 0; i < o->n; i++) {
        const size_t len = strlen(o->at[i].path);
        bool known = false;

        for (size_t k = 0; k < w->saves.n && !known; k++) {
            const char *path = w->saves.at[k].path;

            known =
                strncmp(path, o->at[i].path, len) == 0 && (path[len] == '\0' || path[len] == '/');
        }
        if (known)
            saves_drop(&o->at[i]);
    }
    saves_squeeze(o);
    saves_sort_newest(o);
    return true;
}

struct zf_checkpoint *whole_open(struct zf_store *st, const struct zf_open_opts *o,
                                 whole_open_fn *one, struct zf_err *err)
{
    struct whole w = {.st = st, .how = *o, .one = one};
    struct zf_checkpoint *c = NULL;

    w.how.degraded = false;
    if (!pick_by_age(st, o, &w.saves, err))
        return NULL;
    if (w.saves.n == 0) {
        w.how.tag = NULL;
        c = whole_considers(o, "", err) ? one(st, &w.how, "", err) : NULL;
        if (c && !whole_accepts(o, "", err)) {
            zf_checkpoint_free(c);
            c = NULL;
        }
        whole_report(o, "", c ? NULL : err);
        return c;
    }
    if (w.saves.weak) {
        zf_say(w.note, sizeof w.note, "%zu more %s unfinished or without weights", w.saves.weak,
               w.saves.weak == 1 ? "is" : "are");
    }
    if (whole_find_others(&w, err))
        c = whole_choose(&w, err);
    zf_saves_free(&w.saves);
    zf_saves_free(&w.other);
    return c;
}
