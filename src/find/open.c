/* SPDX-License-Identifier: Apache-2.0 */
/* The front of the room: from a store to a sealed checkpoint. */
#include <stdio.h>
#include <string.h>

#include <zf/find/locate.h>
#include <zf/find/saves.h>

#include "save_word.h"
#include "sidefiles.h"

/* What the path of the save says; a family that knows better says it again. */
static bool describe(struct zf_build *b, const struct zf_place *p, struct zf_err *err)
{
    if (p->note[0] && !zf_build_note(b, err, "%s", p->note)) {
        return false;
    }
    const char *base = zf_store_base(p->outer ? p->outer : p->store);
    const char *tag = p->tag ? p->tag : base;
    int64_t step;

    if (zf_tags_step(tag, &step) || zf_tags_step(base, &step)) {
        zf_build_step(b, step);
    }
    return !(p->tag || zf_tags_is_step(tag)) || zf_build_tag(b, tag, err);
}

/* The tag is what -o tag= takes at the place that was pointed at.  A family that finds the save by
 * itself named it as seen from its run directory: behind a run's name it says which save of the
 * run, behind a save's name (checkpoint-60/global_step60) it says nothing more. */
static bool name_tag(struct zf_build *b, const struct zf_place *p, struct zf_err *err)
{
    zf_auto(mem) char *whole = NULL;
    const char *own = zf_build_tagged(b);
    int64_t step;

    if (!p->tag || strcmp(own, p->tag) == 0) {
        return true;
    }
    if (!p->rest && zf_tags_step(p->tag, &step)) {
        return zf_build_tag(b, p->tag, err);
    }
    if (asprintf(&whole, "%s/%s", p->tag, own) < 0) {
        whole = NULL;
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    }
    return zf_build_tag(b, whole, err);
}

/* Failures name files as seen from the save; the user pointed at a directory above it. */
static struct zf_checkpoint *refused(const struct zf_place *p, struct zf_err *err)
{
    const char *full = zf_store_name(p->store);

    if (p->tag && err->code != ZF_E_USAGE && strncmp(err->path, full, strlen(full)) != 0) {
        (void)zf_err_in(err, "%s", p->tag);
    }
    return NULL;
}

/* Files that are no shards: beside the save, and beside its directory. */
static bool add_side_files(const struct zf_place *p, struct zf_build *b, struct zf_err *err)
{
    /* The others may have read just that adapter. */
    bool adapter = p->pick.format->shards;

    return zf_side_files(p->store, NULL, b, err) &&
           (!p->outer || zf_side_files(p->outer, p->store, b, err)) &&
           (!adapter || zf_side_adapter(p->store, b, err)) &&
           (!adapter || !p->outer || zf_side_adapter(p->outer, b, err));
}

/* note: why this save was opened, or "". */
static struct zf_checkpoint *open_one(struct zf_store *st, const struct zf_open_opts *o,
                                      const char *note, struct zf_err *err)
{
    zf_auto(place) struct zf_place p = {.store = NULL};
    zf_auto(build) struct zf_build *b = NULL;
    struct zf_build *whole;
    struct zf_checkpoint *c;

    if (!zf_locate(st, o, &p, err)) {
        return NULL;
    }
    /* The tag leads from p.store on: what was resolved on the way is done with. */
    struct zf_open_opts how = *o;
    how.tag = p.rest;
    b = zf_build_new(p.store, o->lim, o->degraded, err);
    if (b && o->fill_lost) {
        zf_build_fill_lost(b);
    }
    if (!b || !describe(b, &p, err) || (*note && !zf_build_note(b, err, "%s", note)) ||
        !p.pick.format->open(p.store, &how, b, err) || !name_tag(b, &p, err) ||
        !add_side_files(&p, b, err)) {
        return refused(&p, err);
    }
    if (o->side && !zf_side_from(o->side, o->lim, b, err)) {
        return NULL;
    }
    whole = b;
    b = NULL;
    c = zf_build_seal(whole, p.pick.format->name, p.pick.probe.why, err);
    return c ? c : refused(&p, err);
}

/* -o tag=whole: from the newest save down, the first that can be opened strictly.  What is wrong with
 * newer ones becomes a note. */
static struct zf_checkpoint *open_whole(struct zf_store *st, const struct zf_open_opts *o,
                                        struct zf_err *err)
{
    zf_auto(tags) struct zf_tags t = {.name = NULL};
    struct zf_err first = {.code = ZF_OK};
    struct zf_open_opts how = *o;
    char note[400] = "", why[300];

    if (!zf_tagword_by_age(st, o, &t, err)) {
        return NULL;
    }
    how.degraded = false;
    if (t.n == 0) {
        how.tag = NULL;
        return open_one(st, &how, "", err);
    }
    for (size_t i = 0; i < t.n; i++) {
        how.tag = t.name[i];
        struct zf_checkpoint *c = open_one(st, &how, note, err);
        if (c || err->code == ZF_E_NOMEM) {
            return c;
        }
        if (i == 0) {
            first = *err;
            (void)snprintf(note, sizeof note, "%.80s is not whole: %s", t.name[0],
                           zf_err_text(err, why, sizeof why));
        }
    }
    (void)zf_fail(err, first.code, first.off, "none of the %zu saves here is whole; the newest: %s",
                  t.n, first.msg);
    memcpy(err->path, first.path, sizeof err->path);
    return NULL;
}

struct zf_checkpoint *zf_open(struct zf_store *st, const struct zf_open_opts *o, struct zf_err *err)
{
    return zf_tagword_is_whole(st, o) ? open_whole(st, o, err) : open_one(st, o, "", err);
}
