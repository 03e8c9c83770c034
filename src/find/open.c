/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a store as a sealed checkpoint; the entry point of this directory. */
#include <stdio.h>
#include <string.h>

#include <zf/assemble/degraded.h>

#include "locate.h"
#include "save_name.h"
#include "pick.h"
#include "beside.h"

/* Sets tag and step from the path; a family that knows the step more reliably sets it again. */
static bool open_describe(struct zf_build *b, const struct located *l, struct zf_err *err)
{
    const char *base = zf_store_base(l->outer ? l->outer : l->dir);
    const char *tag = l->tag ? l->tag : save_name_is_step(base) ? base : NULL;
    int64_t step;

    if ((l->path && save_name_step(l->path, &step)) || save_name_step(base, &step))
        zf_build_step(b, step);
    return (!l->note[0] || zf_build_note(b, err, "%s", l->note)) &&
           (!l->newer[0] || zf_build_note(b, err, "%s", l->newer)) &&
           (!l->beside[0] || zf_build_note_on(b, l->saves ? ZF_NOTE_SAVES : ZF_NOTE_OTHER, l->saves,
                                              err, "%s", l->beside)) &&
           (!tag || zf_build_tag(b, tag, err));
}

/* Puts the save's path before the file in a failure, because the user gave a directory above it. */
static struct zf_checkpoint *open_refused(const struct located *l, struct zf_err *err)
{
    const struct zf_save *save = &l->match.save;
    const char *full = zf_store_name(save->store);

    if (err->code != ZF_E_USAGE && strncmp(err->path, full, strlen(full)) != 0) {
        (void)(save->tag && zf_err_in(err, "%s", save->tag));
        (void)(l->path && zf_err_in(err, "%s", l->path));
    }
    return NULL;
}

/* Adds side files: those in the save and those next to its directory. */
static bool open_side_files(const struct located *l, struct zf_build *b, struct zf_err *err)
{
    /* Other families may have read that very adapter, and their directories are not training runs. */
    bool shards = l->match.format->shards;

    return sidefiles_add(l->dir, NULL, b, err) &&
           (!l->outer || sidefiles_add(l->outer, l->dir, b, err)) &&
           (!shards || sidefiles_below(l->dir, b, err)) &&
           (!shards || !l->outer || sidefiles_below(l->outer, b, err)) &&
           (!shards || sidefiles_adapter(l->dir, b, err)) &&
           (!shards || !l->outer || sidefiles_adapter(l->outer, b, err));
}

/* Notes rank files that are missing in the save, next to it, and next to its directory. */
static bool open_note_ranks(const struct located *l, struct zf_build *b, struct zf_err *err)
{
    struct zf_store *const st = l->match.save.store;

    return l->match.save.file ||
           (rankfiles_note(st, b, err) && (l->dir == st || rankfiles_note(l->dir, b, err)) &&
            (!l->outer || rankfiles_note(l->outer, b, err)));
}

/* Notes files that lost their contents in the save, next to it, and next to its directory. */
static bool open_note_broken(const struct located *l, struct zf_build *b, struct zf_err *err)
{
    struct zf_store *const st = l->match.save.store;
    const bool shards = l->match.format->shards;

    return l->match.save.file || (broken_note(st, false, shards && st == l->dir, b, err) &&
                                  (l->dir == st || broken_note(l->dir, true, shards, b, err)) &&
                                  (!l->outer || broken_note(l->outer, true, shards, b, err)));
}

/* Notes rules that had no effect, so that a mistake in them is not mistaken for a join. */
static bool open_note_rules(const struct zf_format *f, const struct zf_open_opts *o,
                            struct zf_build *b, struct zf_err *err)
{
    return !o->tp_rules || f->tp_rules ||
           zf_build_note(b, err,
                         "tp_rules=%.200s is not used: format %s records how its ranks are joined",
                         o->tp_rules, f->name);
}

/* Reports files that could not be read since `since` and were treated as missing.  If the checkpoint opens
 * without them (degraded, or side files), a note says so, unless there is one already. */
static bool open_doubts(struct zf_store *st, uint64_t since, bool without, struct zf_build *b,
                        struct zf_err *err)
{
    struct zf_err why;
    size_t n = 0;

    for (; zf_store_failure(st, since, n, &why); n++) {
        if (without && zf_build_noted_failure(b, &why))
            continue;
        if (!without || why.code == ZF_E_NOMEM ||
            !zf_note_failure(b, ZF_NOTE_OTHER, NULL, &why, "%s", "")) {
            *err = why;
            return false;
        }
    }
    const size_t all = zf_store_failures_since(st, since);
    return all <= n ||
           zf_build_note(b, err, "%zu files and directories could not be read in total", all);
}

/* Adds to a failure that what was not found may only have been unreadable. */
static void open_explain(struct zf_store *st, uint64_t since, bool degraded, struct zf_err *err)
{
    struct zf_err why;

    if ((err->code == ZF_E_UNKNOWN || err->code == ZF_E_USAGE || err->code == ZF_E_NOENT ||
         ((err->code == ZF_E_FORMAT || err->code == ZF_E_UNSUPPORTED) && !degraded)) &&
        zf_store_failure(st, since, 0, &why))
        *err = why;
}

/* Refuses a checkpoint without tensors, unless the user gave that very file. */
static bool open_empty(const struct located *l, const struct zf_open_opts *o, struct zf_build *b,
                       struct zf_err *err)
{
    if (zf_build_n_tensors(b))
        return true;
    return l->match.save.file || o->degraded
               ? zf_build_note(b, err, "it holds no tensors")
               : zf_fail(err, ZF_E_UNKNOWN, ZF_OFF_NONE, "this save holds no tensors");
}

/* Is there a scheduler file?  transformers' trainer writes it after the optimizer, in the same function.
 * Source: transformers trainer.py, _save_optimizer_and_scheduler (4.20 … 5.x). */
static bool open_has_scheduler(struct zf_store *st)
{
    return zf_store_has(st, "scheduler.pt", ZF_ENTRY_FILE) &&
           zf_store_has(st, "trainer_state.json", ZF_ENTRY_FILE);
}

/* Notes optimizer states without weights, and weights without optimizer states if the trainer saved its state: the file
 * with the other half may be missing, and nothing else would show it. */
static bool open_note_halves(const struct located *l, struct zf_build *b, struct zf_err *err)
{
    struct zf_spot spot;
    struct zf_draft *tie;
    uint64_t at = 0;
    bool optim = false, weights = false;

    if (l->match.save.file)
        return true;
    const bool both = open_has_scheduler(l->dir) || (l->outer && open_has_scheduler(l->outer));
    while ((!weights || (both && !optim)) && zf_build_next(b, "", &at, &spot, &tie)) {
        optim = optim || strncmp(spot.set, "optim", 5) == 0;
        weights =
            weights || (strncmp(spot.set, "optim", 5) != 0 && strncmp(spot.set, "extra", 5) != 0);
    }
    if (weights) {
        return optim || !both ||
               zf_build_note(b, err,
                             "the save has no optimizer states, which transformers' trainer writes "
                             "with scheduler.pt");
    }
    return zf_build_has_note(b, ZF_NOTE_NO_WEIGHTS) || zf_build_n_tensors(b) == 0 ||
           zf_build_note_on(b, ZF_NOTE_NO_WEIGHTS, NULL, err, "the save has no weights%s",
                            optim ? ", only optimizer states" : "");
}

/* note: why this save was opened, or "".  since: zf_store_failures at the beginning; nomem:
 * zf_err_nomem_count then. */
static struct zf_checkpoint *open_described(struct zf_store *st, const struct zf_open_opts *o,
                                            const char *note, uint64_t since, uint64_t nomem,
                                            struct zf_err *err)
{
    zf_auto(located) struct located l = {.dir = NULL};
    zf_auto(build) struct zf_build *b = NULL;
    struct zf_checkpoint *c;

    if (!locate(st, o, &l, err))
        return NULL;
    l.match.save.outer = l.outer;
    b = zf_build_new(l.dir, o->lim, o->degraded, err);
    if (b && o->fill_lost)
        zf_build_fill_lost(b);
    if (b && o->copies)
        zf_build_record_copies(b);
    if (!b || !open_describe(b, &l, err) || (*note && !zf_build_note(b, err, "%s", note)))
        return open_refused(&l, err);
    if (o->bare) {
        return bare_open(&l.match.save, b, err) && open_note_broken(&l, b, err)
                   ? zf_build_seal(zf_give(b), l.match.format->name, l.match.probe.why, err)
                   : NULL;
    }
    if (!open_note_rules(l.match.format, o, b, err) ||
        !l.match.format->open(&l.match.save, o, b, err))
        return open_refused(&l, err);
    if (!open_doubts(st, since, o->degraded, b, err))
        return NULL;
    if (!open_empty(&l, o, b, err) || !open_note_halves(&l, b, err))
        return open_refused(&l, err);
    const uint64_t side = zf_store_failures(st);
    if (!open_side_files(&l, b, err) ||
        (!l.match.save.file &&
         !unshown_note(l.match.save.store, l.match.format->whole ? UNSHOWN_ALL : UNSHOWN_SAVES,
                       o->lim, b, err)) ||
        (l.loose && !unshown_note(l.loose, UNSHOWN_FILES, o->lim, b, err)) ||
        !open_note_ranks(&l, b, err) || !open_note_broken(&l, b, err))
        return open_refused(&l, err);
    if ((o->side && !sidefiles_from(o->side, o, b, err)) || !open_doubts(st, side, true, b, err))
        return NULL;
    if (zf_err_nomem_count() != nomem)
        return zf_null(zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory"));
    if (o->sealing)
        o->sealing(o->sealing_ctx, b, l.match.format->name, l.match.probe.why);
    c = zf_build_seal(zf_give(b), l.match.format->name, l.match.probe.why, err);
    return c ? c : open_refused(&l, err);
}

/* Likewise, and reports failures that were mistaken for an answer. */
static struct zf_checkpoint *open_one(struct zf_store *st, const struct zf_open_opts *o,
                                      const char *note, struct zf_err *err)
{
    const uint64_t since = zf_store_failures(st), nomem = zf_err_nomem_count();
    struct zf_checkpoint *c = open_described(st, o, note, since, nomem, err);

    if (!c && err->code != ZF_E_NOMEM && zf_err_nomem_count() != nomem)
        (void)zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    else if (!c)
        open_explain(st, since, o->degraded, err);
    zf_store_forget_failures(st, since);
    return c;
}

struct zf_checkpoint *zf_open(struct zf_store *st, const struct zf_open_opts *o, struct zf_err *err)
{
    return o->choice || pick_is_whole(st, o) ? whole_open(st, o, open_one, err)
                                             : open_one(st, o, "", err);
}
