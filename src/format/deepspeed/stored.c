/* SPDX-License-Identifier: Apache-2.0 */
/* stored/: the 16-bit weights as they were saved.  Stages 1 and 2 have them in the model-states
 * file; stage 3 only if they were gathered into a file next to the tag, which must hold every
 * trained weight. Source: deepspeed/runtime/engine.py (save_16bit_model),
 * transformers/trainer.py. */
#include <string.h>

#include <zf/assemble/degraded.h>
#include <zf/assemble/files.h>
#include <zf/codec/safetensors.h>

#include "steps.h"

#define SET "stored"

static bool stored_draft_all(struct ds_rank *mp, const struct ds_model *m, struct zf_err *err)
{
    for (uint32_t i = 0; i < m->n_entries; i++) {
        const struct ds_entry *e = &m->entry[i];

        if (e->tensor && !ds_is_tie(m, i) &&
            !zf_tensor_ref_draft(mp->save->b, ds_spot(SET, e->name), &e->view, NULL, err))
            return !ds_err_named(err) && zf_err_in(err, "%s", m->path);
    }
    for (uint32_t i = 0; i < m->n_entries; i++) {
        struct ds_name name = m->entry[i].name, of = m->entry[m->entry[i].same].name;
        struct zf_draft *d = ds_is_tie(m, i) ? zf_build_find(mp->save->b, ds_spot(SET, of)) : NULL;

        if (d && !zf_build_alias(mp->save->b, d, name.p, name.n, err))
            return false;
    }
    return true;
}

/* Drafts the weights of experts, under their indices in the whole model. */
static bool stored_draft_experts(struct ds_rank *mp, struct zf_err *err)
{
    return stored_draft_all(mp, &mp->expert, err) &&
           (!mp->renumbered ||
            zf_build_note(mp->save->b, err,
                          "expert numbers differ: the optimizer counts from 0 on each rank, the "
                          "weight files count globally; stored/ uses the files' numbers"));
}

/* ---- gathered files ---- */

static bool stored_load_bin(struct ds_rank *mp, struct zf_source *src, struct ds_model *out,
                            struct zf_err *err)
{
    zf_auto(torch) struct zf_torch *t = zf_torch_open(src, mp->save->o->lim, err);

    return t && ds_entries_read(mp->save, t, NULL, out, err);
}

static bool stored_load_safetensors(struct ds_rank *mp, struct zf_source *src, struct ds_model *out,
                                    struct zf_err *err)
{
    struct zf_st_header h;

    if (!zf_st_load(src, mp->save->a, mp->save->o->lim, &h, err) ||
        !zf_keeper_hold(&mp->save->keep, src, err) || !ds_entries_room(mp->save, out, h.n, err))
        return false;
    for (uint64_t i = 0; i < h.n; i++) {
        const struct zf_st_entry *s = &h.entry[i];
        uint32_t bytes = zf_dtype_info(s->dtype)->bytes;

        out->entry[out->n_entries++] = (struct ds_entry){
            .name = {s->name, s->name_len},
            .tensor = true,
            .view = {.src = src,
                     .key = "",
                     .dtype = s->dtype,
                     .ndim = s->ndim,
                     .shape = s->shape,
                     .off = s->begin,
                     .n = (s->end - s->begin) / bytes,
                     .packed = true},
        };
    }
    return true;
}

/* Is it a name like "model.safetensors" or "model-00001-of-00004.safetensors"? */
static bool stored_is_gathered(const char *name, const char *stem, const char *suffix)
{
    struct zf_series s;

    return strncmp(name, stem, strlen(stem)) == 0 &&
           (strcmp(name + strlen(stem), suffix) == 0 ||
            (zf_series_parse(name, &s) && s.stem == strlen(stem) && strcmp(s.tail, suffix) == 0));
}

static bool stored_load(struct ds_rank *mp, const char *path, bool bin, struct ds_model *out,
                        struct zf_err *err)
{
    zf_auto(source) struct zf_source *src = zf_store_open(mp->save->run, path, err);

    return src &&
           (bin ? stored_load_bin(mp, src, out, err) : stored_load_safetensors(mp, src, out, err));
}

/* Reads the tensors of all gathered files, either .bin or .safetensors. */
static bool stored_load_all(struct ds_rank *mp, bool bin, struct ds_model *out, struct zf_err *err)
{
    const struct zf_entry *e;
    size_t n;

    if (!zf_store_list(mp->save->run, "", &e, &n, err))
        return false;
    for (size_t i = 0; i < n; i++)
        if (e[i].kind != ZF_ENTRY_DIR &&
            stored_is_gathered(e[i].name, bin ? "pytorch_model" : "model",
                               bin ? ".bin" : ".safetensors") &&
            !stored_load(mp, e[i].name, bin, out, err))
            return false;
    return true;
}

/* True if m holds every trained name, once and with its shape. */
static bool stored_is_complete(const struct ds_rank *mp, const struct ds_model *m)
{
    for (uint32_t i = 1; i < m->n_entries; i++)
        if (ds_name_eq(m->entry[m->by_name[i - 1]].name, m->entry[m->by_name[i]].name))
            return false;
    for (uint32_t g = 0; g < mp->n_groups; g++) {
        for (uint32_t i = 0; i < mp->group[g].n; i++) {
            const struct ds_param *p = &mp->group[g].param[i];
            const struct ds_entry *e = ds_model_find(m, p->name);

            const uint64_t *shape = p->whole ? p->whole : p->shape;

            if (!e || !zf_shape_equal(e->view.ndim, e->view.shape, p->ndim, shape))
                return false;
        }
    }
    return true;
}

/* Notes names that are only in the gathered file: frozen parameters excluded from the save. */
static bool stored_note_excluded(struct ds_rank *mp, const struct ds_model *m, struct zf_err *err)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < m->n_entries; i++)
        n += !rank_find(mp, m->entry[i].name);
    return n == 0 || zf_build_note(mp->save->b, err,
                                   "%u tensors are only in stored/, because the save was made "
                                   "without frozen parameters",
                                   n);
}

/* Checks that the gathered weights are of this save: later training overwrites such a file. */
static bool stored_is_same_save(struct ds_rank *mp, const struct ds_model *m, bool bin, bool *same,
                                struct zf_err *err)
{
    const char *kind = bin ? "pytorch_model*.bin" : "model*.safetensors";
    struct ds_name bad = {NULL, 0};

    *same = false;
    if (!ds_zero3_rounds(mp, m, &bad, err))
        return zf_note_failure(mp->save->b, ZF_NOTE_LEFT_OUT, NULL, err, "stored/ is left out: ");
    *same = bad.p == NULL;
    return *same ||
           zf_build_note_on(mp->save->b, ZF_NOTE_LEFT_OUT, NULL, err,
                            "stored/ is left out: the %s next to the tag belong to another save "
                            "(the master of \"%.*s\" does not round to the weight in them)",
                            kind, (int)bad.n, bad.p);
}

/* Drafts the gathered weights if they are complete; damaged files are only noted. */
static bool stored_draft_gathered(struct ds_rank *mp, bool bin, bool *done, struct zf_err *err)
{
    struct ds_model m = {.path = mp->model.path};
    bool same;

    if (!stored_load_all(mp, bin, &m, err))
        return zf_note_failure(mp->save->b, ZF_NOTE_LEFT_OUT, NULL, err, "stored/ is left out: ");
    if (m.n_entries == 0)
        return true;
    if (!ds_model_index(mp->save, &m, err))
        return false;
    if (!stored_is_complete(mp, &m)) {
        return zf_build_note_on(mp->save->b, ZF_NOTE_LEFT_OUT, NULL, err,
                                "stored/ is left out: the %s next to the tag do not hold every "
                                "trained parameter exactly once",
                                bin ? "pytorch_model*.bin" : "model*.safetensors");
    }
    if (!stored_is_same_save(mp, &m, bin, &same, err))
        return false;
    if (!same)
        return true;
    *done = true;
    return ds_ties_mark(mp, &m, err) && stored_note_excluded(mp, &m, err) &&
           stored_draft_all(mp, &m, err);
}

bool ds_stored_draft(struct ds_rank *mp, struct zf_err *err)
{
    bool done = false;

    if (mp->weights_only)
        return true;
    if (!mp->save->dir.by_rank)
        return stored_draft_all(mp, &mp->model, err) && stored_draft_experts(mp, err);
    return mp->save->run == mp->save->st || (stored_draft_gathered(mp, false, &done, err) &&
                                             (done || stored_draft_gathered(mp, true, &done, err)));
}
