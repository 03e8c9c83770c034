/* SPDX-License-Identifier: Apache-2.0 */
/* A run's saves are called by directory names; people think of step numbers, and scripts of "the
 * last one".  A word that could mean two saves means none. */
#include "save_word.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/assemble/files.h>
#include <zf/find/match.h>
#include <zf/find/saves.h>

void zf_tagword_list(const struct zf_tags *t, const char *above, char *out, size_t n)
{
    size_t at = 0;

    out[0] = '\0';
    for (size_t i = 0; i < t->n; i++) {
        int more = snprintf(out + at, n - at, "%s%s%s%s", i ? ", " : "", above ? above : "",
                            above ? "/" : "", t->name[i]);
        if (more < 0 || (size_t)more >= n - at - 8) {
            (void)snprintf(out + at, n - at, "%s…", i ? ", " : "");
            return;
        }
        at += (size_t)more;
    }
}

bool zf_tagword_none(struct zf_store *st, const struct zf_open_opts *o, const char *tag,
                     struct zf_err *err)
{
    zf_auto(tags) struct zf_tags t = {.name = NULL};
    struct zf_err ignored = {.code = ZF_OK};
    char list[180];

    if (!zf_store_reaches(st, tag, &ignored) && ignored.sys == EXDEV) {
        *err = ignored;
        return false;
    }
    if (!zf_tags_nearest(st, o->lim, &t, &ignored) || t.n == 0) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                       "there is no save \"%.60s\" here, nor any other", tag);
    }
    zf_tagword_list(&t, NULL, list, sizeof list);
    return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "there is no save \"%.60s\" here; there are: %s",
                   tag, list);
}

static bool tagword_ambiguous(const struct zf_tags *t, const char *word, struct zf_err *err)
{
    char list[180];

    zf_tagword_list(t, NULL, list, sizeof list);
    return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "tag=%.40s could mean more than one of these: %s",
                   word, list);
}

static bool tagword_take(const char *name, char **name_out, struct zf_err *err)
{
    *name_out = strdup(name);
    return *name_out || zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
}

/* ---- by number ------------------------------------------------------------------------------- */

static bool tagword_number(const char *tag, int64_t *out)
{
    size_t n = strspn(tag, "0123456789");

    if (n == 0 || tag[n] || n > 15) {
        return false;
    }
    *out = strtoll(tag, NULL, 10);
    return true;
}

/* Moves the saves of that step to the front of t; gives how many they are. */
static size_t tagword_filter(struct zf_tags *t, int64_t want)
{
    size_t n = 0;

    for (size_t i = 0; i < t->n; i++) {
        int64_t step;

        if (zf_tags_step(t->name[i], &step) && step == want) {
            char *swap = t->name[n];
            t->name[n++] = t->name[i];
            t->name[i] = swap;
        }
    }
    return n;
}

/* Unfinished saves count, too: whoever asks for step 10 shall hear what is wrong with it. */
static bool tagword_by_number(struct zf_store *st, const struct zf_open_opts *o, int64_t want,
                              char **name_out, struct zf_err *err)
{
    zf_auto(tags) struct zf_tags t = {.name = NULL};

    if (!zf_tags_dirs(st, &t, err)) {
        return false;
    }
    size_t n = tagword_filter(&t, want);
    if (n == 0) {
        zf_tags_free(&t);
        if (!zf_tags_nearest(st, o->lim, &t, err)) {
            return false;
        }
        n = tagword_filter(&t, want);
    }
    if (n == 0) {
        return zf_tagword_none(st, o, o->tag, err);
    }
    if (n > 1) {
        struct zf_tags some = {.name = t.name, .n = n};
        return tagword_ambiguous(&some, o->tag, err);
    }
    return tagword_take(t.name[0], name_out, err);
}

/* Is st itself a save? */
static bool tagword_fits(struct zf_store *st, const struct zf_open_opts *o)
{
    struct zf_open_opts here = {.lim = o->lim};
    struct zf_err ignored = {.code = ZF_OK};
    struct zf_pick pick;

    return zf_pick(st, &here, &pick, &ignored) && pick.format;
}

/* ---- by age ---------------------------------------------------------------------------------- */

static int tagword_newer(const void *a, const void *b)
{
    int64_t x = -1, y = -1;

    (void)zf_tags_step(*(char *const *)a, &x);
    (void)zf_tags_step(*(char *const *)b, &y);
    return x < y ? 1 : x > y ? -1 : strcmp(*(char *const *)a, *(char *const *)b);
}

bool zf_tagword_by_age(struct zf_store *st, const struct zf_open_opts *o, struct zf_tags *out,
                       struct zf_err *err)
{
    size_t steps = 0;
    int64_t step;

    if (!zf_tags_nearest(st, o->lim, out, err)) {
        return false;
    }
    for (size_t i = 0; i < out->n; i++) {
        steps += zf_tags_step(out->name[i], &step);
    }
    if (steps == 0 && tagword_fits(st, o)) {
        zf_tags_free(out);
        return true;
    }
    if (out->n == 0) {
        return zf_tagword_none(st, o, o->tag, err);
    }
    if (out->n > 1 && steps < out->n) {
        return tagword_ambiguous(out, o->tag, err);
    }
    qsort(out->name, out->n, sizeof *out->name, tagword_newer);
    return true;
}

static bool tagword_newest(struct zf_store *st, const struct zf_open_opts *o, char **name_out,
                           char *note, struct zf_err *err)
{
    zf_auto(tags) struct zf_tags t = {.name = NULL};
    int64_t first = -1, second = -1;

    if (!zf_tagword_by_age(st, o, &t, err)) {
        return false;
    }
    if (t.n == 0) {
        return tagword_take("", name_out, err);
    }
    if (t.n > 1) {
        (void)zf_tags_step(t.name[0], &first);
        (void)zf_tags_step(t.name[1], &second);
        if (first == second) {
            return tagword_ambiguous(&t, o->tag, err);
        }
        (void)snprintf(note, 160, "%.80s is the newest of %zu saves here", t.name[0], t.n);
    }
    if (t.weak) {
        size_t at = strlen(note);
        (void)snprintf(note + at, 160 - at, "%s%zu more %s unfinished or without weights",
                       at ? "; " : "", t.weak, t.weak == 1 ? "is" : "are");
    }
    return tagword_take(t.name[0], name_out, err);
}

static bool tagword_latest(struct zf_store *st, char **name_out, struct zf_err *err)
{
    if (!zf_tags_latest(st, name_out, err)) {
        return false;
    }
    return *name_out || zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                                "nothing here says which save is the latest; tag=newest goes by "
                                "the steps in their names");
}

/* ---- the words ------------------------------------------------------------------------------- */

bool zf_tagword_is_whole(struct zf_store *st, const struct zf_open_opts *o)
{
    return o->tag && strcmp(o->tag, "whole") == 0 && !zf_one_file(st) &&
           !zf_store_has(st, o->tag, ZF_ENTRY_DIR);
}

bool zf_tagword_resolve(struct zf_store *st, const struct zf_open_opts *o, char **name_out,
                        char *note, struct zf_err *err)
{
    int64_t step;

    *name_out = NULL;
    note[0] = '\0';
    /* `latest` may be a directory or a link to one: the link's target is what is shown. */
    if (zf_store_has(st, o->tag, ZF_ENTRY_DIR)) {
        return tagword_take(o->tag, name_out, err);
    }
    if (strcmp(o->tag, "latest") == 0) {
        return tagword_latest(st, name_out, err);
    }
    if (strcmp(o->tag, "newest") == 0) {
        return tagword_newest(st, o, name_out, note, err);
    }
    /* The tag that is shown for a save that was pointed at: its own name. */
    if (strcmp(o->tag, zf_store_base(st)) == 0 && tagword_fits(st, o)) {
        return tagword_take("", name_out, err);
    }
    if (tagword_number(o->tag, &step)) {
        return tagword_by_number(st, o, step, name_out, err);
    }
    return tagword_take(o->tag, name_out, err);
}
