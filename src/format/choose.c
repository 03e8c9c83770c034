/* SPDX-License-Identifier: Apache-2.0 */
/* The front of the room: from a store to a sealed checkpoint. */
#include <ctype.h>
#include <string.h>

#include "locate.h"
#include "side.h"
#include "tags.h"

/* The number of a save's name: 60 for "checkpoint-60", the last one for "epoch=1-step=20.ckpt". */
static bool step_of(const char *name, int64_t *step_out)
{
    const char *end = name + strlen(name), *p;

    while (end > name && !isdigit((unsigned char)end[-1])) {
        end--;
    }
    for (p = end; p > name && isdigit((unsigned char)p[-1]);) {
        p--;
    }
    if (p == end || end - p > 15) {
        return false;
    }
    *step_out = strtoll(p, NULL, 10);
    return true;
}

/* What the place alone tells; a family that knows better says it again. */
static bool describe(struct zf_build *b, const struct zf_place *p, struct zf_err *err)
{
    if (p->note[0] && !zf_build_note(b, err, "%s", p->note)) {
        return false;
    }
    const char *base = zf_store_base(p->outer ? p->outer : p->store);
    const char *tag = p->tag ? p->tag : base;
    const char *named = zf_tags_is_step(tag) ? tag : base;
    int64_t step;

    if (zf_tags_is_step(named) && step_of(named, &step)) {
        zf_build_step(b, step);
    }
    return !(p->tag || zf_tags_is_step(tag)) || zf_build_tag(b, tag, err);
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

struct zf_checkpoint *zf_open(struct zf_store *st, const struct zf_open_opts *o, struct zf_err *err)
{
    zf_auto(place) struct zf_place p = {.store = NULL};
    zf_auto(build) struct zf_build *b = NULL;
    struct zf_build *whole;
    struct zf_checkpoint *c;

    if (!zf_locate(st, o, &p, err)) {
        return NULL;
    }
    b = zf_build_new(p.store, o->lim, o->degraded, err);
    if (b && o->fill_lost) {
        zf_build_fill_lost(b);
    }
    if (!b || !describe(b, &p, err) || !p.pick.format->open(p.store, o, b, err) ||
        !zf_side_files(p.store, NULL, b, err) ||
        (p.outer && !zf_side_files(p.outer, p.store, b, err))) {
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
