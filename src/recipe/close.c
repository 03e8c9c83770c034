/* SPDX-License-Identifier: Apache-2.0 */
/* Proves a plan, after all of its lines were evaluated. */
#include "plan.h"

#include <stdlib.h>
#include <string.h>

#include <zf/base/num.h>

static int close_cmp_use(const void *a, const void *b)
{
    const struct use *x = a, *y = b;

    return x->tensor != y->tensor ? (x->tensor > y->tensor) - (x->tensor < y->tensor)
                                  : (x->line > y->line) - (x->line < y->line);
}

static int close_cmp_target(const void *a, const void *b)
{
    const struct target *const *x = a, *const *y = b;

    return strcmp((*x)->name, (*y)->name);
}

static bool close_targets(struct plan *p, struct zf_err *err)
{
    const size_t n = p->target.n;
    zf_auto(mem) const struct target **at = calloc(n ? n : 1, sizeof(*at));

    if (!at)
        return zf_fail_sys(err, "prove a recipe");
    for (size_t i = 0; i < n; i++)
        at[i] = &p->target.at[i];
    qsort(at, n, sizeof(*at), close_cmp_target);
    for (size_t i = 1; i < n; i++) {
        p->line = &p->r->line[at[i]->line];
        if (strcmp(at[i - 1]->name, at[i]->name) == 0 &&
            !plan_problem(p, p->line->at, err, "two rules make %.150s", at[i]->name))
            return false;
    }
    return n > 0 || plan_problem(p, 0, err, "there is no rule that makes a tensor");
}

/* Checks uses [lo, hi), which are those of one tensor. */
static bool close_tensor(struct plan *p, size_t lo, size_t hi, struct zf_err *err)
{
    const struct zf_tensor *t = &p->src.set->tensor[p->use.at[lo].tensor];
    struct zf_err why = {.code = ZF_OK};
    uint32_t twice;
    uint64_t all;

    if (!zf_elems(t->ndim, t->shape, &all))
        return true; /* cannot happen: the sizes of sealed tensors do not overflow */
    if (prove_once(&p->use.at[lo], (uint32_t)(hi - lo), all, p->lim->recipe_parts, &twice, &why))
        return true;
    if (why.code != ZF_E_FORMAT) {
        *err = why;
        return false;
    }
    p->line = &p->r->line[p->use.at[lo + twice].line];
    return plan_problem(p, p->line->at, err, "%.150s: %s", t->name, why.msg);
}

bool close_plan(struct plan *p, struct zf_err *err)
{
    const size_t n = p->use.n;
    size_t at = 0;
    bool ok = close_targets(p, err);

    if (n)
        qsort(p->use.at, n, sizeof *p->use.at, close_cmp_use);
    for (uint32_t i = 0; ok && p->src.set && i < p->src.set->n; i++) {
        size_t end = at;

        while (end < n && p->use.at[end].tensor == i)
            end++;
        if (end > at) {
            ok = close_tensor(p, at, end, err);
        } else if (!p->src.set->tensor[i].apart) { /* not a piece of another tensor */
            ok = plan_problem(p, SIZE_MAX, err,
                              "%.40s: %.150s is neither used by a rule nor left out by a line",
                              p->r->name, p->src.set->tensor[i].name);
        }
        at = end;
    }
    return ok;
}
