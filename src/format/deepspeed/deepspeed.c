/* SPDX-License-Identifier: Apache-2.0 */
/* DeepSpeed ZeRO: a tag directory with the model states and one optimizer file a data-parallel
 * rank. docs/formats/deepspeed.md says what is on disk and where each tensor goes. */
#include <stdio.h>
#include <string.h>

#include <zf/assemble/files.h>
#include <zf/assemble/companions.h>
#include <zf/format.h>

#include "groups.h"
#include "order.h"
#include "zero12.h"
#include "zero3.h"

/* Is this tag directory written by DeepSpeed, and does its first file begin like a torch file? */
static enum zf_fit look(struct zf_store *st, struct zf_ds_dir *dir, struct zf_arena *a)
{
    struct zf_err err = {.code = ZF_OK};
    const struct zf_ds_file *first;

    if (!zf_ds_dir_read(st, a, dir, &err)) {
        return err.code == ZF_E_FORMAT ? ZF_FIT_NAMES : ZF_FIT_NO;
    }
    first = dir->n_optim ? dir->optim : dir->n_model ? dir->model : NULL;
    if (!first) {
        return dir->layers || dir->experts ? ZF_FIT_NAMES : ZF_FIT_NO;
    }
    zf_auto(source) struct zf_source *src = zf_store_open(st, first->path, &err);
    return src && zf_torch_sniff(src) ? ZF_FIT_PROOF : ZF_FIT_NAMES;
}

static bool probe(const struct zf_save *save, const struct zf_open_opts *o, struct zf_probe *out,
                  struct zf_err *err)
{
    zf_auto(arena) struct zf_arena *a = zf_arena_new(o->lim->model_memory, err);
    struct zf_ds_dir dir;

    out->fit = ZF_FIT_NO;
    if (!a) {
        return false;
    }
    if (save->file && !zf_ds_dir_owns(save->file)) {
        return true;
    }
    out->fit = look(save->store, &dir, a);
    if (out->fit != ZF_FIT_NO) {
        snprintf(out->why, sizeof out->why, "%u model and %u optimizer files of DeepSpeed%s%.60s",
                 dir.n_model, dir.n_optim, save->tag ? " in " : "", save->tag ? save->tag : "");
    }
    return true;
}

/* ---- kinds of save that are not read ---- */

static bool supported(const struct zf_ds_dir *d, struct zf_err *err)
{
    const char *kind = NULL, *proof = NULL;

    if (d->layers) {
        kind = "a pipeline-parallel save";
        proof = d->layers;
    } else if (d->experts) {
        kind = "a mixture-of-experts save";
        proof = d->experts;
    } else if (d->n_mp > 1) {
        return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                       "a save of %u model-parallel ranks is not supported", d->n_mp);
    }
    return !kind || zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                            "%s (\"%s\" is there) is not supported", kind, proof);
}

/* ---- ranks ---- */

static bool missing_rank(const struct zf_ds *ds, uint64_t r, uint64_t n, struct zf_err *err)
{
    const struct zf_ds_file *some = &ds->dir.optim[0];
    char name[80], is[ZF_ABSENT_MAX];

    (void)snprintf(name, sizeof name, "%szero_pp_rank_%llu_mp_rank_%02u_optim_states.pt",
                   some->bf16 ? "bf16_" : "", (unsigned long long)r, some->mp);
    return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "%s %s: the optimizer is cut in %llu partitions, optimizer files found: %u",
                   name, zf_absent(ds->st, name, is), (unsigned long long)n, ds->dir.n_optim);
}

/* Refuses (degraded: notes) files of ranks that the save does not have,
 * and ranks without a file. */
static bool check_ranks(struct zf_ds *ds, uint64_t n, struct zf_err *err)
{
    const struct zf_ds_dir *d = &ds->dir;
    uint64_t next = 0;

    for (uint32_t i = 0; i < d->n_optim; i++) {
        if (d->optim[i].dp >= n) {
            if (!ds->o->degraded) {
                return zf_fail(
                    err, ZF_E_FORMAT, ZF_OFF_NONE,
                    "\"%s\" does not belong here: the optimizer is cut in %llu partitions "
                    "(a file of an earlier run with more ranks?)",
                    d->optim[i].path, (unsigned long long)n);
            }
            if (!zf_build_note(ds->b, err, "\"%s\" is ignored: there are only %llu ranks",
                               d->optim[i].path, (unsigned long long)n)) {
                return false;
            }
            continue;
        }
        if (d->optim[i].dp != next && !ds->o->degraded) {
            return missing_rank(ds, next, n, err);
        }
        next = d->optim[i].dp + 1ull;
    }
    if (next < n && !ds->o->degraded) {
        return missing_rank(ds, next, n, err);
    }
    return n <= 1u << 20 || missing_rank(ds, next, n, err);
}

/* Rank r must be cut like the first one that was read. */
static bool same_cut(const struct zf_ds_rank *r, const struct zf_ds_rank *first, struct zf_err *err)
{
    if (r->partitions != first->partitions) {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "partition_count is %llu, but %llu in \"%s\"",
                (unsigned long long)r->partitions, (unsigned long long)first->partitions,
                first->path);
    } else if (r->n_parts != first->n_parts) {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "it holds %u parameter groups, but \"%s\" has %u",
                r->n_parts, first->path, first->n_parts);
    } else if (r->stage != first->stage || r->sliced != first->sliced) {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "it is of ZeRO stage %d, but \"%s\" of stage %d",
                r->stage, first->path, first->stage);
    } else if (strcmp(r->version, first->version) != 0) {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                "it was written by DeepSpeed %s, but \"%s\" by %s: ranks of different saves",
                r->version, first->path, first->version);
    } else {
        return true;
    }
    return zf_err_in(err, "%s", r->path);
}

/* Degraded: a file that cannot be read is as good as missing. */
static bool read_rank(struct zf_ds *ds, const struct zf_ds_file *f, struct zf_ds_rank *out,
                      struct zf_err *err)
{
    char text[800];

    if (zf_ds_optim_read(ds, f, out, err)) {
        return true;
    }
    if (!ds->o->degraded || err->code == ZF_E_NOMEM || err->code == ZF_E_UNSUPPORTED) {
        return false;
    }
    zf_err_text(err, text, sizeof text);
    zf_err_clear(err);
    *out = (struct zf_ds_rank){.path = f->path, .dp = f->dp, .lost = true};
    return zf_build_note(ds->b, err, "rank %u is lost: %s", f->dp, text);
}

/* Reads every optimizer file into ds->rank; ranks without one are lost. */
static bool read_ranks(struct zf_ds *ds, struct zf_err *err)
{
    const struct zf_ds_dir *d = &ds->dir;
    struct zf_ds_rank *first = zf_arena_get(ds->a, 1, sizeof *first, err);
    uint32_t at = 0;
    uint64_t n;

    if (!first) {
        return false;
    }
    for (first->lost = true; first->lost && at < d->n_optim; at++) {
        if (!read_rank(ds, &d->optim[at], first, err)) {
            return false;
        }
    }
    if (first->lost) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "no optimizer file can be read");
    }
    if (!zf_ds_agree_check(ds, false, err)) {
        return false;
    }
    n = first->partitions ? first->partitions : d->optim[d->n_optim - 1].dp + 1ull;
    if (!check_ranks(ds, n, err)) {
        return false;
    }
    ds->n_ranks = (uint32_t)n;
    ds->rank = zf_arena_get(ds->a, n, sizeof *ds->rank, err);
    for (uint32_t r = 0; ds->rank && r < n; r++) {
        ds->rank[r] = (struct zf_ds_rank){.path = "", .dp = r, .lost = true};
    }
    if (!ds->rank || !zf_ds_expect(ds, d->optim + at, d->n_optim - at, err)) {
        return false;
    }
    for (uint32_t i = at - 1; i < d->n_optim && d->optim[i].dp < n; i++) {
        struct zf_ds_rank *r = &ds->rank[d->optim[i].dp];

        if (i == at - 1) {
            *r = *first;
        } else if (!read_rank(ds, &d->optim[i], r, err) ||
                   (!r->lost && (!same_cut(r, first, err) || !zf_ds_agree_check(ds, false, err)))) {
            return false;
        }
    }
    return true;
}

/* A universal checkpoint has no ranks but those of the copied model-states files. */
static bool match_universal(struct zf_ds *ds, struct zf_err *err)
{
    if (!ds->model.has_shapes) {
        zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                "a universal checkpoint without param_shapes is not supported");
        return zf_err_in(err, "%s", ds->model.path);
    }
    ds->n_ranks = ds->dir.n_model;
    return groups_make(ds, err);
}

/* ---- the save ---- */

static bool read_model(struct zf_ds *ds, struct zf_err *err)
{
    return zf_ds_model_read(ds, &ds->dir.model[0], &ds->model, err) &&
           zf_ds_agree_check(ds, true, err);
}

static bool read_all(struct zf_ds *ds, struct zf_err *err)
{
    if (!zf_ds_dir_read(ds->st, ds->a, &ds->dir, err) || !supported(&ds->dir, err)) {
        return false;
    }
    if (ds->dir.n_model == 0 || (ds->dir.model[0].dp != 0 && !ds->o->degraded)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "the model-states file of rank 0 is missing: it names the parameters");
    }
    if (ds->dir.universal) {
        return read_model(ds, err) && match_universal(ds, err) && zf_ds_agree_models(ds, err);
    }
    if (ds->dir.n_optim == 0 && !ds->dir.by_rank) {
        return read_model(ds, err);
    }
    if (ds->dir.n_optim == 0) {
        return zf_fail(
            err, ZF_E_FORMAT, ZF_OFF_NONE,
            "all optimizer files (zero_pp_rank_*_optim_states.pt) are missing: under ZeRO "
            "stage 3 they hold the weights");
    }
    return read_model(ds, err) && read_ranks(ds, err) && groups_match(ds, err);
}

/* The masters are in the order that is recorded, or in a proved one. */
static bool draft_zero12(struct zf_ds *ds, struct zf_err *err)
{
    return zf_ds_order_settle(ds, err) ? zf_ds_zero12_draft(ds, err) : zf_ds_leave_out(ds, err);
}

static bool draft_all(struct zf_ds *ds, struct zf_err *err)
{
    if (ds->model.steps >= 0) {
        zf_build_step(ds->b, ds->model.steps);
    }
    return (ds->dir.universal      ? zf_ds_universal_draft(ds, err)
            : ds->dir.n_optim == 0 ? zf_ds_zero0_draft(ds, err)
            : ds->dir.by_rank      ? zf_ds_zero3_draft(ds, err)
                                   : draft_zero12(ds, err)) &&
           zf_ds_rest_draft(ds, err) && zf_ds_stored_draft(ds, err);
}

static void let_go(struct zf_ds *ds)
{
    zf_torch_ahead_fini(&ds->files);
    zf_keeper_fini(&ds->keep);
    zf_agree_free(ds->said);
    zf_agree_free(ds->said_model);
    zf_agree_free(ds->said_optim);
    zf_arena_free(ds->a);
}

static bool open_save(const struct zf_save *save, const struct zf_open_opts *o, struct zf_build *b,
                      struct zf_err *err)
{
    struct zf_ds ds = {
        .run = save->run ? save->run : save->store, .st = save->store, .o = o, .b = b};

    ds.files = (struct zf_torch_ahead){.st = ds.st, .lim = o->lim};
    ds.a = ds.keep.arena = zf_arena_new(o->lim->model_memory, err);
    /* The Trainer keeps schedulers and random states beside the tag. */
    bool ok = ds.a && read_all(&ds, err) && draft_all(&ds, err) &&
              (!save->run || zf_beside_add(save->run, o, b, err));
    let_go(&ds);
    return ok;
}

const struct zf_format zf_format_deepspeed = {
    .name = "deepspeed",
    .summary = "DeepSpeed, ZeRO stages 0 to 3",
    .one_file = true,
    .latest = true,
    .shards = true,
    .probe = probe,
    .open = open_save,
};
