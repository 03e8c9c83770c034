/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the tied names in `module`: views of the same elements of the same storage. */
#include <stdlib.h>

#include "steps.h"

/* An entry of `module`; sorted, so that those of one storage, offset and shape are adjacent. */
struct same {
    const struct ds_entry *e;
    uint32_t i;
};

static int ties_by_view(const void *pa, const void *pb)
{
    const struct same *a = pa, *b = pb;
    int c = (int)a->e->tensor - (int)b->e->tensor;

    c = c || !a->e->tensor ? c : zf_tensor_ref_cmp(&a->e->view, &b->e->view);
    return c ? c : (a->i > b->i) - (a->i < b->i);
}

static bool ties_is_drafted(struct ds_rank *mp, const struct ds_entry *e)
{
    return rank_find(mp, e->name) != NULL;
}

bool ds_ties_listed(const struct ds_model *m, struct ds_name name)
{
    return ds_name_listed(m->second, m->n_aliases, name);
}

/* Chooses the name under which the equal views [from, to) are served: a trained one, if any.  *proof:
 * they are tied; tensors without elements in a safetensors file have equal offsets, but are not. */
static uint32_t ties_choose(struct ds_rank *mp, const struct same *s, uint32_t from, uint32_t to,
                            bool *proof)
{
    uint32_t trained = 0, best = s[from].i;
    bool own = false;

    for (uint32_t k = from; k < to; k++) {
        if (ties_is_drafted(mp, s[k].e)) {
            best = trained++ ? best : s[k].i;
        } else if (trained == 0 && !own && !ds_ties_listed(&mp->model, s[k].e->name)) {
            best = s[k].i;
            own = true;
        }
    }
    /* torch.save writes a shared storage once; under stage 3 it is that of a placeholder */
    const struct zf_tensor_ref *view = &s[from].e->view;
    bool stored = trained == 0 && s[from].e->tensor && *view->key && !mp->save->dir.by_rank;
    *proof = view->n > 0 || trained == 1 || stored;
    return best;
}

bool ds_ties_mark(struct ds_rank *mp, struct ds_model *m, struct zf_err *err)
{
    const uint32_t n = m->n_entries;
    zf_auto(mem) struct same *s = malloc((n + (size_t)1) * sizeof *s);

    if (!s)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    for (uint32_t i = 0; i < n; i++) {
        s[i] = (struct same){&m->entry[i], i};
        m->entry[i].same = i;
    }
    qsort(s, n, sizeof *s, ties_by_view);
    for (uint32_t from = 0, to; from < n; from = to) {
        bool proof;

        for (to = from + 1; to < n && s[from].e->tensor &&
                            zf_tensor_ref_cmp(&s[from].e->view, &s[to].e->view) == 0;
             to++) {
        }
        uint32_t best = ties_choose(mp, s, from, to, &proof);
        for (uint32_t k = from; proof && s[from].e->tensor && k < to; k++)
            m->entry[s[k].i].same = best;
    }
    return true;
}
