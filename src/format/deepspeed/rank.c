/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a model-parallel rank: the model-states file of its first data-parallel rank, which names
 * the parameters, and every optimizer-states file.  All must be of one save. */
#include "overlap.h"

#include <stdio.h>
#include <string.h>

#include <zf/assemble/degraded.h>
#include <zf/assemble/files.h>

#define RANKS_MAX (1u << 20) /* most ranks that a file may record when others are missing */

/* ---- optimizer files ---- */

static bool rank_missing(const struct ds_rank *mp, uint64_t r, uint64_t n, struct zf_err *err)
{
    struct ds_file f = mp->optim_file[0];
    char name[DS_FILE_NAME], is[ZF_ABSENT_MAX];

    f.dp = (uint32_t)r;
    (void)ds_file_name(f, name);
    (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "%s %s (%u of %llu optimizer files found)", name,
                  zf_absent(mp->save->st, name, is), mp->n_optim_files, (unsigned long long)n);
    zf_err_hint(err, "-o degraded shows what is left");
    return false;
}

/* Refuses (degraded: notes) files of ranks that the save does not have and ranks without a file. */
static bool rank_check_files(struct ds_rank *mp, uint64_t n, struct zf_err *err)
{
    bool degraded = mp->save->o->degraded;
    uint64_t next = 0;

    for (uint32_t i = 0; i < mp->n_optim_files; i++) {
        const struct ds_file *f = &mp->optim_file[i];

        if (f->dp >= n && !degraded) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "\"%s\" does not belong to this save: the optimizer has only %llu "
                           "partitions. Is it left over from a run with more ranks?",
                           f->path, (unsigned long long)n);
        }
        if (f->dp >= n) {
            if (!zf_build_note_on(mp->save->b, ZF_NOTE_UNSHOWN, f->path, err,
                                  "\"%s\" is ignored: there are only %llu ranks", f->path,
                                  (unsigned long long)n))
                return false;
            continue;
        }
        if (f->dp != next && !degraded)
            return rank_missing(mp, next, n, err);
        next = f->dp + 1ull;
    }
    return ((next >= n || degraded) && n <= RANKS_MAX) || rank_missing(mp, next, n, err);
}

static bool rank_same_partitions(const struct ds_optim *a, const struct ds_optim *b)
{
    uint32_t g = 0;

    while (g < a->n_parts && a->part[g]->partitions == b->part[g]->partitions &&
           !a->part[g]->ranks == !b->part[g]->ranks)
        g++;
    return g == a->n_parts;
}

/* The number of data-parallel ranks: the partitions of the group without experts. */
static uint64_t rank_count(const struct ds_rank *mp, const struct ds_optim *first)
{
    bool all = first->n_parts > 0;

    for (uint32_t g = 0; g < first->n_parts; g++)
        all = all && first->part[g]->moe;
    return first->partitions > 0 && !all ? first->partitions
                                         : mp->optim_file[mp->n_optim_files - 1].dp + 1ull;
}

/* Rank r must have the same groups and partitions as the first one that was read. */
static bool rank_same_cut(const struct ds_optim *r, const struct ds_optim *first,
                          struct zf_err *err)
{
    if (r->partitions != first->partitions) {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "partition_count is %llu, but %llu in \"%s\"",
                (unsigned long long)r->partitions, (unsigned long long)first->partitions,
                first->path);
    } else if (r->n_parts != first->n_parts) {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "it holds %u parameter groups, but \"%s\" has %u",
                r->n_parts, first->path, first->n_parts);
    } else if (r->stage != first->stage || r->stage3 != first->stage3) {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                "it was saved by ZeRO stage %d, but \"%s\" by stage %d", r->stage, first->path,
                first->stage);
    } else if (!rank_same_partitions(r, first)) {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                "its groups have other numbers of partitions than in \"%s\"", first->path);
    } else if (!r->n_cuts != !first->n_cuts ||
               (r->n_cuts && r->n_parts > 0 &&
                memcmp(r->n_cuts, first->n_cuts, r->n_parts * sizeof *r->n_cuts) != 0)) {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                "its partitions have other sub-partitions than in \"%s\"", first->path);
    } else if (strcmp(r->version, first->version) != 0) {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                "it was written by DeepSpeed %s, but \"%s\" by %s: two saves are mixed", r->version,
                first->path, first->version);
    } else {
        return true;
    }
    return zf_err_in(err, "%s", r->path);
}

static bool rank_add_vector(struct ds_overlap *list, const struct ds_flat *f, struct ds_name what,
                            uint32_t group, struct zf_err *err)
{
    const struct ds_overlap_bytes at = {.src = f->src, .off = f->off, .what = what, .group = group};

    return ds_overlap_add(list, &at, f->dtype, f->n, err);
}

/* Checks that no two tensors of a file share bytes. */
static bool rank_check_overlap(const struct ds_optim *r, struct zf_err *err)
{
    zf_auto(overlap) struct ds_overlap list = {0};

    for (uint32_t g = 0; g < r->n_parts; g++) {
        for (uint32_t c = 0; c < (r->n_cuts ? r->n_cuts[g] : 1); c++) {
            const struct ds_part *part = &r->part[g][c];

            if (!rank_add_vector(&list, &part->master, (struct ds_name){"the masters", 11}, g, err))
                return false;
            for (uint32_t i = 0; i < part->n_states; i++) {
                const struct ds_state *s = &part->state[i];

                if (s->kind == ZF_DS_FLAT && !rank_add_vector(&list, &s->flat, s->key, g, err))
                    return false;
            }
        }
    }
    return ds_overlap_check(&list, err);
}

/* Degraded: a file that cannot be read is treated as missing. */
static bool rank_read_optim(struct ds_rank *mp, const struct ds_file *f, struct ds_optim *out,
                            struct zf_err *err)
{
    if (ds_optim_read(mp->save, f, out, err) &&
        (rank_check_overlap(out, err) || zf_err_in(err, "%s", f->path)))
        return true;
    if (!mp->save->o->degraded || err->code == ZF_E_NOMEM || err->code == ZF_E_UNSUPPORTED)
        return false;
    *out = (struct ds_optim){.path = f->path, .dp = f->dp, .lost = true};
    return zf_note_failure(mp->save->b, ZF_NOTE_OTHER, NULL, err, "rank %u is lost: ", f->dp);
}

/* Degraded: marks rank r, whose file is missing or damaged, as lost. */
static bool rank_set_lost(const struct ds_rank *mp, uint32_t r, struct zf_err *err)
{
    const struct ds_save *ds = mp->save;
    struct ds_optim *o = &mp->optim[r];
    struct ds_file f = mp->optim_file[0];
    char name[DS_FILE_NAME];

    f.dp = r;
    o->why.file = zf_arena_fmt(ds->a, err, "%s/%s", zf_store_name(ds->st),
                               o->path ? o->path : ds_file_name(f, name));
    o->why.why = o->path ? "is damaged" : "is missing";
    o->gone = (struct ds_part){
        .path = o->path ? o->path : "", .dp = r, .lost = true, .master.lost = &o->why};
    return o->why.file != NULL;
}

/* Degraded, and no optimizer file is readable: stages 1 and 2 have 16-bit weights in "module". */
static bool rank_without_optim(struct ds_rank *mp, struct zf_err *err)
{
    if (mp->save->dir.by_rank)
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "none of the optimizer files can be read");
    mp->n_optim_files = 0;
    return zf_build_note_on(
        mp->save->b, ZF_NOTE_OTHER, mp->model.path, err,
        "\"%s\": none of its optimizer files can be read; the weights are taken from \"module\"",
        mp->model.path);
}

/* Reads every optimizer file into mp->optim; ranks without one are marked as lost. */
static bool rank_read_optims(struct ds_rank *mp, struct zf_err *err)
{
    const struct ds_file *f = mp->optim_file, *end = f + mp->n_optim_files;
    struct ds_optim first = {.lost = true};
    uint64_t n;

    for (; first.lost && f < end; f++)
        if (!rank_read_optim(mp, f, &first, err))
            return false;
    if (first.lost)
        return rank_without_optim(mp, err);
    n = rank_count(mp, &first);
    if (first.dp >= n && mp->save->o->degraded)
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "none of the optimizer files can be read");
    if (!ds_agree_check(mp->save, false, err) || !rank_check_files(mp, n, err))
        return false;
    mp->n_dp = (uint32_t)n;
    mp->optim = zf_arena_get(mp->save->a, n, sizeof *mp->optim, err);
    if (!mp->optim || !ds_files_expect(mp->save, f, (uint32_t)(end - f), mp->n_dp, err))
        return false;
    for (uint32_t r = 0; r < n; r++)
        mp->optim[r] = (struct ds_optim){.dp = r, .lost = true};
    mp->optim[first.dp] = first;
    for (; f < end && f->dp < n; f++) {
        struct ds_optim *r = &mp->optim[f->dp];

        if (!rank_read_optim(mp, f, r, err) ||
            (!r->lost && (!rank_same_cut(r, &first, err) || !ds_agree_check(mp->save, false, err))))
            return false;
    }
    for (uint32_t r = 0; r < n; r++)
        if (mp->optim[r].lost && !rank_set_lost(mp, r, err))
            return false;
    return true;
}

/* Stage 3: each rank with an optimizer file must have a model-states file, with its random state and its slices of frozen
 * parameters.  Source: deepspeed/runtime/engine.py, _configure_checkpointing: save_non_zero_checkpoint, save_zero_checkpoint
 * (0.3.14 … 0.19.8; MiCS writes both of the first partition group alone). */
static bool rank_check_models(struct ds_rank *mp, struct zf_err *err)
{
    uint32_t i = 0, n = mp->save->dir.by_rank ? mp->n_dp : 0;

    for (uint32_t r = 0; r < n; r++) {
        struct ds_file f = mp->model_file[0];
        char name[DS_FILE_NAME], is[ZF_ABSENT_MAX];

        if (i < mp->n_model_files && mp->model_file[i].dp == r) {
            i++;
            continue;
        }
        f.dp = r;
        (void)ds_file_name(f, name);
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                "%s %s; ZeRO stage 3 writes one for each of the %u ranks that have optimizer files",
                name, zf_absent(mp->save->st, name, is), n);
        if (!zf_forgive(mp->save->b, err))
            return false;
    }
    return true;
}

/* ---- the rank ---- */

const struct ds_optim *rank_optim(const struct ds_rank *mp)
{
    uint32_t r = 0;

    while (mp->optim && r < mp->n_dp && mp->optim[r].lost)
        r++;
    return mp->optim && r < mp->n_dp ? &mp->optim[r] : NULL;
}

bool rank_skip_model(struct ds_save *ds, const struct ds_model *m, struct zf_err *err)
{
    return ds->o->degraded && !m->read && err->code != ZF_E_UNSUPPORTED && zf_forgive(ds->b, err);
}

static bool rank_read_model(struct ds_rank *mp, struct zf_err *err)
{
    for (uint32_t i = 0; i < mp->n_model_files && !mp->model_from; i++)
        if (ds_model_read_first(mp->save, &mp->model_file[i], &mp->model, err))
            mp->model_from = &mp->model_file[i];
        else if (!rank_skip_model(mp->save, &mp->model, err))
            return false;
    mp->lost = !mp->model_from;
    mp->save->n_ranks = mp->lost ? mp->save->n_ranks : ds_model_ranks(&mp->model);
    mp->save->want_slices = mp->lost || !mp->model.has_shapes;
    return mp->lost || ds_agree_check(mp->save, true, err);
}

/* Degraded, without a readable model-states file: the layer files of a pipeline have the weights, and
 * the optimizer files the names.  A single rank is served from its optimizer files alone. */
static bool rank_read_without_model(struct ds_rank *mp, struct zf_err *err)
{
    const struct ds_dir *d = &mp->save->dir;

    mp->model = (struct ds_model){
        .steps = -1,
        .path = mp->n_model_files > 0
                    ? mp->model_file[0].path
                    : zf_arena_fmt(mp->save->a, err, "mp_rank_%02u_model_states.pt", mp->mp)};
    return mp->model.path && (d->by_rank || d->universal || (d->n_layers == 0 && d->n_mp > 1) ||
                              mp->n_optim_files == 0 || rank_read_optims(mp, err));
}

/* Refuses a rank that trains parameters but has no optimizer files; if no rank has any, notes it. */
static bool rank_check_no_optim(const struct ds_rank *mp, struct zf_err *err)
{
    const struct ds_dir *d = &mp->save->dir;
    uint64_t n = 0;

    for (uint32_t g = 0; g < mp->model.n_groups; g++)
        n += mp->model.group[g].n;
    if (d->n_optim == 0 && mp->model.has_shapes && n > 0) {
        return zf_build_note_on(
            mp->save->b, ZF_NOTE_OTHER, mp->model.path, err,
            "\"%s\": there are no optimizer files; the weights are taken from \"module\"",
            mp->model.path);
    }
    if (d->n_optim == 0 || (mp->model.has_shapes && n == 0))
        return true;
    zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
            "all optimizer files of %s are missing; other model-parallel ranks have theirs, such "
            "as \"%s\"",
            mp->tree, d->optim[0].path);
    (void)zf_err_in(err, "%s", mp->model.path);
    return zf_forgive(mp->save->b, err);
}

bool rank_agree_models(struct ds_rank *mp, struct zf_err *err)
{
    const struct ds_file *next = mp->model_from + 1;

    if (mp->compared) {
        *err = mp->compare_err;
        return err->code == ZF_OK;
    }
    return ds_agree_models(mp->save, mp->model.path, next,
                           (uint32_t)(mp->model_file + mp->n_model_files - next), err);
}

/* Stage 3: a rank's pickle and the drafts each need a few hundred bytes per parameter, so the files are
 * compared before anything is drafted, to save memory; differences are reported after errors about the
 * parameters.  Not when degraded, since failures then become notes in between. */
static void rank_compare_early(struct ds_rank *mp)
{
    if (mp->save->dir.by_rank && mp->model.frozen.n == 0 && !mp->save->o->degraded) {
        zf_err_clear(&mp->compare_err);
        mp->compared = rank_agree_models(mp, &mp->compare_err) || mp->compare_err.code != ZF_OK;
    }
}

bool rank_read(struct ds_rank *mp, struct zf_err *err)
{
    if (mp->n_model_files == 0 || mp->model_file[0].dp != 0) {
        zf_fail(
            err, ZF_E_FORMAT, ZF_OFF_NONE,
            "the model-states file of rank 0%s%s is missing; the names of the parameters are in it",
            *mp->tree ? " of " : "", mp->tree);
        if (!zf_forgive(mp->save->b, err))
            return false;
    }
    if (!rank_read_model(mp, err))
        return false;
    if (mp->lost)
        return rank_read_without_model(mp, err);
    if (mp->save->dir.universal)
        return rank_agree_models(mp, err);
    if (mp->n_optim_files == 0 && !mp->save->dir.by_rank)
        return rank_check_no_optim(mp, err);
    if (mp->n_optim_files == 0) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "all optimizer files (zero_pp_rank_*_optim_states.pt) are missing; with "
                       "ZeRO stage 3 they hold the weights");
    }
    if (!rank_read_optims(mp, err) || !rank_check_models(mp, err))
        return false;
    rank_compare_early(mp);
    return true;
}

struct zf_draft *rank_find(const struct ds_rank *mp, struct ds_name name)
{
    struct zf_build *b = mp->save->b;
    struct zf_draft *d = zf_build_find_below(b, mp->tree, ds_spot("", name));

    return d || !mp->save->dir.universal ? d : zf_build_find_below(b, "", ds_spot("", name));
}

bool rank_drop_masters(struct ds_rank *mp, struct zf_err *err)
{
    if (!mp->save->o->degraded || mp->optim_only ||
        (err->code != ZF_E_FORMAT && err->code != ZF_E_IO))
        return !ds_err_named(err) && zf_err_in(err, "%s", mp->model.path);
    mp->weights_only = true;
    return zf_note_failure(mp->save->b, ZF_NOTE_LEFT_OUT, NULL, err,
                           "the fp32 masters and the optimizer states are left out, and the "
                           "weights are taken from \"module\": ");
}
