/* SPDX-License-Identifier: Apache-2.0 */
/* Which names of `module` are one tensor: they look at the same elements of the same storage. */
#include <stdlib.h>
#include <string.h>

#include "ds.h"

/* Entries of `module` ordered so that those of one storage, place and shape are neighbours. */
struct same {
    const struct zf_ds_entry *e;
    uint32_t i;
};

static int compare_u64(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int compare_views(const struct zf_ds_view *a, const struct zf_ds_view *b)
{
    int c = compare_u64((uintptr_t)a->src, (uintptr_t)b->src);

    c = c ? c : strcmp(a->key, b->key);
    c = c ? c : compare_u64(a->off, b->off);
    c = c ? c : compare_u64(a->dtype, b->dtype);
    c = c ? c : compare_u64(a->ndim, b->ndim);
    for (uint32_t d = 0; c == 0 && d < a->ndim; d++) {
        c = compare_u64(a->shape[d], b->shape[d]);
        c = c ? c : compare_u64(a->stride[d], b->stride[d]);
    }
    return c;
}

static int by_view(const void *pa, const void *pb)
{
    const struct same *a = pa, *b = pb;
    int c = compare_u64(a->e->tensor, b->e->tensor);

    c = c || !a->e->tensor ? c : compare_views(&a->e->view, &b->e->view);
    return c ? c : compare_u64(a->i, b->i);
}

static bool is_drafted(struct zf_ds *ds, const struct zf_ds_entry *e)
{
    return zf_build_find(ds->b, "", e->name.p, e->name.n) != NULL;
}

bool zf_ds_ties_listed(const struct zf_ds_model *m, struct zf_ds_name name)
{
    return zf_ds_name_listed(m->second, m->n_aliases, name);
}

/* Chooses the entry that the run [from, to) of equal views is served under: a trained one where
 * there is one.  Empty storages prove nothing when several trained parameters share them. */
static uint32_t choose(struct zf_ds *ds, const struct same *s, uint32_t from, uint32_t to,
                       bool *proof)
{
    uint32_t trained = 0, best = s[from].i;
    bool own = false;

    for (uint32_t k = from; k < to; k++) {
        if (is_drafted(ds, s[k].e)) {
            best = trained++ ? best : s[k].i;
        } else if (trained == 0 && !own && !zf_ds_ties_listed(&ds->model, s[k].e->name)) {
            best = s[k].i;
            own = true;
        }
    }
    *proof = s[from].e->view.n > 0 || trained == 1;
    return best;
}

const uint32_t *zf_ds_ties_find(struct zf_ds *ds, const struct zf_ds_entry *entry, uint32_t n,
                                struct zf_err *err)
{
    zf_auto(mem) struct same *s = malloc((n + (size_t)1) * sizeof *s);
    uint32_t *tie = zf_arena_get(ds->a, n, sizeof *tie, err);

    if (!s || !tie) {
        return s ? NULL : (zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory"), NULL);
    }
    for (uint32_t i = 0; i < n; i++) {
        s[i] = (struct same){&entry[i], i};
        tie[i] = i;
    }
    qsort(s, n, sizeof *s, by_view);
    for (uint32_t from = 0, to; from < n; from = to) {
        bool proof;

        for (to = from + 1;
             to < n && s[from].e->tensor && compare_views(&s[from].e->view, &s[to].e->view) == 0;
             to++) {
        }
        uint32_t best = choose(ds, s, from, to, &proof);
        for (uint32_t k = from; proof && s[from].e->tensor && k < to; k++) {
            tie[s[k].i] = best;
        }
    }
    return tie;
}
