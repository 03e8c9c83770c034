/* SPDX-License-Identifier: Apache-2.0 */
/* A pipeline saves its weights in one file per layer, under names without the layer's number: "a.weight"
 * of layer 3 is the parameter "3.a.weight".  The names of the trained parameters and of the buffers show
 * which stage has which layer.  A file of no such name belongs to the tied module
 * ("tied_modules.<key>.…", whose key is not recorded) whose masters round to it, or is a layer that is
 * not trained.  Source: deepspeed/runtime/pipe/module.py (ckpt_layer_path, save_state_dict),
 * 0.6.0 … 0.19.8. */
#include "steps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/assemble/degraded.h>

#define TIED "tied_modules."

/* ---- reading ---- */

static bool layers_read_one(struct ds_save *ds, struct ds_layer *l, struct zf_err *err)
{
    zf_auto(torch) struct zf_torch *t = zf_torch_ahead_open(&ds->files, l->file->path, err);

    return t && ds_entries_read(ds, t, l->file, &l->has, err);
}

static bool layers_read_all(struct ds_save *ds, struct ds_layers *out, struct zf_err *err)
{
    const struct ds_dir *d = &ds->dir;

    out->layer = zf_arena_get(ds->a, d->n_layers, sizeof *out->layer, err);
    if (!out->layer || !ds_files_expect(ds, d->layer, d->n_layers, UINT32_MAX, err))
        return false;
    for (uint32_t i = 0; i < d->n_layers; i++) {
        out->layer[i] = (struct ds_layer){.file = &d->layer[i]};
        if (!layers_read_one(ds, &out->layer[i], err) &&
            (ds_err_named(err) ? !zf_forgive(ds->b, err) : true))
            return false;
    }
    return true;
}

/* ---- the rank of each layer ---- */

static int layers_cmp(const void *key, const void *elem)
{
    const struct ds_file *a = key, *b = ((const struct ds_layer *)elem)->file;

    if (a->mp != b->mp)
        return a->mp < b->mp ? -1 : 1;
    return (a->layer > b->layer) - (a->layer < b->layer);
}

/* Parses the layer number at the front of a parameter's name; false: there is none. */
static bool layers_number(struct ds_name name, uint32_t *out)
{
    uint64_t v = 0;
    uint32_t i = 0;

    for (; i < name.n && i < 10 && name.p[i] >= '0' && name.p[i] <= '9'; i++)
        v = 10 * v + (uint64_t)(name.p[i] - '0');
    *out = (uint32_t)v;
    return i > 0 && i < name.n && name.p[i] == '.' && v < UINT32_MAX;
}

static bool layers_no_file(const struct ds_rank *mp, uint32_t number, struct ds_name name,
                           struct zf_err *err)
{
    char path[60];

    if (mp->save->dir.layer_model) {
        (void)snprintf(path, sizeof path, "layer_%02u-model_%02u-model_states.pt", number,
                       mp->tensor);
    } else {
        (void)snprintf(path, sizeof path, "layer_%02u-model_states.pt", number);
    }
    if (mp->save->o->degraded) {
        return zf_build_note(mp->save->b, err, "%s is missing; weights of \"%s\" are in it", path,
                             *mp->tree ? mp->tree : "the model");
    }
    return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "%s is missing; by \"%s\", \"%.*s\" is in it",
                   path, mp->model.path, ds_name_shown(name), name.p);
}

/* The rank's file of a layer, or NULL. */
static struct ds_layer *layers_find(const struct ds_rank *mp, const struct ds_layers *l,
                                    uint32_t number)
{
    const struct ds_dir *d = &mp->save->dir;
    const struct ds_file key = {.mp = d->layer_model ? mp->tensor : 0, .layer = number};

    return d->n_layers ? bsearch(&key, l->layer, d->n_layers, sizeof *l->layer, layers_cmp) : NULL;
}

/* Assigns the layer of this parameter or buffer to the rank, whose files name it. */
static bool layers_claim(struct ds_rank *mp, struct ds_layers *l, struct ds_name name,
                         struct zf_err *err)
{
    uint32_t number;

    if (!layers_number(name, &number))
        return true;
    struct ds_layer *found = layers_find(mp, l, number);
    if (!found)
        return layers_no_file(mp, number, name, err);
    if (found->owner && found->owner != mp) {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "layer %u is listed by both \"%s\" and \"%s\"",
                number, found->owner->model.path, mp->model.path);
        return zf_err_in(err, "%s", found->file->path);
    }
    found->owner = mp;
    return true;
}

static bool layers_claim_group(struct ds_rank *mp, struct ds_layers *l, const struct ds_shapes *g,
                               struct zf_err *err)
{
    for (uint32_t i = 0; i < g->n; i++)
        if (!layers_claim(mp, l, g->param[i].name, err))
            return false;
    return true;
}

/* Assigns all layers of parameters and buffers that the rank's files name. */
static bool layers_claim_all(struct ds_rank *mp, struct ds_layers *l, struct zf_err *err)
{
    const struct ds_model *m = &mp->model;

    for (uint32_t g = 0; g < m->n_groups; g++)
        if (!layers_claim_group(mp, l, &m->group[g], err))
            return false;
    for (uint32_t i = 0; i < m->n_buffers; i++)
        if (!layers_claim(mp, l, m->buffer[i], err))
            return false;
    for (uint32_t r = 0; mp->optim && !m->has_shapes && r < mp->n_dp; r++) {
        const struct ds_optim *o = &mp->optim[r];

        for (uint32_t g = 0; g < o->n_parts; g++) {
            for (uint32_t i = 0; i < o->part[g]->n_slices; i++)
                if (!layers_claim(mp, l, o->part[g]->slice[i].name, err))
                    return false;
        }
    }
    return layers_claim_group(mp, l, &m->frozen, err);
}

/* ---- shapes of tied modules, where only the mappings name parameters ---- */

/* The number of elements of the parameter in group g, over all ranks. */
static uint64_t layers_count_slices(const struct ds_rank *mp, uint32_t g, struct ds_name name)
{
    uint64_t n = 0;

    for (uint32_t r = 0; r < mp->n_dp; r++) {
        const struct ds_part *p = g < mp->optim[r].n_parts ? mp->optim[r].part[g] : NULL;

        for (uint32_t i = 0; p && i < p->n_slices; i++)
            if (ds_name_eq(p->slice[i].name, name))
                n += p->slice[i].n; /* a sum beyond 64 bits is refused later */
    }
    return n;
}

/* The entry called `rest` with n elements in a file of an unassigned layer; NULL if there is none, or if
 * several have different shapes. */
static const struct ds_entry *layers_find_unnamed(const struct ds_rank *mp,
                                                  const struct ds_layers *l, struct ds_name rest,
                                                  uint64_t n)
{
    const struct ds_dir *d = &mp->save->dir;
    const struct ds_entry *found = NULL;

    for (uint32_t i = 0; i < d->n_layers; i++) {
        const struct ds_layer *layer = &l->layer[i];

        if (layer->owner || (d->layer_model && layer->file->mp != mp->tensor))
            continue;
        for (uint32_t k = 0; k < layer->has.n_entries; k++) {
            const struct ds_entry *e = &layer->has.entry[k];

            if (!e->tensor || e->view.n != n || !ds_name_eq(e->name, rest))
                continue;
            if (found &&
                !zf_shape_equal(found->view.ndim, found->view.shape, e->view.ndim, e->view.shape))
                return NULL;
            found = e;
        }
    }
    return found;
}

struct ds_name ds_layers_tied_key(struct ds_name name)
{
    size_t n = strlen(TIED);
    const char *dot =
        name.n > n && memcmp(name.p, TIED, n) == 0 ? memchr(name.p + n, '.', name.n - n) : NULL;

    return (struct ds_name){name.p, dot ? (uint32_t)(dot - name.p) + 1 : 0};
}

static bool layers_add_tied(struct ds_rank *mp, const struct ds_layers *l, uint32_t g,
                            struct ds_name name, struct zf_err *err)
{
    struct ds_name key = ds_layers_tied_key(name);
    struct ds_name rest = {name.p + key.n, name.n - key.n};
    uint64_t n = key.n ? layers_count_slices(mp, g, name) : 0;
    const struct ds_entry *e = key.n ? layers_find_unnamed(mp, l, rest, n) : NULL;
    struct ds_param *all =
        e ? zf_arena_get(mp->save->a, mp->tied.n + 1ull, sizeof *all, err) : NULL;

    if (!e)
        return true;
    if (!all)
        return false;
    if (mp->tied.n > 0)
        memcpy(all, mp->tied.param, mp->tied.n * sizeof *all);
    all[mp->tied.n] =
        (struct ds_param){.name = name, .ndim = e->view.ndim, .shape = e->view.shape, .n = n};
    mp->tied.param = all;
    mp->tied.n++;
    return true;
}

static bool layers_find_shapes(struct ds_rank *mp, const struct ds_layers *l, struct zf_err *err)
{
    for (uint32_t r = 0; mp->optim && !mp->model.has_shapes && r < mp->n_dp; r++) {
        const struct ds_optim *o = &mp->optim[r];

        for (uint32_t g = 0; g < o->n_parts; g++) {
            for (uint32_t i = 0; i < o->part[g]->n_slices; i++)
                if (!layers_add_tied(mp, l, g, o->part[g]->slice[i].name, err))
                    return false;
        }
    }
    return true;
}

bool ds_layers_give(struct ds_rank *mp, const struct ds_layer *l, const char *head,
                    struct zf_err *err)
{
    struct ds_model *m = &mp->model;
    const struct ds_name front = {head, (uint32_t)strlen(head)};

    if (!ds_entries_room(mp->save, m, l->has.n_entries, err))
        return false;
    for (uint32_t i = 0; i < l->has.n_entries; i++) {
        struct ds_entry *e = &m->entry[m->n_entries + i];

        *e = l->has.entry[i];
        e->same = m->n_entries + i;
        e->name = ds_name_join(mp->save->a, front, e->name, err);
        if (!e->name.p)
            return false;
    }
    m->n_entries += l->has.n_entries;
    return true;
}

static bool layers_give_numbered(struct ds_rank *mp, const struct ds_layer *l, struct zf_err *err)
{
    char head[16];

    (void)snprintf(head, sizeof head, "%u.", l->file->layer);
    return ds_layers_give(mp, l, head, err);
}

/* Checks that a layer's file, if present, has every trained parameter of the layer except experts, which
 * have their own files. */
static bool layers_check_names(const struct ds_rank *mp, const struct ds_layers *l,
                               struct zf_err *err)
{
    const struct ds_model *m = &mp->model;
    struct ds_expert_name expert;
    uint32_t number;

    for (uint32_t g = 0; m->pipeline && g < m->n_groups; g++) {
        for (uint32_t i = 0; i < m->group[g].n; i++) {
            struct ds_name name = m->group[g].param[i].name;

            if (!layers_number(name, &number) || ds_expert_name(name, &expert) ||
                !layers_find(mp, l, number) || ds_model_find(m, name))
                continue;
            zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                    "it lists \"%.*s\", which the file of layer %u does not hold: that file "
                    "belongs to another layer or save",
                    ds_name_shown(name), name.p, number);
            return zf_err_in(err, "%s", m->path) || zf_forgive(mp->save->b, err);
        }
    }
    return true;
}

bool ds_layers_read(struct ds_save *ds, struct ds_ranks *all, struct ds_layers *out,
                    struct zf_err *err)
{
    out->all = all;
    if (!layers_read_all(ds, out, err))
        return false;
    for (uint32_t i = 0; i < all->n; i++) {
        struct ds_rank *mp = &all->rank[i];

        if (mp->model.pipeline && !ds->dir.universal && !layers_claim_all(mp, out, err))
            return false;
    }
    for (uint32_t i = 0; i < ds->dir.n_layers; i++) {
        struct ds_layer *l = &out->layer[i];

        if (l->owner && !layers_give_numbered(l->owner, l, err))
            return false;
    }
    for (uint32_t i = 0; i < all->n; i++)
        if (!layers_find_shapes(&all->rank[i], out, err) ||
            !ds_model_index(ds, &all->rank[i].model, err) ||
            (!ds->dir.universal && !layers_check_names(&all->rank[i], out, err)))
            return false;
    return true;
}
