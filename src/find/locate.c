/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the save, going down from the path that the user gave, one directory after the other.  In each:
 *
 * 1. The families are tried (match.c).  If one fits the save that -o tag or `latest` names, or is the
 *    requested format, the search ends here.
 * 2. A pointer file is a promise: if it names something that is not a save, the directory is refused,
 *    whatever else it contains.  Only if the named save is gone and no other is left are loose weights
 *    read: the user may have removed the save and kept the weights.
 * 3. If a family fits, the search ends here, unless only optimizer files or the like were found, or weight files
 *    without a manifest (loose.c) next to finished saves: then a save is meant, unless the files are a complete
 *    model.  A note mentions what was not chosen.
 * 4. Otherwise the search continues in the save that -o tag or the pointer file names, or in the only
 *    save further down, or in the newest of a numbered series.
 * 5. If there is none, a weak fit is accepted after all; else the path is refused, and the message says
 *    what is there instead. */
#include "locate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/assemble/files.h>
#include <zf/base/path.h>

#include "foreign.h"
#include "latest.h"
#include "save_name.h"
#include "pick.h"
#include "saves.h"
#include "table.h"

/* At most this many steps down: experiment / run / checkpoint-60 / global_step60, and one to spare. */
enum { LOCATE_STEPS = 5 };

/* The result for one directory. */
enum locate_next {
    NEXT_DONE,    /* l->match says what to open */
    NEXT_DEEPER,  /* l->dir is one step further down now */
    NEXT_NOWHERE, /* nothing here, and nowhere to continue */
    NEXT_FAILED,  /* *err says why */
};

void located_fini(struct located *l)
{
    match_fini(&l->match);
    zf_store_unref(&l->dir);
    zf_store_unref(&l->outer);
    zf_store_unref(&l->loose);
    free(l->path);
    free(l->tag);
    free(l->one);
    free(l->saves);
    l->path = l->tag = l->one = l->saves = NULL;
}

/* ---- the way down ---------------------------------------------------------------------------- */

/* Moves l into `name` below its directory, all components at once. */
static bool locate_enter(struct located *l, const char *name, struct zf_err *err)
{
    struct zf_store *sub = zf_store_sub(l->dir, name, err);

    if (!sub)
        return false;
    const char *base = latest_is_link(name) ? zf_store_base(sub) : name;
    char *path = zf_relpath_join(l->path ? l->path : "", base, err);
    if (!path) {
        zf_store_unref(&sub);
        return false;
    }
    match_fini(&l->match);
    l->match = (struct match){.format = NULL};
    zf_store_unref(&l->outer);
    l->outer = l->dir;
    l->dir = sub;
    free(l->path);
    l->path = path;
    return true;
}

/* Likewise, but one component after the other, so that l->outer is the parent of the last. */
static bool locate_enter_each(struct located *l, const char *name, struct zf_err *err)
{
    for (const char *slash; (slash = strchr(name, '/')); name = slash + 1) {
        zf_auto(mem) char *first = strndup(name, (size_t)(slash - name));

        if (!first)
            return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
        if (!locate_enter(l, first, err))
            return false;
    }
    return locate_enter(l, name, err);
}

/* Notes a save newer than `name`, which the user did not choose by name. */
static void locate_note_newer(struct located *l, const char *name, const struct zf_limits *lim)
{
    if (!l->newer[0])
        newer_note(l->dir, name, lim, l->newer);
}

/* Remembers the weight files next to the save, for a note. */
static void locate_keep_loose(struct located *l)
{
    if (!l->loose)
        l->loose = zf_store_ref(l->dir);
}

/* The subdirectory that contains all saves of s, if it has a pointer file or link to the latest one; else
 * NULL. */
static char *locate_run_of(struct located *l, const struct zf_saves *s)
{
    const char *slash = strrchr(s->at[0].path, '/');
    const size_t n = slash ? (size_t)(slash - s->at[0].path) : 0;
    struct zf_err ignored = {.code = ZF_OK};
    zf_auto(mem) char *dir = n && s->n > 1 ? strndup(s->at[0].path, n) : NULL;
    zf_auto(mem) char *latest = NULL, *one = NULL;

    for (size_t i = 0; dir && i < s->n; i++)
        if (strncmp(s->at[i].path, dir, n) != 0 || s->at[i].path[n] != '/' ||
            strchr(s->at[i].path + n + 1, '/'))
            return NULL;
    zf_auto(store) struct zf_store *run = dir ? zf_store_sub(l->dir, dir, &ignored) : NULL;
    bool says = run && (!latest_name(run, &latest, &ignored) || latest ||
                        !latest_one_file(run, &one, &ignored) || one);
    return says ? zf_give(dir) : NULL;
}

/* Enters one of the saves s. */
static enum locate_next locate_take(struct located *l, struct zf_saves *s,
                                    const struct zf_open_opts *o, struct zf_err *err)
{
    zf_auto(mem) char *run = locate_run_of(l, s);
    if (run)
        return locate_enter_each(l, run, err) ? NEXT_DEEPER : NEXT_FAILED;
    saves_drop_release(s);
    const char *name = pick_one(l->dir, s, l->path, l->note, err);
    if (!name)
        return NEXT_FAILED;
    locate_note_newer(l, name, o->lim);
    return locate_enter_each(l, name, err) ? NEXT_DEEPER : NEXT_FAILED;
}

static enum locate_next locate_search(struct located *l, const struct zf_open_opts *o,
                                      struct zf_err *err)
{
    zf_auto(saves) struct zf_saves s = {.at = NULL};

    if (!saves_nearest(l->dir, o->lim, &s, err))
        return NEXT_FAILED;
    if (s.n == 0)
        return NEXT_NOWHERE;
    /* Directories with torch files may belong to a format that zerofs does not read. */
    if (saves_are_parts(&s) && foreign_save(l->dir, err)) {
        (void)(l->path && zf_err_in(err, "%s", l->path));
        return NEXT_FAILED;
    }
    return locate_take(l, &s, o, err);
}

/* ---- one directory --------------------------------------------------------------------------- */

/* Is the fit good enough to end the search? */
static bool locate_fits(const struct match *m, const struct zf_open_opts *o)
{
    return m->format && (!o->tag || m->save.tag) && (m->probe.fit > ZF_FIT_WEAK || o->format);
}

/* LATEST_BAD unless the directory that `l` names is a save, or leads to one.  Errors, such as two families that fit
 * equally well, are reported when it is opened. */
static void locate_check_latest(struct latest *l, const struct zf_open_opts *o)
{
    struct zf_open_opts here = {.lim = o->lim, .format = o->format};
    zf_auto(match) struct match m = {.format = NULL};
    zf_auto(saves) struct zf_saves s = {.at = NULL};
    zf_auto(mem) char *latest = NULL;
    struct zf_err err = {.code = ZF_OK};
    const struct zf_entry *e;
    size_t n;

    const bool listed = zf_store_list(l->save, "", &e, &n, &l->why);
    if (listed && n > 0 &&
        (!match_dir(l->save, &here, &m, &err) || m.format || !latest_name(l->save, &latest, &err) ||
         latest || (saves_nearest(l->save, o->lim, &s, &err) && s.n)))
        return;
    l->state = LATEST_BAD;
    if (listed && (n == 0 || !foreign_find(l->save, NULL, &l->why)))
        (void)zf_fail(&l->why, ZF_E_FORMAT, ZF_OFF_NONE,
                      n == 0 ? "it is empty" : "it does not hold a save");
}

/* Reads which save is the latest, and examines it.  What is not a save must be known not to be one. */
static bool locate_latest(struct located *l, const struct zf_open_opts *o, struct zf_err *err)
{
    struct latest *latest = &l->match.latest;
    const uint64_t since = zf_store_failures(l->dir);

    if (!latest_find(l->dir, false, latest, err))
        return false;
    if (latest->state == LATEST_BROKEN) {
        *err = latest->why;
        return false;
    }
    if (latest->state == LATEST_FOUND)
        locate_check_latest(latest, o);
    return latest->state == LATEST_NONE || latest->state == LATEST_FOUND ||
           !zf_store_failure(l->dir, since, 0, err);
}

/* The latest save is missing, or no save.  Fails unless it is gone, no other can be found, and files fit: the user may
 * have removed it and kept the weights. */
static enum locate_next locate_no_latest(struct located *l, bool fits, const struct zf_limits *lim,
                                         struct zf_err *err)
{
    const struct latest *latest = &l->match.latest;
    zf_auto(saves) struct zf_saves s = {.at = NULL};
    struct zf_err ignored = {.code = ZF_OK};
    char list[120] = "none";

    if (latest->state == LATEST_BAD) {
        (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                      "the latest save is recorded as \"%.60s\", but %.159s", latest->name,
                      latest->why.msg);
        return NEXT_FAILED;
    }
    const bool listed = zf_saves_list(l->dir, ZF_SAVES_WHOLE, lim, &s, &ignored);
    if (listed && s.n == 0 && fits) {
        (void)snprintf(l->note, sizeof l->note,
                       "the latest save is recorded as %.60s, which does not exist", latest->name);
        return NEXT_DONE;
    }
    if (s.n > 0)
        saves_print(&s, NULL, list, sizeof list);
    (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                  "the latest save is recorded as \"%.60s\", which does not exist. Found: %s (-o "
                  "tag=NAME selects one)",
                  latest->name, list);
    return NEXT_FAILED;
}

/* Enters the latest save. */
static enum locate_next locate_enter_latest(struct located *l, const struct zf_limits *lim,
                                            struct zf_err *err)
{
    locate_note_newer(l, l->match.latest.name, lim);
    return locate_enter(l, l->match.latest.name, err) ? NEXT_DEEPER : NEXT_FAILED;
}

/* Weight files fit, but the saves next to them may be meant: decides by the latest save, unless that is only a
 * directory that is called `latest` by chance, and by the saves' names. */
static enum locate_next locate_loose_or_save(struct located *l, bool promised,
                                             const struct zf_open_opts *o, struct zf_err *err)
{
    const char *latest = l->match.latest.state == LATEST_FOUND ? l->match.latest.name : NULL;
    zf_auto(saves) struct zf_saves s = {.at = NULL};

    if (!loose_saves(l->dir, latest, o->lim, &s, err))
        return NEXT_FAILED;
    bool alone = s.n == 1 && latest && !promised;
    if (!s.n || alone || loose_is_model(l->dir, &l->match, &s))
        return loose_note_saves(&s, l, err) ? NEXT_DONE : NEXT_FAILED;
    locate_keep_loose(l);
    return latest ? locate_enter_latest(l, o->lim, err) : locate_take(l, &s, o, err);
}

/* Takes the file that a tracker names as the save.  NEXT_NOWHERE: there is no such tracker. */
static enum locate_next locate_one(struct located *l, const struct zf_open_opts *o,
                                   struct zf_err *err)
{
    if (o->tag || o->format || !latest_one_file(l->dir, &l->one, err))
        return o->tag || o->format ? NEXT_NOWHERE : NEXT_FAILED;
    if (!l->one)
        return NEXT_NOWHERE;
    if (!match_one(l->dir, l->one, o, &l->match, err))
        return NEXT_FAILED;
    if (!l->match.format) {
        const bool known = foreign_find(l->dir, l->one, err);

        free(l->one); /* the search may go on in a save, which may have such a file, too */
        l->one = NULL;
        return known ? NEXT_FAILED : NEXT_NOWHERE;
    }
    zf_say(
        l->note, sizeof l->note,
        "this file names the latest save, %.80s, which is shown. Point at another file to see that",
        l->one);
    return NEXT_DONE;
}

static enum locate_next locate_here(struct located *l, const struct zf_open_opts *o,
                                    struct zf_err *err)
{
    const struct latest *latest = &l->match.latest;
    const char *file = match_file(l->dir);

    if (!o->format && !o->tag && foreign_whole(l->dir, file, err)) {
        if (!file) {
            (void)(l->path && zf_err_in(err, "%s", l->path));
            return NEXT_FAILED;
        }
        zf_say(l->beside, sizeof l->beside, "this file is one of several: %s", err->msg);
        zf_err_clear(err);
    }
    if (!file) {
        enum locate_next next = locate_one(l, o, err);

        if (next != NEXT_NOWHERE)
            return next;
    }
    if (!match_dir(l->dir, o, &l->match, err))
        return NEXT_FAILED;
    if (file)
        return NEXT_NOWHERE; /* whatever fits it is taken then */
    bool fits = locate_fits(&l->match, o);
    if (fits && (o->format || l->match.format->latest)) {
        if (!o->tag && latest->save)
            locate_note_newer(l, latest->name, o->lim);
        if (!o->format && !o->tag && latest->save)
            locate_keep_loose(l);
        return NEXT_DONE;
    }
    if (o->tag && !zf_store_has(l->dir, o->tag, ZF_ENTRY_DIR)) {
        (void)pick_none(l->dir, o, o->tag, err);
        return NEXT_FAILED;
    }
    if (o->tag)
        return locate_enter(l, o->tag, err) ? NEXT_DEEPER : NEXT_FAILED;
    if (!locate_latest(l, o, err))
        return NEXT_FAILED;
    /* A directory that happens to be called `latest` promises nothing. */
    bool promised = latest->name && (strcmp(latest->name, "latest") != 0 ||
                                     !zf_store_has(l->dir, "latest", ZF_ENTRY_DIR));
    if (promised && latest->state != LATEST_FOUND)
        return locate_no_latest(l, fits, o->lim, err);
    if (fits && loose_fits(&l->match))
        return locate_loose_or_save(l, promised, o, err);
    if (fits)
        return NEXT_DONE;
    return latest->state == LATEST_FOUND ? locate_enter_latest(l, o->lim, err)
                                         : locate_search(l, o, err);
}

/* ---- nothing here ---------------------------------------------------------------------------- */

/* Mentions an entry that was skipped because it leads elsewhere, and may be what was meant. */
static void locate_passed_over(struct zf_store *st, struct zf_err *err)
{
    struct zf_err why;

    for (struct zf_entries l = zf_store_entries(st, ""); l.e < l.end && !err->hint; l.e++)
        if (l.e->kind == ZF_ENTRY_OTHER && !zf_store_reaches(st, l.e->name, &why) &&
            why.sys == EXDEV)
            zf_err_hint(err, "\"%.40s\" was skipped: %.130s", l.e->name, why.msg);
}

static bool locate_nothing(struct zf_store *st, struct zf_err *err)
{
    const char *file = match_file(st);
    const char *pointer = file ? zf_lfs_find(st, file) : NULL;

    if (pointer) {
        (void)zf_lfs_fail(err);
        return zf_err_in(err, "%s", pointer);
    }
    if (!file && newer_unfinished(st)) {
        return zf_fail(err, ZF_E_UNKNOWN, ZF_OFF_NONE,
                       "the only checkpoint here, \"%.100s\", was still being written. Point at it "
                       "to see what it holds so far",
                       newer_unfinished(st));
    }
    if (foreign_find(st, file, err))
        return false;
    if (file) {
        zf_fail(err, ZF_E_UNKNOWN, ZF_OFF_NONE,
                "this is neither a torch.save file nor safetensors");
        return zf_err_in(err, "%s", file);
    }
    (void)zf_fail(err, ZF_E_UNKNOWN, ZF_OFF_NONE,
                  "there is no checkpoint here: no manifest, index, safetensors or torch.save "
                  "file with tensors, and none in the directories below");
    locate_passed_over(st, err);
    return false;
}

/* The search has nowhere to continue: accepts a weak fit, or a file of the requested format. */
static bool locate_last_resort(struct located *l, const struct zf_open_opts *o, struct zf_err *err)
{
    if (l->match.format && !o->tag)
        return true;
    if (!o->format) {
        (void)locate_nothing(l->dir, err);
        return l->path && zf_err_in(err, "%s", l->path);
    }
    if (!match_file(l->dir)) {
        return zf_fail(err, ZF_E_UNKNOWN, ZF_OFF_NONE,
                       "there is nothing here in the format %.40s, which was asked for. Leave out "
                       "-o format=",
                       o->format);
    }
    l->match.format = table_find(o->format);
    return true;
}

/* ---- the whole way --------------------------------------------------------------------------- */

/* "run7/global_step5" names a save by its run directory, as in `info`: moves l into the run directory,
 * so that files next to the save are found; tag becomes the rest. */
static bool locate_enter_run(struct located *l, char *tag, struct zf_err *err)
{
    char *slash = strrchr(tag, '/');

    if (!slash)
        return true;
    *slash = '\0';
    zf_auto(mem) char *file = zf_relpath_join(tag, "latest", err);
    if (!file)
        return false;
    if (!zf_store_has(l->dir, file, ZF_ENTRY_FILE)) {
        *slash = '/';
        return true;
    }
    if (!locate_enter_each(l, tag, err))
        return false;
    memmove(tag, slash + 1, strlen(slash + 1) + 1);
    return true;
}

/* Goes down until the search ends, or has nowhere to continue.  The step that follows o->tag clears
 * it. */
static bool locate_walk(struct located *l, struct zf_open_opts *o, struct zf_err *err)
{
    for (int step = 0; step < LOCATE_STEPS; step++) {
        switch (locate_here(l, o, err)) {
        case NEXT_DONE:
            return true;
        case NEXT_FAILED:
            return false;
        case NEXT_NOWHERE:
            return locate_last_resort(l, o, err);
        case NEXT_DEEPER:
            o->tag = NULL;
        }
    }
    return locate_last_resort(l, o, err);
}

/* Sets the tag: the value of -o tag= that selects this save at the path that the user gave.  If a run
 * directory's `latest` names the save, its tag is appended to that of the run, unless the latter is a
 * save's name itself (checkpoint-60/global_step60) and the user did not give both. */
static bool locate_name(struct located *l, bool asked, struct zf_err *err)
{
    const char *tag = l->match.save.tag;
    int64_t step;

    if (tag && l->path && !asked && save_name_step(l->path, &step))
        tag = NULL;
    if (!tag && !l->path)
        return true;
    l->tag = zf_relpath_join(tag && l->path ? l->path : "", tag ? tag : l->path, err);
    return l->tag != NULL;
}

static bool locate_any(struct zf_store *st, const struct zf_open_opts *o, struct located *out,
                       struct zf_err *err)
{
    struct zf_open_opts here = *o;
    zf_auto(mem) char *tag = NULL;

    *out = (struct located){.dir = NULL};
    if (o->tag && match_file(st)) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                       "tag=%.60s selects one of the saves in a directory, but \"%.120s\" is a "
                       "file. Leave out -o "
                       "tag=",
                       o->tag, match_file(st));
    }
    out->dir = zf_store_ref(st);
    if (o->tag) {
        if (!pick_by_tag(st, o, &tag, out->note, err) || !locate_enter_run(out, tag, err))
            return false;
        here.tag = *tag ? tag : NULL;
    }
    return locate_walk(out, &here, err) && locate_name(out, here.tag != NULL, err);
}

/* Fails because there is nothing of the requested format; the message says what is there.  Returns false. */
static bool locate_other_format(struct zf_store *st, const struct zf_open_opts *o,
                                struct zf_err *err)
{
    struct zf_open_opts any = *o;
    zf_auto(located) struct located l = {.dir = NULL};
    struct zf_err ignored;

    any.format = NULL;
    if (!locate_any(st, &any, &l, &ignored) || strcmp(l.match.format->name, o->format) == 0)
        return false;
    return zf_fail(err, ZF_E_UNKNOWN, ZF_OFF_NONE,
                   "there is nothing here in the format %s, which was asked for: %.120s%sis in the "
                   "format %s. Leave out -o format=",
                   o->format, l.tag ? l.tag : "", l.tag ? " " : "it ", l.match.format->name);
}

bool locate(struct zf_store *st, const struct zf_open_opts *o, struct located *out,
            struct zf_err *err)
{
    return locate_any(st, o, out, err) ||
           (o->format && (err->code == ZF_E_UNKNOWN || err->code == ZF_E_FORMAT) &&
            locate_other_format(st, o, err));
}
