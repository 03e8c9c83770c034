/* SPDX-License-Identifier: Apache-2.0 */
/* Weights that share a storage form a group, in the order of its vector (zf/assemble/prove.h). */
#include "prove.h"

#include <stdlib.h>
#include <string.h>

#include <zf/assemble/assign.h>

#define STORAGE_ASKED (1u << 20) /* pairs of a vector and a storage */

/* Consecutive weights in one storage. */
struct prove_run {
    uint32_t first, n; /* range of `order` */
    uint64_t elements;
};

struct prove_storages {
    struct zf_prove *p;
    uint32_t *order; /* weights by storage and place */
    uint32_t n_order;
    struct prove_run *run;
    uint32_t n_runs;
    bool shared; /* some run has several weights */
};

static void zf_auto_storages(struct prove_storages *s)
{
    free(s->order);
    free(s->run);
}

/* ---- groups of weights ---- */

static int storage_by_place(const void *pa, const void *pb, void *ctx)
{
    const struct zf_prove *p = ctx;
    const struct zf_tensor_ref *a = p->weight[*(const uint32_t *)pa].view;
    const struct zf_tensor_ref *b = p->weight[*(const uint32_t *)pb].view;
    int c = strcmp(a->src->name, b->src->name);

    c = c ? c : strcmp(a->key, b->key);
    return c ? c : (a->off > b->off) - (a->off < b->off);
}

static bool storage_goes_on(const struct zf_tensor_ref *a, const struct zf_tensor_ref *b)
{
    return a->src == b->src && strcmp(a->key, b->key) == 0 && a->dtype == b->dtype &&
           b->off == a->off + a->n * zf_dtype_info(a->dtype)->bytes;
}

static bool storage_runs(struct prove_storages *s, struct zf_err *err)
{
    struct zf_prove *p = s->p;

    s->order = malloc((p->n_weights + (size_t)1) * sizeof *s->order);
    s->run = malloc((p->n_weights + (size_t)1) * sizeof *s->run);
    if (!s->order || !s->run)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    for (uint32_t i = 0; i < p->n_weights; i++)
        if (p->weight[i].view && !p->weight[i].taken)
            s->order[s->n_order++] = i;
    qsort_r(s->order, s->n_order, sizeof *s->order, storage_by_place, p);
    for (uint32_t k = 0; k < s->n_order; k++) {
        const struct zf_tensor_ref *v = p->weight[s->order[k]].view;

        if (k == 0 || !storage_goes_on(p->weight[s->order[k - 1]].view, v))
            s->run[s->n_runs++] = (struct prove_run){.first = k};
        struct prove_run *run = &s->run[s->n_runs - 1];
        run->n++;
        run->elements += v->n;
        s->shared = s->shared || run->n > 1;
    }
    return true;
}

/* ---- the vector of each group ---- */

static bool storage_fit(void *ctx, uint32_t vector, uint32_t item, uint32_t candidate, bool *yes,
                        struct zf_err *err)
{
    struct prove_storages *s = ctx;
    const struct zf_prove_vector *v = &s->p->vector[vector];
    const struct prove_run *run = &s->run[candidate];
    uint64_t end = prove_end(v), at = 0;
    struct zf_mismatch miss;

    (void)item;
    *yes = run->elements == end || (run->elements < end && end - run->elements < v->pad);
    for (uint32_t k = 0; *yes && k < run->n; k++) {
        uint32_t i = s->order[run->first + k];

        if (!prove_compare(s->p, v, at, i, &miss, yes, err)) {
            if (!s->p->skip_lost || err->code != ZF_E_IO)
                return false;
            zf_err_clear(err);
        }
        if (!*yes && miss.found && run->n > s->p->n_stored) {
            s->p->n_stored = run->n;
            s->p->stored = (struct zf_prove_near){i, miss};
        }
        at += s->p->weight[i].view->n;
    }
    return true;
}

/* Makes the weights of the run the pieces of the vector. */
static bool storage_take(struct prove_storages *s, struct zf_prove_vector *v,
                         const struct prove_run *run, struct zf_err *err)
{
    struct zf_prove *p = s->p;
    uint64_t at = 0;

    v->first = (uint32_t)p->piece.n;
    v->n = run ? run->n : 0;
    if (!zf_vec_room(&p->piece, v->n, err))
        return false;
    for (uint32_t k = 0; k < v->n; k++) {
        uint32_t i = s->order[run->first + k];

        p->piece.at[p->piece.n++] = (struct zf_prove_piece){at, i, i};
        p->weight[i].taken = true;
        at += p->weight[i].view->n;
    }
    return true;
}

static bool storage_assign(struct prove_storages *s, uint32_t *to, bool *proven, struct zf_err *err)
{
    const struct zf_prove *p = s->p;
    zf_auto(mem) bool *used = calloc(s->n_runs + (size_t)1, sizeof *used);
    zf_auto(mem) struct zf_assign_group *group = calloc(p->n_vectors + (size_t)1, sizeof *group);
    struct zf_assign a = {.n_candidates = s->n_runs,
                          .used = used,
                          .group = group,
                          .n_groups = p->n_vectors,
                          .fit = storage_fit,
                          .ctx = s,
                          .most = STORAGE_ASKED};

    if (!used || !group)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    for (uint32_t g = 0; g < p->n_vectors; g++)
        group[g] = (struct zf_assign_group){.n = prove_end(&p->vector[g]) > 0, .to = &to[g]};
    return zf_assign_prove(&a, proven, err);
}

bool zf_prove_by_storage(struct zf_prove *p, bool *proven, struct zf_err *err)
{
    zf_auto(storages) struct prove_storages s = {.p = p};
    zf_auto(mem) uint32_t *to = calloc(p->n_vectors + (size_t)1, sizeof *to);

    *proven = false;
    if (!to)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    if (!storage_runs(&s, err))
        return false;
    for (uint32_t g = 0; g < p->n_vectors; g++)
        s.shared = s.shared && !p->vector[g].own;
    if (!s.shared)
        return true;
    bool ok = storage_assign(&s, to, proven, err);
    bool much = !ok && (p->work > ZF_PROVE_WORK || err->code == ZF_E_LIMIT);
    p->work = 0;
    if (!ok) {
        *proven = false;
        if (much)
            zf_err_clear(err); /* values may decide */
        return much;
    }
    for (uint32_t g = 0; *proven && g < p->n_vectors; g++) {
        const struct prove_run *run = prove_end(&p->vector[g]) > 0 ? &s.run[to[g]] : NULL;

        if (!storage_take(&s, &p->vector[g], run, err))
            return false;
    }
    return true;
}
