/* SPDX-License-Identifier: Apache-2.0 */
/* DeepSpeed ZeRO: a tag directory with the model states and one optimizer file per data-parallel
 * rank.  docs/formats/deepspeed.md describes the files and where each tensor is shown. */
#include <stdio.h>

#include <zf/assemble/companions.h>
#include <zf/base/name.h>
#include <zf/format.h>
#include <zf/source/want.h>

#include "steps.h"

/* How certain it is that DeepSpeed wrote this tag directory, from its file names and its first file. */
static enum zf_fit deepspeed_look(struct zf_store *st, struct ds_dir *dir, struct zf_arena *a)
{
    struct zf_err err = {.code = ZF_OK};
    const struct ds_file *first;

    if (!ds_dir_read(st, a, dir, &err))
        return err.code == ZF_E_FORMAT ? ZF_FIT_NAMES : ZF_FIT_NO;
    first = dir->n_optim ? dir->optim : dir->n_model ? dir->model : NULL;
    if (!first)
        return dir->n_layers || dir->n_experts > 0 ? ZF_FIT_NAMES : ZF_FIT_NO;
    zf_auto(source) struct zf_source *src = zf_store_open(st, first->path, &err);
    return src && zf_torch_sniff(src) ? ZF_FIT_PROOF : ZF_FIT_NAMES;
}

static bool deepspeed_probe(const struct zf_save *save, const struct zf_open_opts *o,
                            struct zf_probe *out, struct zf_err *err)
{
    zf_auto(arena) struct zf_arena *a = zf_arena_new(o->lim->model_memory, err);
    struct ds_dir dir;

    out->fit = ZF_FIT_NO;
    if (!a)
        return false;
    if (save->file && !ds_dir_owns(save->file))
        return true;
    out->fit = deepspeed_look(save->store, &dir, a);
    if (out->fit != ZF_FIT_NO) {
        snprintf(out->why, sizeof out->why, "%u model and %u optimizer files of DeepSpeed%s%.60s",
                 dir.n_model, dir.n_optim, save->tag ? " in " : "", save->tag ? save->tag : "");
    }
    return true;
}

/* ---- the save ---- */

/* Drafts the trained parameters and their states. */
static bool deepspeed_draft_trained(struct ds_rank *mp, struct zf_err *err)
{
    if (mp->save->dir.universal)
        return true; /* joined already, for all ranks */
    if (mp->lost && mp->weights_only)
        return true; /* only the weights in the layer files are left */
    if (mp->n_optim_files == 0)
        return ds_zero0_draft(mp, err);
    if (mp->save->dir.by_rank)
        return ds_zero3_draft(mp, err);
    return (mp->merged ? ds_merged_prove : ds_order_prove)(mp, err) ? ds_zero12_draft(mp, err)
                                                                    : rank_drop_masters(mp, err);
}

/* Drafts the tensors of one model-parallel rank, in its own tree if there are several ranks. */
static bool deepspeed_draft_rank(struct ds_rank *mp, struct ds_layers *layers, struct zf_err *err)
{
    struct zf_build *b = mp->save->b;

    if (mp->model.steps >= 0)
        zf_build_step(b, mp->model.steps);
    return ds_experts_read(mp, err) && (mp->save->dir.universal || ds_groups_make(mp, err)) &&
           zf_build_prefix(b, mp->tree, err) && deepspeed_draft_trained(mp, err) &&
           ds_layers_tied(mp, layers, err) && ds_rest_draft(mp, err) && ds_stored_draft(mp, err) &&
           ds_warn_note(mp, err) && zf_build_prefix(b, "", err);
}

/* Drafts the parameters of a universal checkpoint, named by the files of all ranks together. */
static bool deepspeed_draft_universal(struct ds_save *ds, struct ds_ranks *all, struct zf_err *err)
{
    struct ds_rank whole = {.save = ds};
    uint64_t n = 0;

    for (uint32_t i = 0; i < all->n; i++) {
        if (!ds_groups_make(&all->rank[i], err))
            return false;
        n += all->rank[i].n_groups;
    }
    whole.model = all->rank[0].model;
    whole.group = zf_arena_get(ds->a, n, sizeof *whole.group, err);
    for (uint32_t i = 0; whole.group && i < all->n; i++)
        for (uint32_t g = 0; g < all->rank[i].n_groups; g++)
            whole.group[whole.n_groups++] = all->rank[i].group[g];
    return whole.group && ds_universal_draft(&whole, err);
}

static bool deepspeed_is_states(const char *name)
{
    return zf_name_ends(name, "_states.pt");
}

/* Files up to this many bytes are fetched whole, in a few requests. */
#define BEGIN_WHOLE (512u << 10)

/* Starts the first reads of an archive: its beginning and its zip directory; a short one is fetched whole. */
static void deepspeed_begin(struct zf_source *src)
{
    uint8_t to[16u << 10];
    const size_t n = src->size < sizeof to ? (size_t)src->size : sizeof to;
    const uint64_t from = src->size <= BEGIN_WHOLE ? 0 : src->size - n;
    struct zf_err ignored;

    zf_source_want(src, from, src->size - from, ZF_PREFETCH_NOW);
    (void)!zf_source_pread(src, to, n, 0, &ignored);
    (void)!zf_source_pread(src, to, n, src->size - n, &ignored);
}

/* Model states, optimizer states and layers are read alternately: on slow storage all are opened ahead. */
static void deepspeed_expect(struct ds_save *ds)
{
    zf_auto(expect) struct zf_expect *x =
        zf_store_expect_in(ds->st, "", deepspeed_is_states, deepspeed_begin);

    zf_expect_all(x);
}

/* Reads all files before anything is drafted: the rank of a layer follows from the parameter names
 * in all of them. */
static bool deepspeed_open_ranks(struct ds_save *ds, struct ds_ranks *all, struct zf_err *err)
{
    struct ds_layers layers = {0};

    deepspeed_expect(ds);
    if (!ds_dir_read(ds->st, ds->a, &ds->dir, err) || !ds_ranks_list(ds, all, err))
        return false;
    if (all->n == 0) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "there are layer files, but no model-states file");
    }
    for (uint32_t i = 0; i < all->n; i++) {
        ds->rank = &all->rank[i];
        if (!rank_read(&all->rank[i], err))
            return false;
    }
    if (!ds_ranks_drop(ds, all, err) || !ds_ranks_mesh(ds, all, err) ||
        !ds_layers_read(ds, all, &layers, err))
        return false;
    if (ds->dir.universal && !deepspeed_draft_universal(ds, all, err))
        return false;
    for (uint32_t i = 0; i < all->n; i++) {
        ds->rank = &all->rank[i];
        if (!deepspeed_draft_rank(&all->rank[i], &layers, err))
            return false;
    }
    return ds_layers_frozen(ds, all, &layers, err) && ds_tp_join(ds, all, err) &&
           ds_numbered_draft(all, err) &&
           (!ds->dir.universal || ds_universal_prove(ds, all, err)) &&
           ds_trained_show(ds, all, err);
}

static bool deepspeed_open_save(const struct zf_save *save, const struct zf_open_opts *o,
                                struct zf_build *b, struct zf_err *err)
{
    struct ds_save ds = {
        .run = save->run ? save->run : save->store, .st = save->store, .o = o, .b = b};
    struct ds_ranks all = {0};

    ds.files = (struct zf_torch_ahead){.st = ds.st, .lim = o->lim};
    ds.a = ds.keep.arena = zf_arena_new(o->lim->model_memory, err);
    /* transformers.Trainer saves schedulers and random states next to the tag directory. */
    bool ok = ds.a && deepspeed_open_ranks(&ds, &all, err) &&
              (!save->run || zf_companions_add(save->run, o, b, err));
    ds_ranks_fini(&all);
    zf_torch_ahead_fini(&ds.files);
    zf_keeper_fini(&ds.keep);
    zf_agree_free(ds.file_values);
    zf_agree_free(ds.job_values);
    zf_agree_free(ds.steps_values);
    zf_agree_free(ds.job_steps);
    zf_arena_free(ds.a);
    return ok;
}

const struct zf_format zf_format_deepspeed = {
    .name = "deepspeed",
    .summary = "DeepSpeed, ZeRO stages 0 to 3",
    .one_file = true,
    .latest = true,
    .tp_rules = true,
    .shards = true,
    .probe = deepspeed_probe,
    .open = deepspeed_open_save,
};
