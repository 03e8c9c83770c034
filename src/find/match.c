/* SPDX-License-Identifier: Apache-2.0 */
/* The families are asked level by level until one level has a family that fits.  Of that level only
 * the best fit counts, and of those that share it the one that none of the others refines: first the
 * best fit is found, then those that share it are counted.
 *
 * A family with `latest` set keeps its saves in run directories.  Where -o tag or a file `latest`
 * names a save, such a family is asked about that save; the others are asked about the directory. */
#include "match.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "latest.h"
#include "save_name.h"
#include "table.h"

/* Files that mean the directory they lie in. */
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
    bool doubted; /* what it looked at could not be read, so that a better fit may be hidden */
};

/* The families of one level that fit, or may. */
struct fits {
    struct candidate at[TABLE_ROWS];
    size_t n;
    bool any;       /* one fits */
    uint64_t since; /* zf_store_doubts before the first was asked */
};

void match_fini(struct match *m)
{
    zf_store_unref(&m->named);
    free(m->tag);
    m->tag = NULL;
}

/* Looks at no other save than the named one: this is asked while saves are searched for. */
static enum match_run match_run(struct match *m, struct zf_store *st, const struct zf_open_opts *o,
                                struct zf_err *err)
{
    struct zf_err why;
    const char *file = latest_file(st);

    if (!o->tag && !file)
        return MATCH_RUN_NONE;
    m->tag = o->tag ? strdup(o->tag) : NULL;
    if (!o->tag && !latest_read(st, file, &m->tag, &why)) {
        if (why.code == ZF_E_FORMAT || why.code == ZF_E_LIMIT)
            return MATCH_RUN_GONE;
        /* Its answer is unknown, so no other family may claim the directory. */
        *err = why;
        return MATCH_RUN_UNKNOWN;
    }
    m->named = m->tag ? zf_store_sub(st, m->tag, &why) : NULL;
    if (m->tag && !m->named && zf_err_unknown(&why)) {
        *err = why;
        return MATCH_RUN_UNKNOWN;
    }
    return m->named ? MATCH_RUN_NAMES : MATCH_RUN_GONE;
}

/* The save that family f is asked about; *is_out false: there is none.  Errors: the pointer file cannot
 * be read. */
static bool match_save(struct match *m, struct zf_store *st, const struct zf_open_opts *o,
                       struct candidate *c, bool *is_out, struct zf_err *err)
{
    const struct zf_format *f = c->format;
    struct zf_save *out = &c->save;

    *is_out = true;
    *out = (struct zf_save){.store = st, .file = m->save.file};
    if (!f->latest || out->file)
        return true;
    if (m->run == MATCH_RUN_UNKNOWN)
        m->run = match_run(m, st, o, err);
    if (m->run == MATCH_RUN_UNKNOWN)
        return false;
    if (m->run == MATCH_RUN_NAMES)
        *out = (struct zf_save){.store = m->named, .run = st, .tag = m->tag};
    *is_out = m->run != MATCH_RUN_GONE;
    return true;
}

/* a refines b, perhaps through others.  A chain is never longer than the table. */
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

static enum zf_fit match_best(const struct candidate *fits, size_t n)
{
    enum zf_fit best = ZF_FIT_NO;

    for (size_t i = 0; i < n; i++)
        best = fits[i].probe.fit > best ? fits[i].probe.fit : best;
    return best;
}

/* Fails with the store's failure, which the family took for a "no". */
static bool match_doubt(struct zf_store *st, uint64_t since, struct zf_err *err)
{
    return zf_store_doubt(st, since, 0, err)
               ? false
               : zf_fail(err, ZF_E_IO, ZF_OFF_NONE, "too many files here are unreadable");
}

/* Asks the families of the first level in which one fits.  A level in which none does has said
 * "no" only if all could be looked at that its families asked for. */
static bool match_ask(struct match *m, struct zf_store *st, const struct zf_open_opts *o,
                      struct fits *fits, struct zf_err *err)
{
    bool file = m->save.file != NULL;

    *fits = (struct fits){.since = zf_store_doubts(st)};
    for (size_t i = 0; i < TABLE_ROWS && (table_row[i] || !fits->any); i++) {
        const struct zf_format *f = table_row[i];
        struct candidate c = {.format = f, .probe = {.fit = ZF_FIT_NO}};
        const uint64_t before = zf_store_doubts(st);
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
        c.doubted = zf_store_doubts(st) != before;
        fits->any = fits->any || c.probe.fit != ZF_FIT_NO;
        if (c.probe.fit != ZF_FIT_NO || c.doubted)
            fits->at[fits->n++] = c;
    }
    return fits->any || !fits->n || match_doubt(st, fits->since, err);
}

/* c fits best, and none that fits as well refines it. */
static bool match_wins(const struct candidate *c, const struct candidate *fits, size_t n,
                       enum zf_fit best)
{
    bool wins = c->probe.fit == best;

    for (size_t i = 0; i < n; i++)
        wins = wins && !(fits[i].probe.fit == best && match_refines(fits[i].format, c->format));
    return wins;
}

/* Could none of the families that could not look win over this one? */
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
    enum zf_fit best = match_best(fits.at, fits.n);
    for (size_t i = 0; best != ZF_FIT_NO && i < fits.n; i++) {
        if (!match_wins(&fits.at[i], fits.at, fits.n, best))
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
