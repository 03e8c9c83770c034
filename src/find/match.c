/* SPDX-License-Identifier: Apache-2.0 */
/* Tries the families level by level until one fits.  In that level only the best fit counts, and among
 * equal fits the family that no other refines: first the best fit is found, then the families with that
 * fit are counted.
 *
 * A family with `latest` set keeps its saves in run directories.  If -o tag or a file `latest` names a
 * save, such a family examines that save; the others examine the directory. */
#include "match.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "save_name.h"
#include "table.h"

/* Files that stand for the directory that contains them. */
static const char *const match_manifest[] = {
    "latest",
    "latest_universal",
    "latest_checkpointed_iteration.txt",
    "latest_ckpt_global_step.txt",
    "LATEST",
    "*.metadata",
    "metadata.json",
    "*metadata.yaml",
    "*.distcp",
    "config.json",
    "*config.yaml",
    "integrity.json",
    "metadata.pkl",
    "checkpoint_metadata.json",
    "ckpt_contents.json",
    NULL,
};

const char *match_file(struct zf_store *st)
{
    const char *focus = zf_store_focus(st);

    return focus && !save_name_fits(focus, match_manifest, 0) && !latest_means_directory(st, focus)
               ? focus
               : NULL;
}

struct candidate {
    const struct zf_format *format;
    struct zf_probe probe;
    struct zf_save save;
    bool doubted; /* something could not be read, so the fit may be better than it seems */
};

/* The families of one level that fit, or could fit. */
struct fits {
    struct candidate at[TABLE_ROWS];
    size_t n;
    enum zf_fit best;
    uint64_t since; /* zf_store_failures before the first family was tried */
};

void match_fini(struct match *m)
{
    latest_fini(&m->latest);
}

/* Sets the save that the family examines; *is_out false: there is none.  Examines no other save, because this is called
 * while saves are searched.  Errors: the pointer file, or the save that it names, cannot be read, so that whether it
 * fits is unknown, and no other family may claim the directory. */
static bool match_save(struct match *m, struct zf_store *st, const struct zf_open_opts *o,
                       struct candidate *c, bool *is_out, struct zf_err *err)
{
    struct latest *l = &m->latest;

    *is_out = true;
    c->save = (struct zf_save){.store = st, .file = m->save.file};
    if (!c->format->latest || c->save.file)
        return true;
    if (l->state == LATEST_UNREAD &&
        !(o->tag ? latest_open(st, o->tag, l, err) : latest_find(st, true, l, err)))
        return false;
    if (!l->save && l->name && zf_err_unknown(&l->why)) {
        *err = l->why;
        return false;
    }
    if (l->save)
        c->save = (struct zf_save){.store = l->save, .run = st, .tag = l->name};
    *is_out = l->save || l->state == LATEST_NONE;
    return true;
}

/* Does a refine b, directly or through others?  A chain is never longer than the table. */
static bool match_refines(const struct zf_format *a, const struct zf_format *b)
{
    for (size_t i = 0; a && i < TABLE_ROWS; i++) {
        if (!a->refines)
            return false;
        if (strcmp(a->refines, b->name) == 0)
            return true;
        a = table_find(a->refines);
    }
    return false;
}

static bool match_no_format(const char *name, struct zf_err *err)
{
    char list[200] = "";

    for (size_t i = 0; i < TABLE_ROWS; i++) {
        size_t n = strlen(list);
        const char *comma = n && table_row[i] ? ", " : "";

        snprintf(list + n, sizeof list - n, "%s%s", comma, table_row[i] ? table_row[i]->name : "");
    }
    return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "there is no format \"%.40s\". Known: %s", name,
                   list);
}

/* Fails with the store's error, if a family has mistaken it for "does not fit". */
static bool match_doubt(struct zf_store *st, uint64_t since, struct zf_err *err)
{
    return zf_store_failure(st, since, 0, err)
               ? false
               : zf_fail(err, ZF_E_IO, ZF_OFF_NONE, "too many files here are unreadable");
}

/* Tries the families up to the first level in which one fits.  A level without a fit counts only if
 * everything that its families wanted to examine could be read. */
static bool match_ask(struct match *m, struct zf_store *st, const struct zf_open_opts *o,
                      struct fits *fits, struct zf_err *err)
{
    bool file = m->save.file != NULL;

    *fits = (struct fits){.since = zf_store_failures(st)};
    for (size_t i = 0; i < TABLE_ROWS && (table_row[i] || fits->best == ZF_FIT_NO); i++) {
        const struct zf_format *f = table_row[i];
        struct candidate c = {.format = f, .probe = {.fit = ZF_FIT_NO}};
        const uint64_t before = zf_store_failures(st);
        bool is;

        if (!f && fits->n)
            return match_doubt(st, fits->since, err);
        if (!f || (o->format ? strcmp(f->name, o->format) != 0 : file && !f->one_file))
            continue;
        if (!match_save(m, st, o, &c, &is, err))
            return false;
        if (!is)
            continue;
        if (!f->probe(&c.save, o, &c.probe, err))
            return false;
        c.doubted = zf_store_failures(st) != before;
        fits->best = c.probe.fit > fits->best ? c.probe.fit : fits->best;
        if (c.probe.fit != ZF_FIT_NO || c.doubted)
            fits->at[fits->n++] = c;
    }
    return fits->best != ZF_FIT_NO || !fits->n || match_doubt(st, fits->since, err);
}

/* Does c have the best fit, and no family with an equal fit refines it? */
static bool match_wins(const struct candidate *c, const struct fits *fits)
{
    bool wins = c->probe.fit == fits->best;

    for (size_t i = 0; i < fits->n; i++)
        wins = wins && !(fits->at[i].probe.fit == fits->best &&
                         match_refines(fits->at[i].format, c->format));
    return wins;
}

/* Does this family win whatever the families that could not read something would have found? */
static bool match_is_certain(const struct candidate *won, const struct fits *fits)
{
    bool stands = true;

    for (size_t i = 0; i < fits->n; i++) {
        const struct candidate *c = &fits->at[i];

        stands = stands && (c == won || !c->doubted || c->probe.fit == ZF_FIT_PROOF ||
                            (!match_refines(c->format, won->format) &&
                             (won->doubted || won->probe.fit == ZF_FIT_PROOF)));
    }
    return stands;
}

bool match_dir(struct zf_store *st, const struct zf_open_opts *o, struct match *out,
               struct zf_err *err)
{
    return match_one(st, match_file(st), o, out, err);
}

bool match_one(struct zf_store *st, const char *file, const struct zf_open_opts *o,
               struct match *out, struct zf_err *err)
{
    struct fits fits;
    const struct candidate *won = NULL;

    *out = (struct match){.save = {.store = st, .file = file}};
    if (o->format && !table_find(o->format))
        return match_no_format(o->format, err);
    if (!match_ask(out, st, o, &fits, err))
        return false;
    for (size_t i = 0; fits.best != ZF_FIT_NO && i < fits.n; i++) {
        if (!match_wins(&fits.at[i], &fits))
            continue;
        if (won) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "two formats fit: %s (%.90s) and %s (%.90s); -o format=NAME selects one",
                           won->format->name, won->probe.why, fits.at[i].format->name,
                           fits.at[i].probe.why);
        }
        won = &fits.at[i];
    }
    if (won && !match_is_certain(won, &fits))
        return match_doubt(st, fits.since, err);
    if (won) {
        out->format = won->format;
        out->probe = won->probe;
        out->save = won->save;
    }
    return true;
}
