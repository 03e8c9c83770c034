/* SPDX-License-Identifier: Apache-2.0 */
/* Copies that several ranks hold must be equal before one of them is served for all. */
#include "steps.h"

#include <string.h>

#include <zf/assemble/values.h>

struct same_check {
    struct legacy_save *ls;
    const struct legacy_join *j;
    struct zf_copy_check copies;
};

static const char *same_dir(const struct same_check *c, uint32_t part)
{
    return c->ls->files.file[c->ls->part.at[part].file].dir;
}

/* Parts a and b of the save: ra and rb of them, which `what` says. */
static bool same_refs(struct same_check *c, uint32_t a, uint32_t b, const char *what,
                      const struct zf_tensor_ref *ra, const struct zf_tensor_ref *rb,
                      struct zf_err *err)
{
    bool same;

    if (!zf_copy_check_equal(&c->copies, ra, rb, &same, err)) {
        return false;
    }
    return same ||
           zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "%s of \"%.100s\" in %s is not equal to its copy in %s", what,
                   c->j->whole.at[c->ls->part.at[a].whole].name, same_dir(c, a), same_dir(c, b));
}

/* ---- weights ---- */

/* Are all parts of two tensors that are cut alike equal? */
static bool same_wholes(struct same_check *c, const struct legacy_whole *a,
                        const struct legacy_whole *b, bool *same, struct zf_err *err)
{
    *same = a->dtype == b->dtype && a->cut == b->cut && a->n_slots == b->n_slots &&
            memcmp(a->shape, b->shape, sizeof a->shape) == 0;
    for (uint32_t k = 0; *same && k < a->n_slots; k++) {
        if (!zf_copy_check_equal(&c->copies, &c->ls->tensor.at[a->slot[k] - 1].ref,
                                 &c->ls->tensor.at[b->slot[k] - 1].ref, same, err)) {
            return false;
        }
    }
    return true;
}

static bool same_tie(struct same_check *c, struct legacy_whole *w, struct zf_err *err)
{
    enum megatron_flag untied = c->ls->settings.untie_embeddings_and_output_weights;
    const struct legacy_whole *of =
        w->tied && untied != MEGATRON_YES ? legacy_join_find(c->j, w->tied, strlen(w->tied)) : NULL;
    bool same;

    if (!of) {
        w->tied = NULL;
        return true;
    }
    if (!same_wholes(c, w, of, &same, err)) {
        return false;
    }
    if (!same && untied == MEGATRON_NO) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "args say that \"%s\" is tied to \"%s\", but their bytes differ", w->name,
                       w->tied);
    }
    w->tied = same ? w->tied : NULL;
    return true;
}

static bool same_check_weights(struct same_check *c, struct legacy_join *j, struct zf_err *err)
{
    const struct legacy_part *part = c->ls->part.at;

    for (uint32_t i = 0; i < j->n_parts; i++) {
        if (part[i].first != i &&
            !same_refs(c, i, part[i].first, "the weight", &c->ls->tensor.at[i].ref,
                       &c->ls->tensor.at[part[i].first].ref, err)) {
            return false;
        }
    }
    for (size_t i = 0; i < j->whole.n; i++) {
        if (!same_tie(c, &j->whole.at[i], err)) {
            return false;
        }
    }
    return zf_copy_check_note(&c->copies, c->ls->b, err);
}

bool legacy_same_weights(struct legacy_save *ls, struct legacy_join *j, struct zf_err *err)
{
    struct same_check c = {.ls = ls, .j = j};
    bool ok = same_check_weights(&c, j, err);

    zf_copy_check_fini(&c.copies);
    return ok;
}

/* ---- the optimizer ---- */

static const struct legacy_value *same_find(const struct legacy_tensor *t, const char *key)
{
    for (size_t i = 0; i < t->state.n; i++) {
        if (strcmp(t->state.at[i].key, key) == 0) {
            return &t->state.at[i];
        }
    }
    return NULL;
}

/* Value v of part i against that of part `of`: copies of one place, or what all places share. */
static bool same_value(struct same_check *c, uint32_t i, uint32_t of, const struct legacy_value *v,
                       struct zf_err *err)
{
    const struct legacy_value *w = same_find(&c->ls->tensor.at[of], v->key);
    bool copies = c->ls->part.at[i].first == of;

    if (!w || w->number != v->number ||
        (v->number ? w->dtype : w->ref.dtype) != (v->number ? v->dtype : v->ref.dtype) ||
        (!v->number && w->ref.ndim != v->ref.ndim)) {
        return zf_fail(
            err, ZF_E_FORMAT, ZF_OFF_NONE, "%s of \"%.100s\" in %s is of another kind than in %s",
            v->key, c->j->whole.at[c->ls->part.at[i].whole].name, same_dir(c, i), same_dir(c, of));
    }
    if (v->number) {
        return v->bits == w->bits ||
               zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "%s of \"%.100s\" in %s is not that in %s",
                       v->key, c->j->whole.at[c->ls->part.at[i].whole].name, same_dir(c, i),
                       same_dir(c, of));
    }
    return (!copies && v->ref.ndim > 0) || same_refs(c, i, of, v->key, &v->ref, &w->ref, err);
}

static bool same_part(struct same_check *c, uint32_t i, uint32_t of, struct zf_err *err)
{
    const struct legacy_tensor *a = &c->ls->tensor.at[i], *b = &c->ls->tensor.at[of];

    if (a->trained != b->trained || a->state.n != b->state.n ||
        (a->trained && a->master.dtype != b->master.dtype)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "\"%.100s\" has another master or other states in %s than in %s",
                       c->j->whole.at[c->ls->part.at[i].whole].name, same_dir(c, i),
                       same_dir(c, of));
    }
    if (a->trained && c->ls->part.at[i].first == of &&
        !same_refs(c, i, of, "the master", &a->master, &b->master, err)) {
        return false;
    }
    for (size_t k = 0; k < a->state.n; k++) {
        if (!same_value(c, i, of, &a->state.at[k], err)) {
            return false;
        }
    }
    return true;
}

/* Parameters that a buffer without a map may hold are not known to be in the optimizer. */
static void same_find_partial(struct same_check *c, struct legacy_join *j)
{
    for (uint32_t i = 0; i < j->n_parts; i++) {
        const struct legacy_part *p = &c->ls->part.at[i];

        if (c->ls->rank[p->file].unmapped && !c->ls->tensor.at[i].trained) {
            j->whole.at[p->whole].partial = true;
        }
    }
}

static bool same_check_optim(struct same_check *c, struct zf_err *err)
{
    for (uint32_t i = 0; i < c->j->n_parts; i++) {
        const struct legacy_part *p = &c->ls->part.at[i];
        const struct legacy_whole *w = &c->j->whole.at[p->whole];
        uint32_t first = w->slot[0] - 1;

        if (w->partial) {
            continue;
        }
        if ((p->first != i && !same_part(c, i, p->first, err)) ||
            (first != i && first != p->first && !same_part(c, i, first, err))) {
            return false;
        }
    }
    return zf_copy_check_note(&c->copies, c->ls->b, err);
}

bool legacy_same_optim(struct legacy_save *ls, struct legacy_join *j, struct zf_err *err)
{
    struct same_check c = {.ls = ls, .j = j};

    same_find_partial(&c, j);
    bool ok = same_check_optim(&c, err);

    zf_copy_check_fini(&c.copies);
    return ok;
}
