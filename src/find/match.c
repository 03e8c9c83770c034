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
    "latest",     "latest_universal", "latest_checkpointed_iteration.txt",
    "*.metadata", "metadata.json",    "*metadata.yaml",
    "*.distcp",   "config.json",      "*config.yaml",
    "integrity.json",
    NULL,
};

const char *match_file(const struct zf_store *st)
{
    const char *focus = zf_store_focus(st);

    return focus && !save_name_fits(focus, match_manifest, 0) ? focus : NULL;
}

struct candidate {
    const struct zf_format *format;
    struct zf_probe probe;
    struct zf_save save;
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
    struct zf_err ignored = {.code = ZF_OK}, why;
    const char *file = latest_file(st);

    if (!o->tag && !file) {
        return MATCH_RUN_NONE;
    }
    m->tag = o->tag ? strdup(o->tag) : NULL;
    if (!o->tag && !latest_read(st, file, &m->tag, &why)) {
        if (why.code == ZF_E_FORMAT || why.code == ZF_E_LIMIT) {
            return MATCH_RUN_GONE;
        }
        /* What it says is not known, so that no other family may take the directory for its own. */
        *err = why;
        return MATCH_RUN_UNKNOWN;
    }
    m->named = m->tag ? zf_store_sub(st, m->tag, &ignored) : NULL;
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
    *out = (struct zf_save){.store = st, .file = match_file(st)};
    if (!f->latest || out->file) {
        return true;
    }
    if (m->run == MATCH_RUN_UNKNOWN) {
        m->run = match_run(m, st, o, err);
    }
    if (m->run == MATCH_RUN_UNKNOWN) {
        return false;
    }
    if (m->run == MATCH_RUN_NAMES) {
        *out = (struct zf_save){.store = m->named, .run = st, .tag = m->tag};
    }
    *is_out = m->run != MATCH_RUN_GONE;
    return true;
}

/* a refines b, perhaps through others.  A chain is never longer than the table. */
static bool match_refines(const struct zf_format *a, const struct zf_format *b)
{
    for (size_t i = 0; a && i < TABLE_ROWS; i++) {
        if (!a->refines) {
            return false;
        }
        if (strcmp(a->refines, b->name) == 0) {
            return true;
        }
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
    return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "there is no format \"%.40s\"; known are %s", name,
                   list);
}

/* Asks the families of the first level in which one fits; gives those that fit. */
static bool match_ask(struct match *m, struct zf_store *st, const struct zf_open_opts *o,
                      struct candidate fits[TABLE_ROWS], size_t *n_out, struct zf_err *err)
{
    bool file = match_file(st) != NULL;

    *n_out = 0;
    for (size_t i = 0; i < TABLE_ROWS && (table_row[i] || *n_out == 0); i++) {
        const struct zf_format *f = table_row[i];
        struct candidate c = {.format = f, .probe = {.fit = ZF_FIT_NO}};
        bool is;

        if (!f || (o->format ? strcmp(f->name, o->format) != 0 : file && !f->one_file)) {
            continue;
        }
        if (!match_save(m, st, o, &c, &is, err)) {
            return false;
        }
        if (!is) {
            continue;
        }
        if (!f->probe(&c.save, o, &c.probe, err)) {
            return false;
        }
        if (c.probe.fit != ZF_FIT_NO) {
            fits[(*n_out)++] = c;
        }
    }
    return true;
}

static enum zf_fit match_best(const struct candidate *fits, size_t n)
{
    enum zf_fit best = ZF_FIT_NO;

    for (size_t i = 0; i < n; i++) {
        best = fits[i].probe.fit > best ? fits[i].probe.fit : best;
    }
    return best;
}

/* c fits best, and none that fits as well refines it. */
static bool match_wins(const struct candidate *c, const struct candidate *fits, size_t n,
                       enum zf_fit best)
{
    bool wins = c->probe.fit == best;

    for (size_t i = 0; i < n; i++) {
        wins = wins && !(fits[i].probe.fit == best && match_refines(fits[i].format, c->format));
    }
    return wins;
}

bool match_dir(struct zf_store *st, const struct zf_open_opts *o, struct match *out,
               struct zf_err *err)
{
    struct candidate fits[TABLE_ROWS];
    const struct candidate *won = NULL;
    size_t n;

    *out = (struct match){.save = {.store = st, .file = match_file(st)}};
    if (o->format && !table_find(o->format)) {
        return match_no_format(o->format, err);
    }
    if (!match_ask(out, st, o, fits, &n, err)) {
        return false;
    }
    enum zf_fit best = match_best(fits, n);
    for (size_t i = 0; i < n; i++) {
        if (!match_wins(&fits[i], fits, n, best)) {
            continue;
        }
        if (won) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "two formats fit: %s (%.90s) and %s (%.90s); choose with -o format=NAME",
                           won->format->name, won->probe.why, fits[i].format->name,
                           fits[i].probe.why);
        }
        won = &fits[i];
    }
    if (won) {
        out->format = won->format;
        out->probe = won->probe;
        out->save = won->save;
    }
    return true;
}
