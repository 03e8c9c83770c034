/* SPDX-License-Identifier: Apache-2.0 */
/* Drafts the ranks' parts as tensors of the checkpoint. */
#include "steps.h"

#include <string.h>

#include <zf/assemble/names.h>

static bool draft_value(struct legacy_save *ls, const char *name, const struct legacy_value *v,
                        struct zf_err *err)
{
    const char *set = zf_path_encoded(ls->a, "optim", v->key, strlen(v->key), "", err);

    if (!set) {
        return false;
    }
    return v->number
               ? zf_build_scalar(ls->b, zf_spot_of(set, name), v->dtype, &v->bits, err)
               : zf_tensor_ref_draft(ls->b, zf_spot_of(set, name), &v->ref, NULL, err) != NULL;
}

/* ---- one rank ---- */

/* The name in the rank's own tree: "model1." stays in front of a numbered chunk's. */
static const char *draft_rank_name(struct legacy_save *ls, const struct legacy_rank *r,
                                   const struct legacy_part *p, struct zf_err *err)
{
    return r->numbered ? zf_arena_fmt(ls->a, err, "model%u.%s", p->chunk, p->name) : p->name;
}

static bool draft_rank_optim(struct legacy_save *ls, const struct legacy_tensor *t,
                             const char *name, struct zf_err *err)
{
    const struct legacy_value master = {.key = "param", .ref = t->master};

    if (t->trained && !draft_value(ls, name, &master, err)) {
        return false;
    }
    for (size_t i = 0; i < t->state.n; i++) {
        if (!draft_value(ls, name, &t->state.at[i], err)) {
            return false;
        }
    }
    return true;
}

static bool draft_rank(struct legacy_save *ls, const struct legacy_rank *r, bool optim,
                       struct zf_err *err)
{
    for (uint32_t i = r->first_part; i < r->first_part + r->n_parts; i++) {
        const char *name = draft_rank_name(ls, r, &ls->part.at[i], err);

        if (!name ||
            !zf_tensor_ref_draft(ls->b, zf_spot_of("", name), &ls->tensor.at[i].ref, r->file->path,
                                 err) ||
            (optim && !draft_rank_optim(ls, &ls->tensor.at[i], name, err))) {
            return false;
        }
    }
    if (r->n_flats > 0 && !zf_build_raw_only(ls->b, "bucket", err)) {
        return false;
    }
    for (uint32_t i = r->first_flat; i < r->first_flat + r->n_flats; i++) {
        const struct legacy_flat *f = &ls->flat.at[i];

        if (!zf_tensor_ref_draft(ls->b, zf_spot_of("bucket", f->name), &f->ref, r->file->distrib,
                                 err)) {
            return false;
        }
    }
    for (uint32_t i = r->first_stray; optim && i < r->first_stray + r->n_strays; i++) {
        const struct legacy_stray *s = &ls->stray.at[i];

        if (!draft_value(ls, s->name, &s->value, err)) {
            return false;
        }
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

/* Puts the boxes of a part, whose elements r has, into d. */
static bool draft_boxes(struct zf_draft *d, const struct legacy_whole *w, uint32_t slot,
                        const struct zf_tensor_ref *r, struct zf_err *err)
{
    struct legacy_box box;

    for (uint32_t k = 0; r->n > 0 && legacy_join_box(w, slot, r->shape, k, &box); k++) {
        uint64_t row = box.row * (r->ndim > 0 ? r->stride[0] : 0);
        struct zf_from from = {.src = r->src,
                               .off = r->off + row * zf_dtype_info(r->dtype)->bytes,
                               .stride = r->ndim > 0 ? r->stride : NULL};

        if (!zf_draft_box(d, box.start, box.size, from, err)) {
            return false;
        }
    }
    return true;
}

/* The drafted value of each part: its weight, its master, or a state. */
struct draft_what {
    const char *set;
    bool master;
    size_t state; /* + 1 */
};

static const struct zf_tensor_ref *draft_ref(const struct legacy_save *ls, uint32_t part,
                                             const struct draft_what *what, const char *key)
{
    const struct legacy_tensor *t = &ls->tensor.at[part];

    if (what->state == 0) {
        return what->master ? &t->master : &t->ref;
    }
    for (size_t i = 0; i < t->state.n; i++) {
        if (strcmp(t->state.at[i].key, key) == 0) {
            return &t->state.at[i].ref;
        }
    }
    return NULL;
}

static struct zf_draft *draft_whole(struct legacy_save *ls, const struct legacy_whole *w,
                                    const struct draft_what *what, const char *key,
                                    struct zf_err *err)
{
    const struct zf_tensor_ref *first = draft_ref(ls, w->slot[0] - 1, what, key);
    uint32_t file = ls->part.at[w->slot[0] - 1].file;
    struct zf_type type = {first->dtype, w->ndim, w->shape};
    struct zf_draft *d = zf_build_tensor(ls->b, zf_spot_of(what->set, w->name), type, err);

    if (!d || !zf_draft_where(d, ls->files.file[file].path, err)) {
        return NULL;
    }
    for (uint32_t k = 0; k < w->n_slots; k++) {
        const struct zf_tensor_ref *r = draft_ref(ls, w->slot[k] - 1, what, key);

        if (!draft_boxes(d, w, k, r, err)) {
            return NULL;
        }
    }
    return d;
}

/* The states of the first part, each of all parts. */
static bool draft_states(struct legacy_save *ls, const struct legacy_whole *w, struct zf_err *err)
{
    const struct legacy_tensor *t = &ls->tensor.at[w->slot[0] - 1];

    for (size_t i = 0; i < t->state.n; i++) {
        const struct legacy_value *v = &t->state.at[i];
        struct draft_what what = {
            .set = zf_path_encoded(ls->a, "optim", v->key, strlen(v->key), "", err),
            .state = i + 1};

        if (v->number || (v->ref.ndim == 0 && w->ndim > 0)) {
            if (!draft_value(ls, w->name, v, err)) {
                return false;
            }
            continue;
        }
        if (!what.set || !draft_whole(ls, w, &what, v->key, err)) {
            return false;
        }
    }
    return true;
}

static bool draft_model_tensor(struct legacy_save *ls, const struct legacy_whole *w, bool masters,
                               struct zf_err *err)
{
    bool known = masters && !w->partial;
    bool trained = known && ls->tensor.at[w->slot[0] - 1].trained;
    const struct draft_what weight = {.set = trained ? "stored" : ""};
    const struct draft_what master = {.set = "", .master = true};

    if (w->tied) {
        return true;
    }
    return draft_whole(ls, w, &weight, NULL, err) &&
           (!trained || draft_whole(ls, w, &master, NULL, err)) &&
           (!known || draft_states(ls, w, err));
}

/* A tied name is a second one of the embedding. */
static bool draft_tie(struct legacy_save *ls, const struct legacy_whole *w, const char *set,
                      struct zf_err *err)
{
    struct zf_draft *of = zf_build_find(ls->b, zf_spot_of(set, w->tied));

    return !of || zf_build_alias(ls->b, of, w->name, w->name_n, err);
}

bool legacy_draft_model(struct legacy_save *ls, const struct legacy_join *j, bool masters,
                        struct zf_err *err)
{
    for (size_t i = 0; i < j->whole.n; i++) {
        if (!draft_model_tensor(ls, &j->whole.at[i], masters, err)) {
            return false;
        }
    }
    for (size_t i = 0; i < j->whole.n; i++) {
        const struct legacy_whole *w = &j->whole.at[i];

        if (w->tied && (!draft_tie(ls, w, "", err) || !draft_tie(ls, w, "stored", err))) {
            return false;
        }
    }
    return true;
}
