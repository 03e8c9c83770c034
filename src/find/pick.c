/* SPDX-License-Identifier: Apache-2.0 */
#include "pick.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "foreign.h"
#include "latest.h"
#include "match.h"
#include "save_name.h"
#include "saves.h"

/* Writes why `name` of the saves s is opened: the newest of several or, if `only`, the only one; and how many unfinished
 * ones were skipped. */
static void pick_note(const struct zf_saves *s, const char *name, bool only, char note[160])
{
    int at = s->n > 1 ? snprintf(note, 160, "%.80s is the newest of %zu saves here", name, s->n)
             : only   ? snprintf(note, 160, "the checkpoint is in %.80s%s", name,
                               s->part ? "" : ", the only one here")
                      : 0;

    if (s->weak) {
        (void)snprintf(note + at, 160 - (size_t)at, "%s%zu more %s unfinished or without weights",
                       at ? "; " : "", s->weak, s->weak == 1 ? "is" : "are");
    }
}

bool pick_none(struct zf_store *st, const struct zf_open_opts *o, const char *tag,
               struct zf_err *err)
{
    zf_auto(saves) struct zf_saves s = {.at = NULL};
    struct zf_err ignored = {.code = ZF_OK};
    char list[180];

    if (!zf_store_reaches(st, tag, &ignored) && ignored.sys == EXDEV) {
        *err = ignored;
        return false;
    }
    if (!saves_nearest(st, o->lim, &s, &ignored) || s.n == 0) {
        if (o->choice)
            return zf_fail(err, ZF_E_NOENT, ZF_OFF_NONE, "there are no saves in this directory");
        return zf_fail(
            err, ZF_E_USAGE, ZF_OFF_NONE,
            "there is no save \"%.60s\" here, and no other save. Leave out -o tag=", tag);
    }
    saves_print(&s, NULL, list, sizeof list);
    return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                   "there is no save \"%.60s\" here. Found: %s (-o tag=NAME selects one)", tag,
                   list);
}

static bool pick_ambiguous(const struct zf_saves *s, const char *word, struct zf_err *err)
{
    char list[180];

    saves_print(s, NULL, list, sizeof list);
    return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                   "tag=%.40s could mean more than one of these: %s. Give the full name", word,
                   list);
}

static bool pick_take(const char *name, char **name_out, struct zf_err *err)
{
    *name_out = strdup(name);
    return *name_out || zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
}

/* ---- without -o tag= ------------------------------------------------------------------------ */

/* Are all of s in formats that zerofs does not read?  *err: the message for the first. */
static bool pick_all_foreign(struct zf_store *st, const struct zf_saves *s, struct zf_err *err)
{
    for (size_t i = 0; i < s->n; i++) {
        struct zf_err why = {.code = ZF_OK};
        zf_auto(store) struct zf_store *sub = zf_store_sub(st, s->at[i].path, &why);

        if (!sub || !foreign_whole(sub, NULL, &why))
            return false;
        if (i == 0) {
            *err = why;
            (void)zf_err_in(err, "%s", s->at[0].path);
        }
    }
    return s->n > 0;
}

/* Fails because there are several saves, or one in parts; `above`: the path where they were found, or NULL. */
static bool pick_several(const struct zf_saves *s, const char *above, struct zf_err *err)
{
    char list[200];

    saves_print(s, above, list, sizeof list);
    if (saves_are_parts(s)) {
        return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                       "there are several models in one directory (a Diffusers pipeline?): %s. "
                       "Point at one of them, or mount all with -o all_tags",
                       list);
    }
    return zf_fail(err, ZF_E_UNKNOWN, ZF_OFF_NONE,
                   "there are several checkpoints here: %s. Point at one of them, or select one "
                   "with -o tag=NAME",
                   list);
}

const char *pick_one(struct zf_store *st, const struct zf_saves *s, const char *above,
                     char note[160], struct zf_err *err)
{
    const char *last = s->at[s->n - 1].path;
    bool series = true;

    for (size_t i = 0; i < s->n; i++)
        series = series && s->at[i].step >= 0 && save_name_same_series(s->at[i].path, last);
    if (s->n > 1 && !series) {
        if (s->unknown.code)
            *err = s->unknown;
        else
            (void)(pick_all_foreign(st, s, err) || pick_several(s, above, err));
        return NULL;
    }
    if (s->n > 1 && save_name_is_unsharded(last, s->at[s->n - 2].path))
        last = s->at[s->n - 2].path;
    pick_note(s, last, true, note);
    return last;
}

/* ---- by number ------------------------------------------------------------------------------- */

/* Removes the saves of other steps. */
static void pick_keep_step(struct zf_saves *s, int64_t step)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->at[i].step != step)
            saves_drop(&s->at[i]);
    saves_squeeze(s);
}

/* Finds the save of a step.  Unfinished saves count, too: opening them reports what is wrong. */
static bool pick_by_step(struct zf_store *st, const struct zf_open_opts *o, int64_t want,
                         char **name_out, struct zf_err *err)
{
    zf_auto(saves) struct zf_saves s = {.at = NULL};

    if (!zf_saves_list(st, ZF_SAVES_NAMED, o->lim, &s, err))
        return false;
    pick_keep_step(&s, want);
    if (s.n == 0) {
        zf_saves_free(&s);
        if (!saves_nearest(st, o->lim, &s, err))
            return false;
        pick_keep_step(&s, want);
    }
    if (s.n == 0)
        return pick_none(st, o, o->tag, err);
    /* In natural order a save comes before that which OLMo merged of it. */
    if (s.n > 2 || (s.n == 2 && !save_name_is_unsharded(s.at[1].path, s.at[0].path)))
        return pick_ambiguous(&s, o->tag, err);
    return pick_take(s.at[0].path, name_out, err);
}

/* Is st itself a save? */
static bool pick_fits(struct zf_store *st, const struct zf_open_opts *o)
{
    struct zf_open_opts here = {.lim = o->lim};
    struct zf_err ignored = {.code = ZF_OK};
    zf_auto(match) struct match m = {.format = NULL};

    return match_dir(st, &here, &m, &ignored) && m.format;
}

/* ---- by age ---------------------------------------------------------------------------------- */

/* Are names that are only numbers steps?  Yes, if a pointer file names one of them as the latest, which is never done
 * with the parts of a save. */
static bool pick_are_steps(struct zf_store *st, const struct zf_saves *s)
{
    struct zf_err ignored = {.code = ZF_OK};
    zf_auto(mem) char *latest = NULL;
    bool named = false;

    for (size_t i = 0; i < s->n; i++)
        if (s->at[i].number < 0)
            return false;
    if (!latest_name(st, &latest, &ignored) || !latest)
        return false;
    for (size_t i = 0; i < s->n; i++)
        named = named || strcmp(s->at[i].path, latest) == 0;
    return named;
}

bool pick_by_age(struct zf_store *st, const struct zf_open_opts *o, struct zf_saves *out,
                 struct zf_err *err)
{
    size_t steps = 0;

    if (!saves_nearest(st, o->lim, out, err))
        return false;
    saves_drop_release(out);
    for (size_t i = 0; i < out->n; i++)
        steps += out->at[i].step >= 0;
    if (steps == 0 && pick_fits(st, o)) {
        zf_saves_free(out);
        return true;
    }
    if (out->n == 0)
        return pick_none(st, o, o->tag, err);
    if (out->n > 1 && steps < out->n && !pick_are_steps(st, out))
        return pick_ambiguous(out, o->tag, err);
    saves_sort_newest(out);
    return true;
}

static bool pick_newest(struct zf_store *st, const struct zf_open_opts *o, char **name_out,
                        char *note, struct zf_err *err)
{
    zf_auto(saves) struct zf_saves s = {.at = NULL};

    if (!pick_by_age(st, o, &s, err))
        return false;
    if (s.n == 0)
        return pick_take("", name_out, err);
    if (s.n > 1 && s.at[0].number == s.at[1].number &&
        !save_name_is_unsharded(s.at[1].path, s.at[0].path))
        return pick_ambiguous(&s, o->tag, err);
    pick_note(&s, s.at[0].path, false, note);
    return pick_take(s.at[0].path, name_out, err);
}

/* ---- the words ------------------------------------------------------------------------------- */

bool pick_is_whole(struct zf_store *st, const struct zf_open_opts *o)
{
    return o->tag && strcmp(o->tag, "whole") == 0 && !match_file(st) &&
           !zf_store_has(st, o->tag, ZF_ENTRY_DIR);
}

bool pick_by_tag(struct zf_store *st, const struct zf_open_opts *o, char **name_out, char *note,
                 struct zf_err *err)
{
    int64_t step;

    *name_out = NULL;
    note[0] = '\0';
    /* `latest` may be a directory or a link to one; of a link the target is shown. */
    if (zf_store_has(st, o->tag, ZF_ENTRY_DIR))
        return pick_take(o->tag, name_out, err);
    if (!latest_word(st, o->tag, name_out, err) || *name_out)
        return *name_out != NULL;
    if (strcmp(o->tag, "latest") == 0)
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                       "the latest save is not recorded here. Select by the steps in the names "
                       "with -o tag=newest");
    if (strcmp(o->tag, "newest") == 0)
        return pick_newest(st, o, name_out, note, err);
    /* If the user gave the save itself, the tag shown for it is its own name. */
    if (strcmp(o->tag, zf_store_base(st)) == 0 && pick_fits(st, o))
        return pick_take("", name_out, err);
    if (save_name_number(o->tag, &step))
        return pick_by_step(st, o, step, name_out, err);
    return pick_take(o->tag, name_out, err);
}
