/* SPDX-License-Identifier: Apache-2.0 */
/* hf/ of the root, made at the first access. */
#include "tree.h"

#include <stdlib.h>

struct later {
    struct zf_view_opts o;
    struct zf_limits lim;
    pthread_mutex_t lock;
    _Atomic(struct tree *) tree; /* NULL = not accessed yet; set once, under the lock */
};

struct later *later_new(const struct zf_view_opts *o, struct zf_err *err)
{
    struct later *l = calloc(1, sizeof *l);

    if (!l) {
        o->later.free(o->later.ctx);
        (void)zf_fail_sys(err, "make a tree");
        return NULL;
    }
    l->o = *o;
    l->lim = *o->lim;
    l->o.lim = &l->lim;
    (void)pthread_mutex_init(&l->lock, NULL);
    atomic_init(&l->tree, NULL);
    return l;
}

void later_free(struct later *l)
{
    if (!l)
        return;
    struct tree *t = atomic_load(&l->tree);

    zf_tree_free(t ? &t->base : NULL);
    l->o.later.free(l->o.later.ctx);
    (void)pthread_mutex_destroy(&l->lock);
    free(l);
}

/* Under the lock. */
static struct tree *later_make(const struct tree *of, const struct later *l, struct zf_err *err)
{
    zf_auto(checkpoint) struct zf_checkpoint *c =
        zf_checkpoint_over(of->c, l->lim.model_memory, err);

    if (!c || !l->o.later.model(l->o.later.ctx, c, err))
        return NULL;
    return layout_later(of, zf_give(c), &l->o, err);
}

const struct tree *later_get(const struct tree *t, bool wait, struct zf_err *err)
{
    struct later *l = t->later;
    struct tree *in = atomic_load_explicit(&l->tree, memory_order_acquire);
    bool held;

    if (in || !l->o.later.enter(l->o.later.ctx, wait, &held, err))
        return in;
    (void)pthread_mutex_lock(&l->lock);
    in = atomic_load_explicit(&l->tree, memory_order_relaxed);
    if (!in) {
        in = later_make(t, l, err);
        atomic_store_explicit(&l->tree, in, memory_order_release);
    }
    (void)pthread_mutex_unlock(&l->lock);
    l->o.later.leave(l->o.later.ctx, held);
    return in;
}
