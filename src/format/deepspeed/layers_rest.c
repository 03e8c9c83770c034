/* SPDX-License-Identifier: Apache-2.0 */
/* Pipeline layer files that no recorded parameter name refers to: weights of a tied module, or a frozen layer.  Source: as in layers.c. */
#include "steps.h"

#include <stdio.h>
#include <string.h>

#include <zf/assemble/degraded.h>
#include <zf/assemble/values.h>

/* ---- tied modules ---- */

/* UNKNOWN: the names and shapes are equal, but the bytes that would prove it are lost. */
enum layers_fit { LAYERS_OTHER, LAYERS_DIFFERS, LAYERS_UNKNOWN, LAYERS_FITS };

/* Does the master of that name round to entry e? */
static bool layers_fits_entry(struct ds_rank *mp, const struct ds_entry *e, struct ds_name name,
                              enum layers_fit *out, struct zf_err *err)
{
    struct zf_build *b = mp->save->b;
    struct zf_draft *master = zf_build_find(b, ds_spot("", name));
    struct zf_mismatch miss;

    if (!master || !zf_build_mark(b, err)) {
        *out = LAYERS_OTHER;
        return !master;
    }
    struct zf_type t = zf_draft_type(master);
    if (!zf_shape_equal(t.ndim, t.shape, e->view.ndim, e->view.shape)) {
        zf_build_undo(b);
        *out = LAYERS_OTHER;
        return true;
    }
    struct zf_draft *weight = zf_tensor_ref_draft(b, ds_spot("stored", name), &e->view, NULL, err);
    bool ok = weight && zf_drafts_round(master, weight, ZF_VALUES_ENDS, &miss, err);
    zf_build_undo(b);
    *out = ok && miss.found ? LAYERS_DIFFERS : LAYERS_FITS;
    if (!ok && zf_build_degraded(b) && err->code == ZF_E_IO) {
        zf_err_clear(err);
        *out = LAYERS_UNKNOWN;
        return true;
    }
    return ok;
}

/* Is the layer the tied module `key` ("tied_modules.embed.")?  Compares all its tensors with the masters. */
static bool layers_fits(struct ds_rank *mp, const struct ds_layer *l, struct ds_name key,
                        enum layers_fit *out, struct zf_err *err)
{
    enum layers_fit one;

    *out = l->has.n_entries > 0 ? LAYERS_FITS : LAYERS_OTHER;
    for (uint32_t i = 0; i < l->has.n_entries && *out != LAYERS_OTHER; i++) {
        struct ds_name name = ds_name_join(mp->save->a, key, l->has.entry[i].name, err);

        if (!name.p)
            return false;
        if (!l->has.entry[i].tensor || ds_name_listed(mp->model.buffer, mp->model.n_buffers, name))
            continue;
        if (!layers_fits_entry(mp, &l->has.entry[i], name, &one, err))
            return false;
        *out = one < *out ? one : *out;
    }
    return true;
}

/* The files without an owner that fit a key best, and how well. */
struct layers_found {
    struct ds_layer *first,
        *second; /* or NULL; a file that fits (FITS) ends the search, so it has no second */
    enum layers_fit fit;
};

static bool layers_find_tied(struct ds_rank *mp, struct ds_layers *l, struct ds_name key,
                             struct layers_found *out, struct zf_err *err)
{
    const struct ds_dir *d = &mp->save->dir;

    *out = (struct layers_found){.fit = LAYERS_OTHER};
    for (uint32_t i = 0; i < d->n_layers && out->fit != LAYERS_FITS; i++) {
        struct ds_layer *layer = &l->layer[i];
        enum layers_fit fit;

        if (layer->owner || (d->layer_model && layer->file->mp != mp->tensor))
            continue;
        if (!layers_fits(mp, layer, key, &fit, err))
            return false;
        if (fit > out->fit)
            *out = (struct layers_found){.first = layer, .fit = fit};
        else if (fit == out->fit && out->first && !out->second)
            out->second = layer;
    }
    return true;
}

/* Does the tied module already have a file for that tensor-parallel rank? */
static bool layers_had_tied(const struct ds_save *ds, const struct ds_layers *l, uint32_t tensor,
                            struct ds_name key)
{
    for (uint32_t i = 0; i < ds->dir.n_layers; i++) {
        const struct ds_layer *layer = &l->layer[i];

        if (layer->tied_key.n > 0 && layer->file->mp == (ds->dir.layer_model ? tensor : 0) &&
            ds_name_eq(layer->tied_key, key))
            return true;
    }
    return false;
}

/* Does the rank train a parameter of the tied module? */
static bool layers_uses_tied(const struct ds_rank *mp, struct ds_name key)
{
    for (uint32_t g = 0; g < mp->n_groups; g++) {
        for (uint32_t i = 0; i < mp->group[g].n; i++)
            if (ds_name_eq(ds_layers_tied_key(mp->group[g].param[i].name), key))
                return true;
    }
    return false;
}

/* Will the masters of a later rank be compared, too, which may prove it? */
static bool layers_asks_later(const struct ds_rank *mp, const struct ds_layers *l,
                              struct ds_name key)
{
    for (uint32_t r = 0; r < l->all->n; r++) {
        const struct ds_rank *later = &l->all->rank[r];

        if (later->mp > mp->mp && later->tensor == mp->tensor && layers_uses_tied(later, key))
            return true;
    }
    return false;
}

/* Degraded: no rank's masters can prove the file.  *take: there is only one candidate. */
static bool layers_choose_unproven(struct ds_rank *mp, const struct ds_layers *l,
                                   const struct layers_found *f, struct ds_name key, bool *take,
                                   struct zf_err *err)
{
    int n = (int)(key.n < 100 ? key.n - 1 : 100);

    if (layers_asks_later(mp, l, key))
        return true;
    *take = !f->second;
    return *take
               ? zf_build_note(
                     mp->save->b, err,
                     "\"%s\" is assumed to be the file of \"%.*s\", because only it has the same "
                     "names and shapes; the masters that would prove it are lost",
                     f->first->file->path, n, key.p)
               : zf_build_note(mp->save->b, err,
                               "\"%s\" and \"%s\" are shown as separate layers: one of them may be "
                               "the file of \"%.*s\", but the masters that would prove it are lost",
                               f->first->file->path, f->second->file->path, n, key.p);
}

/* Assigns the file of the tied module to the rank, if it can be determined; then sets *given. */
static bool layers_give_tied(struct ds_rank *mp, struct ds_layers *l, struct ds_name key,
                             bool *given, struct zf_err *err)
{
    struct layers_found f;

    if (!layers_find_tied(mp, l, key, &f, err))
        return false;
    bool take = f.fit == LAYERS_FITS;
    if (f.fit == LAYERS_UNKNOWN && !layers_choose_unproven(mp, l, &f, key, &take, err))
        return false;
    if (f.fit == LAYERS_DIFFERS)
        f.first->mismatch_key = key;
    if (!take)
        return true;
    f.first->owner = mp;
    f.first->tied_key = key;
    *given = true;
    return ds_layers_give(mp, f.first, zf_arena_str(mp->save->a, key.p, key.n, err), err);
}

bool ds_layers_tied(struct ds_rank *mp, struct ds_layers *l, struct zf_err *err)
{
    struct ds_save *ds = mp->save;
    struct ds_name last = {"", 0};
    bool given = false;

    for (uint32_t g = 0; ds->dir.n_layers > 0 && g < mp->n_groups; g++) {
        for (uint32_t i = 0; i < mp->group[g].n; i++) {
            struct ds_name key = ds_layers_tied_key(mp->group[g].param[i].name);

            if (key.n == 0 || ds_name_eq(key, last) || layers_had_tied(ds, l, mp->tensor, key))
                continue;
            if (!layers_give_tied(mp, l, key, &given, err))
                return false;
            last = key; /* searched once, not for each of its parameters */
        }
    }
    return !given || ds_model_index(ds, &mp->model, err);
}

/* ---- layers without trained parameters ---- */

static bool layers_draft_entry(struct ds_rank *mp, const struct ds_layer *l,
                               const struct ds_entry *e, struct zf_err *err)
{
    struct zf_build *b = mp->save->b;
    char head[16];

    int n = snprintf(head, sizeof head, "%u.", l->file->layer);
    struct ds_name full =
        ds_name_join(mp->save->a, (struct ds_name){head, (uint32_t)n}, e->name, err);
    if (!full.p || !e->tensor)
        return full.p != NULL;
    return zf_tensor_ref_draft(b, ds_spot("", full), &e->view, NULL, err) &&
           (mp->weights_only ||
            zf_tensor_ref_draft(b, ds_spot("stored", full), &e->view, NULL, err));
}

/* Refuses a file with the names and shapes, but not the weights, of a tied module without a file. */
static bool layers_check_unlike(struct ds_save *ds, const struct ds_layers *l,
                                const struct ds_layer *layer, struct zf_err *err)
{
    struct ds_name key = layer->mismatch_key;

    if (key.n == 0 || layers_had_tied(ds, l, layer->file->mp, key))
        return true;
    zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
            "its weights have the names and shapes of \"%.*s\", but the masters of that module do "
            "not round to these weights",
            (int)(key.n < 100 ? key.n - 1 : 100), key.p);
    (void)zf_err_in(err, "%s", layer->file->path);
    return zf_forgive(ds->b, err);
}

/* The rank (same tensor-parallel rank) of the nearest preceding layer, or the first such rank. */
static struct ds_rank *layers_before(struct ds_save *ds, struct ds_ranks *all,
                                     const struct ds_layers *l, uint32_t i)
{
    uint32_t tensor = ds->dir.layer_model ? l->layer[i].file->mp : 0;

    while (i-- > 0 && l->layer[i].file->mp == tensor)
        if (l->layer[i].owner)
            return l->layer[i].owner;
    for (uint32_t k = 0; k < all->n; k++)
        if (all->rank[k].tensor == tensor)
            return &all->rank[k];
    return &all->rank[0];
}

/* Notes tied modules without a file: DeepSpeed writes none for those with a forward_fn, or it is lost. */
static bool layers_note_tied(struct ds_save *ds, const struct ds_ranks *all,
                             const struct ds_layers *l, struct zf_err *err)
{
    for (uint32_t r = 0; ds->dir.n_layers > 0 && r < all->n; r++) {
        struct ds_rank *mp = &all->rank[r];
        struct ds_name noted = {"", 0};

        for (uint32_t g = 0; g < mp->n_groups; g++) {
            for (uint32_t i = 0; i < mp->group[g].n; i++) {
                struct ds_name key = ds_layers_tied_key(mp->group[g].param[i].name);
                bool known =
                    key.n == 0 || ds_name_eq(key, noted) || layers_had_tied(ds, l, mp->tensor, key);

                for (uint32_t k = 0; !known && k < r; k++) {
                    known =
                        all->rank[k].tensor == mp->tensor && layers_uses_tied(&all->rank[k], key);
                }
                if (!known &&
                    !zf_build_note(
                        ds->b, err,
                        "no layer file belongs to \"%.*s\", so stored/ lacks its 16-bit weights",
                        (int)(key.n < 100 ? key.n - 1 : 100), key.p))
                    return false;
                noted = known ? noted : key;
            }
        }
    }
    return true;
}

bool ds_layers_frozen(struct ds_save *ds, struct ds_ranks *all, struct ds_layers *l,
                      struct zf_err *err)
{
    for (uint32_t i = 0; i < ds->dir.n_layers; i++) {
        struct ds_layer *layer = &l->layer[i];

        if (layer->owner)
            continue;
        layer->owner = layers_before(ds, all, l, i);
        if (!layers_check_unlike(ds, l, layer, err) ||
            !zf_build_prefix(ds->b, layer->owner->tree, err))
            return false;
        for (uint32_t k = 0; k < layer->has.n_entries; k++)
            if (!layers_draft_entry(layer->owner, layer, &layer->has.entry[k], err))
                return !ds_err_named(err) && zf_err_in(err, "%s", layer->file->path);
    }
    return zf_build_prefix(ds->b, "", err) && layers_note_tied(ds, all, l, err);
}
