/* SPDX-License-Identifier: Apache-2.0 */
/* Whose the layers' files are that no name speaks of: a tied module's, or nobody's.  Source: as in layers.c. */
#include "steps.h"

#include <stdio.h>
#include <string.h>

#include <zf/assemble/degraded.h>
#include <zf/assemble/values.h>

/* ---- tied modules ---- */

enum layers_fit { LAYERS_OTHER, LAYERS_DIFFERS, LAYERS_FITS };

/* Is entry e what the master of that name rounds to? */
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
        zf_err_clear(err); /* bytes that are lost prove nothing */
        return true;
    }
    return ok;
}

/* Are all tensors of the layer those of the tied module `key` ("tied_modules.embed.")? */
static bool layers_fits(struct ds_rank *mp, const struct ds_layer *l, struct ds_name key,
                        enum layers_fit *out, struct zf_err *err)
{
    enum layers_fit one;

    *out = l->n > 0 ? LAYERS_FITS : LAYERS_OTHER;
    for (uint32_t i = 0; i < l->n && *out != LAYERS_OTHER; i++) {
        struct ds_name name = ds_name_join(mp->save->a, key, l->entry[i].name, err);

        if (!name.p) {
            return false;
        }
        if (!l->entry[i].tensor || ds_name_listed(mp->model.buffer, mp->model.n_buffers, name)) {
            continue;
        }
        if (!layers_fits_entry(mp, &l->entry[i], name, &one, err)) {
            return false;
        }
        *out = one == LAYERS_FITS ? *out : one;
    }
    return true;
}

/* The first file without an owner that fits the key; *best says how well the best of all does. */
static bool layers_find_tied(struct ds_rank *mp, struct ds_layers *l, struct ds_name key,
                             struct ds_layer **out, enum layers_fit *best, struct zf_err *err)
{
    const struct ds_dir *d = &mp->save->dir;

    *out = NULL;
    *best = LAYERS_OTHER;
    for (uint32_t i = 0; i < d->n_layers && *best != LAYERS_FITS; i++) {
        struct ds_layer *layer = &l->layer[i];
        enum layers_fit fit;

        if (layer->owner || (d->layer_model && layer->file->mp != mp->tensor)) {
            continue;
        }
        if (!layers_fits(mp, layer, key, &fit, err)) {
            return false;
        }
        if (fit > *best) {
            *best = fit;
            *out = layer;
        }
    }
    return true;
}

/* Does a file of that tensor rank belong to the module already? */
static bool layers_had_tied(const struct ds_save *ds, const struct ds_layers *l, uint32_t tensor,
                            struct ds_name key)
{
    for (uint32_t i = 0; i < ds->dir.n_layers; i++) {
        const struct ds_layer *layer = &l->layer[i];

        if (layer->tied.n > 0 && layer->file->mp == (ds->dir.layer_model ? tensor : 0) &&
            ds_name_eq(layer->tied, key)) {
            return true;
        }
    }
    return false;
}

bool ds_layers_tied(struct ds_rank *mp, struct ds_layers *l, struct zf_err *err)
{
    struct ds_save *ds = mp->save;
    bool given = false;

    for (uint32_t g = 0; ds->dir.n_layers > 0 && g < mp->n_groups; g++) {
        for (uint32_t i = 0; i < mp->group[g].n; i++) {
            struct ds_name key = ds_layers_tied_key(mp->group[g].param[i].name);
            struct ds_layer *layer;
            enum layers_fit best;

            if (key.n == 0 || layers_had_tied(ds, l, mp->tensor, key)) {
                continue;
            }
            if (!layers_find_tied(mp, l, key, &layer, &best, err)) {
                return false;
            }
            if (best == LAYERS_FITS) {
                layer->owner = mp;
                layer->tied = key;
                given = true;
                if (!ds_layers_give(mp, layer, zf_arena_str(ds->a, key.p, key.n, err), err)) {
                    return false;
                }
            } else if (best == LAYERS_DIFFERS) {
                layer->unlike = key;
            }
        }
    }
    return !given || ds_model_index(ds, &mp->model, err);
}

/* ---- layers of which nothing is trained ---- */

static bool layers_draft_entry(struct ds_rank *mp, const struct ds_layer *l,
                               const struct ds_entry *e, struct zf_err *err)
{
    struct zf_build *b = mp->save->b;
    char head[16];

    int n = snprintf(head, sizeof head, "%u.", l->file->layer);
    struct ds_name full =
        ds_name_join(mp->save->a, (struct ds_name){head, (uint32_t)n}, e->name, err);
    if (!full.p || !e->tensor) {
        return full.p != NULL;
    }
    return zf_tensor_ref_draft(b, ds_spot("", full), &e->view, NULL, err) &&
           (mp->plain || zf_tensor_ref_draft(b, ds_spot("stored", full), &e->view, NULL, err));
}

/* Has the file the names and shapes of a tied module that has no other? */
static bool layers_check_unlike(struct ds_save *ds, const struct ds_layers *l,
                                const struct ds_layer *layer, struct zf_err *err)
{
    struct ds_name key = layer->unlike;

    if (key.n == 0 || layers_had_tied(ds, l, layer->file->mp, key)) {
        return true;
    }
    zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
            "its weights have the names and shapes of \"%.*s\", but the masters of that module do "
            "not round to them",
            (int)(key.n < 100 ? key.n - 1 : 100), key.p);
    (void)zf_err_in(err, "%s", layer->file->path);
    return zf_forgive(ds->b, err);
}

/* The rank of the same tensor coordinate that has the nearest layer in front of this one, or the first. */
static struct ds_rank *layers_before(struct ds_save *ds, struct ds_ranks *all,
                                     const struct ds_layers *l, uint32_t i)
{
    uint32_t tensor = ds->dir.layer_model ? l->layer[i].file->mp : 0;

    while (i-- > 0 && l->layer[i].file->mp == tensor) {
        if (l->layer[i].owner) {
            return l->layer[i].owner;
        }
    }
    for (uint32_t k = 0; k < all->n; k++) {
        if (all->rank[k].tensor == tensor) {
            return &all->rank[k];
        }
    }
    return &all->rank[0];
}

/* Has the rank a parameter of the tied module? */
static bool layers_uses_tied(const struct ds_rank *mp, struct ds_name key)
{
    for (uint32_t g = 0; g < mp->n_groups; g++) {
        for (uint32_t i = 0; i < mp->group[g].n; i++) {
            if (ds_name_eq(ds_layers_tied_key(mp->group[g].param[i].name), key)) {
                return true;
            }
        }
    }
    return false;
}

/* A tied module may have no file of its own (one with a forward_fn), or lost it: nothing says which. */
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
                if (!known && !zf_build_note(ds->b, err,
                                             "no layer's file is that of \"%.*s\": stored/ lacks "
                                             "its 16-bit weights",
                                             (int)(key.n < 100 ? key.n - 1 : 100), key.p)) {
                    return false;
                }
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

        if (layer->owner) {
            continue;
        }
        layer->owner = layers_before(ds, all, l, i);
        if (!layers_check_unlike(ds, l, layer, err) ||
            !zf_build_prefix(ds->b, layer->owner->tree, err)) {
            return false;
        }
        for (uint32_t k = 0; k < layer->n; k++) {
            if (!layers_draft_entry(layer->owner, layer, &layer->entry[k], err)) {
                return !ds_err_named(err) && zf_err_in(err, "%s", layer->file->path);
            }
        }
    }
    return zf_build_prefix(ds->b, "", err) && layers_note_tied(ds, all, l, err);
}
