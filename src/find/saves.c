/* SPDX-License-Identifier: Apache-2.0 */
#include "saves.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "latest.h"
#include "match.h"
#include "save_name.h"

bool saves_add(struct zf_saves *s, const char *path, struct zf_err *err)
{
    char **bigger = realloc(s->name, (s->n + 1) * sizeof *bigger);

    if (!bigger) {
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    }
    s->name = bigger;
    bigger[s->n] = strdup(path);
    if (!bigger[s->n]) {
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    }
    s->n++;
    return true;
}

void zf_saves_free(struct zf_saves *s)
{
    for (size_t i = 0; i < s->n; i++) {
        free(s->name[i]);
    }
    free(s->name);
    *s = (struct zf_saves){.name = NULL};
}

bool saves_are_parts(const struct zf_saves *s)
{
    size_t n = 0;

    while (n < s->n && save_name_is_part(s->name[n])) {
        n++;
    }
    return n == s->n;
}

bool saves_is_twin(struct zf_store *st, const char *path)
{
    struct zf_err ignored = {.code = ZF_OK};
    zf_auto(store) struct zf_store *sub = zf_store_sub(st, path, &ignored);
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    zf_auto(mem) char *other = NULL;

    if (!sub || strcmp(zf_store_base(sub), name) == 0) {
        return false;
    }
    if (asprintf(&other, "%.*s%s", (int)(name - path), path, zf_store_base(sub)) < 0) {
        other = NULL;
        return false;
    }
    return zf_store_has(st, other, ZF_ENTRY_DIR);
}

/* How well `dir` fits a family.  Unreadable: NO.  Two families that tie: NAMES, so that opening it
 * reports the tie.  Unfinished: WEAK. */
static enum zf_fit saves_fit(struct zf_store *st, const char *dir, const struct zf_limits *lim)
{
    struct zf_open_opts o = {.lim = lim};
    struct zf_err err = {.code = ZF_OK};
    zf_auto(match) struct match m = {.format = NULL};
    zf_auto(store) struct zf_store *sub = zf_store_sub(st, dir, &err);

    /* A parameter of a universal checkpoint is no save.  Source: deepspeed/checkpoint/constants.py
     * (0.14 … 0.18), FP32_WEIGHT_KEY. */
    if (!sub || zf_store_has(sub, "fp32.pt", ZF_ENTRY_FILE)) {
        return ZF_FIT_NO;
    }
    if (!match_dir(sub, &o, &m, &err)) {
        return err.code == ZF_E_FORMAT ? ZF_FIT_NAMES : ZF_FIT_NO;
    }
    return !m.format ? ZF_FIT_NO : m.probe.unfinished ? ZF_FIT_WEAK : m.probe.fit;
}

/* Sorts the directories of `dir` into those that hold a save and those that fit weakly. */
static bool saves_collect(struct zf_store *st, const char *dir, const struct zf_limits *lim,
                          struct zf_saves *whole, struct zf_saves *weak, struct zf_err *err)
{
    const struct zf_entry *e;
    size_t n;

    if (!zf_store_list(st, dir, &e, &n, err)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        zf_auto(mem) char *path = NULL;

        if (e[i].kind != ZF_ENTRY_DIR || save_name_is_beside(e[i].name)) {
            continue;
        }
        if (asprintf(&path, "%s%s%s", dir, *dir ? "/" : "", e[i].name) < 0) {
            path = NULL;
            return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
        }
        enum zf_fit fit = saves_is_twin(st, path) ? ZF_FIT_NO : saves_fit(st, path, lim);
        if (fit != ZF_FIT_NO && !saves_add(fit == ZF_FIT_WEAK ? weak : whole, path, err)) {
            return false;
        }
    }
    return true;
}

bool saves_below(struct zf_store *st, const char *dir, const struct zf_limits *lim,
                 struct zf_saves *out, struct zf_err *err)
{
    zf_auto(saves) struct zf_saves whole = {.name = NULL}, weak = {.name = NULL};

    *out = (struct zf_saves){.name = NULL};
    if (!saves_collect(st, dir, lim, &whole, &weak, err)) {
        return false;
    }
    struct zf_saves *taken = whole.n ? &whole : &weak;
    *out = *taken;
    *taken = (struct zf_saves){.name = NULL};
    out->weak = weak.n;
    out->latest = out->n;
    return true;
}

bool saves_by_name(struct zf_store *st, struct zf_saves *out, struct zf_err *err)
{
    const struct zf_entry *e;
    size_t n;

    *out = (struct zf_saves){.name = NULL};
    if (!zf_store_list(st, "", &e, &n, err)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (e[i].kind == ZF_ENTRY_DIR && !save_name_is_beside(e[i].name) &&
            save_name_is_step(e[i].name) && !saves_is_twin(st, e[i].name) &&
            !saves_add(out, e[i].name, err)) {
            zf_saves_free(out);
            return false;
        }
    }
    return true;
}

bool zf_saves_list(struct zf_store *st, const struct zf_limits *lim, struct zf_saves *out,
                   struct zf_err *err)
{
    zf_auto(mem) char *latest = NULL;

    if (!saves_below(st, "", lim, out, err)) {
        return false;
    }
    struct zf_err ignored = {.code = ZF_OK};
    if (!latest_save(st, &latest, &ignored) || !latest) {
        return true;
    }
    zf_auto(store) struct zf_store *sub = zf_store_sub(st, latest, &ignored);
    const char *base = sub ? zf_store_base(sub) : latest;
    for (size_t i = 0; i < out->n; i++) {
        if (strcmp(out->name[i], latest) == 0 || strcmp(out->name[i], base) == 0) {
            out->latest = i;
        }
    }
    return true;
}
