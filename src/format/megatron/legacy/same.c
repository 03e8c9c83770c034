/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the copies that several ranks hold: they must be equal, since one of them is shown for all. */
#include "save.h"

#include <string.h>

#include <zf/assemble/values.h>

struct same_check {
    struct legacy_save *ls;
    const struct legacy_join *j;
    struct zf_copy_check copies;
};

/* Reports why value `key` of part i does not agree with that of part `of`. */
static bool same_fail(const struct same_check *c, uint32_t i, uint32_t of, const char *key,
                      const char *why, struct zf_err *err)
{
    const struct legacy_part *p = c->ls->part.at;

    return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "%s of \"%.100s\" in %s %s in %s",
                   strcmp(key, LEGACY_WEIGHT) == 0   ? "the weight"
                   : strcmp(key, LEGACY_MASTER) == 0 ? "the master"
                                                     : key,
                   c->j->whole.at[p[i].whole].name, c->ls->files.file[p[i].file].dir, why,
                   c->ls->files.file[p[of].file].dir);
}

/* Compares value v of part i with that of part `of`.  If the parts are different shards of a tensor and not copies, only
 * types and numbers must agree. */
static bool same_value(struct same_check *c, uint32_t i, uint32_t of, const struct legacy_value *v,
                       struct zf_err *err)
{
    const struct legacy_value *w = legacy_find(&c->ls->part.at[of], v->key);
    bool copies = c->ls->part.at[i].first == of, same = true;

    if (w->number != v->number ||
        (v->number ? w->dtype != v->dtype
                   : w->ref.dtype != v->ref.dtype || w->ref.ndim != v->ref.ndim))
        return same_fail(c, i, of, v->key, "differs in dtype or dimensions from the one", err);
    if (v->number)
        return v->bits == w->bits || same_fail(c, i, of, v->key, "differs from the one", err);
    return ((!copies && v->ref.ndim > 0) ||
            zf_copy_check_equal(&c->copies, &v->ref, &w->ref, &same, err)) &&
           (same || same_fail(c, i, of, v->key, "differs from its copy", err));
}

/* ---- weights ---- */

/* Are all parts of two tensors with the same sharding equal? */
static bool same_wholes(struct same_check *c, const struct legacy_whole *a,
                        const struct legacy_whole *b, bool *same, struct zf_err *err)
{
    const struct legacy_part *p = c->ls->part.at;

    *same = a->dtype == b->dtype && a->cut == b->cut && a->n_slots == b->n_slots &&
            memcmp(a->shape, b->shape, sizeof a->shape) == 0;
    for (uint32_t k = 0; *same && k < a->n_slots; k++)
        if (!zf_copy_check_equal(&c->copies, &p[a->slot[k] - 1].weight.ref,
                                 &p[b->slot[k] - 1].weight.ref, same, err))
            return false;
    return true;
}

static bool same_tie(struct same_check *c, struct legacy_whole *w, struct zf_err *err)
{
    const uint64_t untied = c->ls->settings.untie_embeddings_and_output_weights;
    const struct legacy_whole *of =
        w->tied && untied != MEGATRON_YES ? legacy_join_find(c->j, w->tied, strlen(w->tied)) : NULL;
    bool same;

    if (!of) {
        w->tied = NULL;
        return true;
    }
    if (!same_wholes(c, w, of, &same, err))
        return false;
    if (!same && untied == MEGATRON_NO) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "by args \"%s\" is tied to \"%s\", but their bytes differ", w->name,
                       w->tied);
    }
    w->tied = same ? w->tied : NULL;
    return true;
}

static bool same_check_weights(struct same_check *c, struct legacy_join *j, struct zf_err *err)
{
    const struct legacy_part *part = c->ls->part.at;

    for (uint32_t i = 0; i < j->n_parts; i++)
        if (part[i].first != i && !same_value(c, i, part[i].first, &part[i].weight, err))
            return false;
    for (size_t i = 0; i < j->whole.n; i++)
        if (!same_tie(c, &j->whole.at[i], err))
            return false;
    return zf_copy_check_note(&c->copies, c->ls->b, err);
}

bool legacy_same_weights(struct legacy_save *ls, struct legacy_join *j, struct zf_err *err)
{
    struct same_check c = {.ls = ls, .j = j, .copies = {.all = zf_build_records_copies(ls->b)}};
    bool ok = same_check_weights(&c, j, err);

    zf_copy_check_fini(&c.copies);
    return ok;
}

/* ---- the optimizer ---- */

/* Has b every value that a has? */
static bool same_keys(const struct legacy_part *a, const struct legacy_part *b)
{
    const struct legacy_value *v = a->weight.next;

    while (v && legacy_find(b, v->key))
        v = v->next;
    return !v;
}

static bool same_part(struct same_check *c, uint32_t i, uint32_t of, struct zf_err *err)
{
    const struct legacy_part *a = &c->ls->part.at[i], *b = &c->ls->part.at[of];

    if (!same_keys(a, b) || !same_keys(b, a)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "\"%.100s\" has a different master or different states in %s and in %s",
                       c->j->whole.at[a->whole].name, c->ls->files.file[a->file].dir,
                       c->ls->files.file[b->file].dir);
    }
    for (const struct legacy_value *v = a->weight.next; v; v = v->next)
        if (!same_value(c, i, of, v, err))
            return false;
    return true;
}

/* Marks parameters as partial that may be in a buffer without a map: their optimizer states are unknown. */
static void same_find_partial(struct same_check *c, struct legacy_join *j)
{
    for (uint32_t i = 0; i < j->n_parts; i++) {
        const struct legacy_part *p = &c->ls->part.at[i];

        if (c->ls->rank[p->file].unmapped && !legacy_find(p, LEGACY_MASTER))
            j->whole.at[p->whole].partial = true;
    }
}

static bool same_check_optim(struct same_check *c, struct zf_err *err)
{
    for (uint32_t i = 0; i < c->j->n_parts; i++) {
        const struct legacy_part *p = &c->ls->part.at[i];
        const struct legacy_whole *w = &c->j->whole.at[p->whole];
        uint32_t first = w->slot[0] - 1;

        if (w->partial)
            continue;
        if ((p->first != i && !same_part(c, i, p->first, err)) ||
            (first != i && first != p->first && !same_part(c, i, first, err)))
            return false;
    }
    return zf_copy_check_note(&c->copies, c->ls->b, err);
}

bool legacy_same_optim(struct legacy_save *ls, struct legacy_join *j, struct zf_err *err)
{
    struct same_check c = {.ls = ls, .j = j, .copies = {.all = zf_build_records_copies(ls->b)}};

    same_find_partial(&c, j);
    bool ok = same_check_optim(&c, err);

    zf_copy_check_fini(&c.copies);
    return ok;
}
