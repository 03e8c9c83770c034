/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/find/match.h>

#include <stdio.h>

#include <zf/assemble/files.h>

#include "table.h"

/* Does a refine b, perhaps through others?  A chain is never longer than the table. */
static bool refines(const struct zf_format *a, const struct zf_format *b)
{
    for (size_t i = 0; a && zf_format_row(i); i++) {
        if (!a->refines) {
            return false;
        }
        if (strcmp(a->refines, b->name) == 0) {
            return true;
        }
        a = zf_table_find(a->refines);
    }
    return false;
}

static bool unknown_name(const char *name, struct zf_err *err)
{
    char list[200] = "";
    const struct zf_format *f;

    for (size_t i = 0; (f = zf_format_row(i)); i++) {
        size_t n = strlen(list);
        snprintf(list + n, sizeof list - n, "%s%s", n ? ", " : "", f->name);
    }
    return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "there is no format \"%.40s\"; known are %s", name,
                   list);
}

/* Settles row f, which fits as p says, against the best so far; *tie_out is set or cleared. */
static void settle(const struct zf_format *f, const struct zf_probe *p, struct zf_pick *best,
                   struct zf_pick *tie)
{
    bool wins = !best->format || p->fit > best->probe.fit ||
                (p->fit == best->probe.fit && refines(f, best->format));
    bool loses = !wins && (p->fit < best->probe.fit || refines(best->format, f));

    if (wins) {
        bool open = tie->format && (p->fit == tie->probe.fit && !refines(f, tie->format));
        *best = (struct zf_pick){.format = f, .probe = *p};
        if (!open) {
            tie->format = NULL;
        }
    } else if (!loses) {
        *tie = (struct zf_pick){.format = f, .probe = *p};
    }
}

static bool forced(struct zf_store *st, const struct zf_open_opts *o, struct zf_pick *out,
                   struct zf_err *err)
{
    struct zf_probe p = {.fit = ZF_FIT_NO};
    const struct zf_format *f = zf_table_find(o->format);

    if (!f) {
        return unknown_name(o->format, err);
    }
    if (!f->probe(st, o, &p, err)) {
        return false;
    }
    if (p.fit != ZF_FIT_NO) {
        *out = (struct zf_pick){.format = f, .probe = p};
    }
    return true;
}

bool zf_pick(struct zf_store *st, const struct zf_open_opts *o, struct zf_pick *out,
             struct zf_err *err)
{
    bool one_file = zf_one_file(st) != NULL;
    unsigned level, level_won = 0;
    struct zf_pick tie = {.format = NULL};
    const struct zf_format *f;

    *out = (struct zf_pick){.format = NULL};
    if (o->format) {
        return forced(st, o, out, err);
    }
    for (size_t i = 0; (f = zf_table_row(i, &level)); i++) {
        struct zf_probe p = {.fit = ZF_FIT_NO};

        if (out->format && level != level_won) {
            break;
        }
        if (one_file && !f->one_file) {
            continue;
        }
        if (!f->probe(st, o, &p, err)) {
            return false;
        }
        if (p.fit != ZF_FIT_NO) {
            settle(f, &p, out, &tie);
            level_won = level;
        }
    }
    if (tie.format) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "two formats fit: %s (%.90s) and %s (%.90s); choose with -o format=NAME",
                       out->format->name, out->probe.why, tie.format->name, tie.probe.why);
    }
    return true;
}
