/* SPDX-License-Identifier: Apache-2.0 */
/* The weights of a group are views of one flat vector, in the order in which the masters are in theirs,
 * and torch.save keeps that: the names of one storage, by their offsets, are a group in its real order,
 * whatever param_shapes says. A frozen parameter has a storage of its own.  Which vector goes with which
 * storage is proved by the values. Source: deepspeed/runtime/zero/stage1.py, stage2.py
 * (fp16_groups_flat, _update_model_fp16_weights), 0.3.14 … 0.5.3, and a real save of 0.4.0. */
#include "merged.h"

#include <stdlib.h>
#include <string.h>

#include <zf/assemble/assign.h>

#include "groups.h"
#include "order.h"

/* Questions, and those of them for which values are compared. */
#define STORAGE_ASKED (1ull << 20)
#define STORAGE_COMPARED 4096u

/* A parameter and its weight. */
struct storage_weight {
    uint32_t param;
    const struct zf_tensor_ref *view;
};
/* Weights that follow each other in one storage. */
struct storage_run {
    uint32_t first, n; /* of the sorted weights */
    uint64_t elements;
};

struct storage_search {
    struct ds_rank *mp;
    struct storage_weight *w; /* by storage and place */
    uint32_t n_w;
    struct storage_run *run;
    uint32_t n_runs;
    uint32_t compared;
};

static void zf_auto_storage(struct storage_search *s)
{
    free(s->w);
    free(s->run);
}

static int storage_by_place(const void *pa, const void *pb)
{
    const struct zf_tensor_ref *a = ((const struct storage_weight *)pa)->view;
    const struct zf_tensor_ref *b = ((const struct storage_weight *)pb)->view;
    int c = strcmp(a->key, b->key);

    return c ? c : (a->off > b->off) - (a->off < b->off);
}

static bool storage_sort(struct storage_search *s, struct zf_err *err)
{
    const struct ds_shapes *all = s->mp->merged;
    uint64_t end = 0;

    s->w = calloc(all->n + (size_t)1, sizeof *s->w);
    s->run = calloc(all->n + (size_t)1, sizeof *s->run);
    if (!s->w || !s->run) {
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    }
    for (uint32_t i = 0; i < all->n; i++) {
        const struct ds_entry *e = ds_model_find(&s->mp->model, all->param[i].name);

        if (ds_merged_is_weight(e, &all->param[i])) {
            s->w[s->n_w++] = (struct storage_weight){i, &e->view};
        }
    }
    qsort(s->w, s->n_w, sizeof *s->w, storage_by_place);
    for (uint32_t i = 0; i < s->n_w; i++) {
        const struct zf_tensor_ref *v = s->w[i].view;
        struct storage_run *run = s->n_runs > 0 ? &s->run[s->n_runs - 1] : NULL;

        if (!run || strcmp(v->key, s->w[i - 1].view->key) != 0 || v->off != end) {
            run = &s->run[s->n_runs++];
            *run = (struct storage_run){.first = i};
        }
        run->n++;
        run->elements += v->n;
        end = v->off + v->n * zf_dtype_info(v->dtype)->bytes;
    }
    return true;
}

/* The group with the parameters of the run, in the order of the storage. */
static bool storage_group(struct storage_search *s, uint32_t g, uint32_t run, struct ds_group *out,
                          struct zf_err *err)
{
    uint32_t n = s->run[run].n;
    zf_auto(mem) uint32_t *which = calloc(n + (size_t)1, sizeof *which);

    for (uint32_t i = 0; which && i < n; i++) {
        which[i] = s->w[s->run[run].first + i].param;
    }
    return which ? ds_groups_pick(s->mp, &s->mp->group[g], which, n, out, err)
                 : zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
}

static bool storage_fit(void *ctx, uint32_t g, uint32_t item, uint32_t run, bool *yes,
                        struct zf_err *err)
{
    struct storage_search *s = ctx;
    const struct ds_group *like = &s->mp->group[g];
    uint64_t have;
    struct ds_group group;

    (void)item;
    *yes = false;
    if (!ds_groups_count(s->mp, like->index, &have, err)) {
        return false;
    }
    /* more than there are: some are lost, or this is another group */
    if (s->run[run].elements > have || have - s->run[run].elements >= 2ull * like->n_ranks) {
        return true;
    }
    if (s->compared++ == STORAGE_COMPARED) {
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "too many groups of one length");
    }
    return storage_group(s, g, run, &group, err) && ds_order_fits(s->mp, &group, yes, err);
}

bool ds_merged_by_storage(struct ds_rank *mp, struct ds_group **out, struct zf_err *err)
{
    zf_auto(storage) struct storage_search s = {.mp = mp};
    struct zf_assign a = {.fit = storage_fit, .ctx = &s, .most = STORAGE_ASKED};
    struct ds_group *found = zf_arena_get(mp->save->a, mp->n_groups, sizeof *found, err);
    bool proven, shared = false;

    *out = NULL;
    if (!found || !storage_sort(&s, err)) {
        return false;
    }
    for (uint32_t i = 0; i < s.n_runs; i++) {
        shared = shared || s.run[i].n > 1;
    }
    zf_auto(mem) uint32_t *to = calloc(mp->n_groups + (size_t)1, sizeof *to);
    zf_auto(mem) bool *used = calloc(s.n_runs + (size_t)1, sizeof *used);
    zf_auto(mem) struct zf_assign_group *group = calloc(mp->n_groups + (size_t)1, sizeof *group);
    if (!to || !used || !group) {
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    }
    for (uint32_t g = 0; g < mp->n_groups; g++) {
        group[g] = (struct zf_assign_group){.n = 1, .to = &to[g]};
    }
    a.n_candidates = s.n_runs;
    a.used = used;
    a.group = group;
    a.n_groups = mp->n_groups;
    if (!shared || !zf_assign_settle(&a, &proven, err)) {
        bool open = !shared || err->code == ZF_E_LIMIT;

        if (open) {
            zf_err_clear(err);
        }
        return open;
    }
    for (uint32_t g = 0; proven && g < mp->n_groups; g++) {
        if (!storage_group(&s, g, to[g], &found[g], err)) {
            return false;
        }
    }
    *out = proven ? found : NULL;
    return true;
}
