/* SPDX-License-Identifier: Apache-2.0 */
/* Adds the ranks' parts to the checkpoint as tensors. */
#include "save.h"

#include <string.h>

#include <zf/assemble/names.h>

static bool draft_is_weight(const struct legacy_value *v)
{
    return strcmp(v->key, LEGACY_WEIGHT) == 0;
}

static const char *draft_optim(struct legacy_save *ls, const char *key, struct zf_err *err)
{
    return zf_path_encoded(ls->a, "optim", key, strlen(key), "", err);
}

/* where: for messages, or NULL. */
static bool draft_value(struct legacy_save *ls, const char *set, const char *name,
                        const struct legacy_value *v, const char *where, struct zf_err *err)
{
    struct zf_spot spot = zf_spot_of(set, name);

    return v->number ? zf_build_scalar(ls->b, spot, v->dtype, &v->bits, err)
                     : zf_tensor_ref_draft(ls->b, spot, &v->ref, where, err) != NULL;
}

/* ---- one rank ---- */

/* The name in the rank's own tree: in a numbered chunk it keeps its prefix "model1.". */
static const char *draft_rank_name(struct legacy_save *ls, const struct legacy_rank *r,
                                   const struct legacy_part *p, struct zf_err *err)
{
    return r->numbered ? zf_arena_fmt(ls->a, err, "model%u.%s", p->chunk, p->name) : p->name;
}

static bool draft_part(struct legacy_save *ls, const struct legacy_rank *r,
                       const struct legacy_part *p, bool optim, struct zf_err *err)
{
    const char *name = draft_rank_name(ls, r, p, err);

    for (const struct legacy_value *v = name ? &p->weight : NULL; v; v = optim ? v->next : NULL) {
        bool weight = draft_is_weight(v);
        const char *set = weight ? "" : draft_optim(ls, v->key, err);

        if (!set || !draft_value(ls, set, name, v, weight ? r->file->path : NULL, err))
            return false;
    }
    return name != NULL;
}

static bool draft_rank(struct legacy_save *ls, const struct legacy_rank *r, bool optim,
                       struct zf_err *err)
{
    for (uint32_t i = r->first_part; i < r->first_part + r->n_parts; i++)
        if (!draft_part(ls, r, &ls->part.at[i], optim, err))
            return false;
    if (r->n_flats > 0 && !zf_build_raw_only(ls->b, "bucket", err))
        return false;
    for (uint32_t i = r->first_flat; i < r->first_flat + r->n_flats; i++) {
        const struct legacy_unowned *f = &ls->flat.at[i];

        if (!draft_value(ls, "bucket", f->name, &f->value, r->file->distrib, err))
            return false;
    }
    for (uint32_t i = r->first_unowned; optim && i < r->first_unowned + r->n_unowned; i++) {
        const struct legacy_unowned *u = &ls->unowned.at[i];
        const char *set = draft_optim(ls, u->value.key, err);

        if (!set || !draft_value(ls, set, u->name, &u->value, NULL, err))
            return false;
    }
    return true;
}

bool legacy_draft_ranks(struct legacy_save *ls, bool optim, bool joined, struct zf_err *err)
{
    bool ok = true;

    for (uint32_t i = 0; ok && i < ls->files.n; i++) {
        ok = ls->rank[i].lost || (zf_build_prefix(ls->b, ls->rank[i].file->dir, err) &&
                                  (!joined || zf_build_raw_only(ls->b, "", err)) &&
                                  draft_rank(ls, &ls->rank[i], optim, err));
    }
    return zf_build_prefix(ls->b, "", err) && ok;
}

/* ---- the model ---- */

/* Adds the boxes of a part to d; r refers to its elements. */
static bool draft_boxes(struct zf_draft *d, const struct legacy_whole *w, uint32_t slot,
                        const struct zf_tensor_ref *r, struct zf_err *err)
{
    struct legacy_box box;

    for (uint32_t k = 0; r->n > 0 && legacy_join_box(w, slot, r->shape, k, &box); k++) {
        uint64_t row = box.row * (r->ndim > 0 ? r->stride[0] : 0);
        struct zf_from from = {.src = r->src,
                               .off = r->off + row * zf_dtype_info(r->dtype)->bytes,
                               .stride = r->ndim > 0 ? r->stride : NULL};

        if (!zf_draft_box(d, box.start, box.size, from, err))
            return false;
    }
    return true;
}

/* Adds value v (the first part's) for all parts: one number that all share, or one tensor. */
static bool draft_whole(struct legacy_save *ls, const struct legacy_whole *w, const char *set,
                        const struct legacy_value *v, struct zf_err *err)
{
    const struct legacy_part *part = ls->part.at;

    if (v->number || (v->ref.ndim == 0 && w->ndim > 0))
        return draft_value(ls, set, w->name, v, NULL, err);
    struct zf_type type = {v->ref.dtype, w->ndim, w->shape};
    struct zf_draft *d = zf_build_tensor(ls->b, zf_spot_of(set, w->name), type, err);
    if (!d || !zf_draft_where(d, ls->files.file[part[w->slot[0] - 1].file].path, err))
        return false;
    for (uint32_t k = 0; k < w->n_slots; k++)
        if (!draft_boxes(d, w, k, &legacy_find(&part[w->slot[k] - 1], v->key)->ref, err))
            return false;
    return true;
}

static bool draft_model_tensor(struct legacy_save *ls, const struct legacy_whole *w, bool masters,
                               struct zf_err *err)
{
    const struct legacy_part *p = &ls->part.at[w->slot[0] - 1];
    bool known = masters && !w->partial, trained = known && legacy_find(p, LEGACY_MASTER);

    if (w->tied)
        return true;
    for (const struct legacy_value *v = &p->weight; v; v = known ? v->next : NULL) {
        const char *set = draft_is_weight(v)                   ? (trained ? "stored" : "")
                          : strcmp(v->key, LEGACY_MASTER) == 0 ? ""
                                                               : draft_optim(ls, v->key, err);

        if (!set || !draft_whole(ls, w, set, v, err))
            return false;
    }
    return true;
}

/* Adds a tied name as a second name of the embedding. */
static bool draft_tie(struct legacy_save *ls, const struct legacy_whole *w, const char *set,
                      struct zf_err *err)
{
    struct zf_draft *of = zf_build_find(ls->b, zf_spot_of(set, w->tied));

    return !of || zf_build_alias(ls->b, of, w->name, w->name_n, err);
}

bool legacy_draft_model(struct legacy_save *ls, const struct legacy_join *j, bool masters,
                        struct zf_err *err)
{
    for (size_t i = 0; i < j->whole.n; i++)
        if (!draft_model_tensor(ls, &j->whole.at[i], masters, err))
            return false;
    for (size_t i = 0; i < j->whole.n; i++) {
        const struct legacy_whole *w = &j->whole.at[i];

        if (w->tied && (!draft_tie(ls, w, "", err) || !draft_tie(ls, w, "stored", err)))
            return false;
    }
    return true;
}
