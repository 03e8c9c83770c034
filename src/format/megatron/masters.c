/* SPDX-License-Identifier: Apache-2.0 */
/* Core 0.15 … 0.19.2 save shifted masters and moments with fully_reshardable if a buffer has several
 * buckets and one is padded: the writer packs them without the padding, but cuts at padded
 * offsets (megatron/core/optimizer/distrib_optimizer.py; fixed upstream by pull 5077).
 * The weights are correct, so every master is compared with its weight before any is used. */
#include "steps.h"

#include <zf/assemble/values.h>
#include <zf/base/ahead.h>
#include <zf/base/num.h>

/* Can the master round to the weight?  With equal dtypes the weight is a copy: a model in fp32 has masters, too
 * (get_parameter_state of distrib_optimizer.py), which may be shifted like others. */
static bool masters_comparable(const struct mg_param *m, const struct mg_param *w)
{
    return zf_values_can_round(m->type.dtype, w->type.dtype) &&
           zf_dtype_info(m->type.dtype)->bytes >= zf_dtype_info(w->type.dtype)->bytes;
}

/* A master and the weight that it is compared with. */
struct masters_pair {
    struct mg_param *master;
    const struct mg_param *weight;
};

struct masters {
    struct mg_save *s;
    zf_vec(struct masters_pair);
};

static void zf_auto_masters(struct masters *c)
{
    zf_vec_fini(c);
}

/* ---- reading: by several threads --------------------------------------------------------------- */

/* Result of comparing a pair. */
struct masters_seen {
    struct zf_mismatch miss;
    bool unread; /* no element could be compared */
};

/* Compares n elements from element `at` on.  Errors: they cannot be read. */
static bool masters_round(const struct masters_pair *p, uint64_t at, uint64_t n,
                          struct zf_mismatch *miss, struct zf_err *err)
{
    const struct mg_param *m = p->master, *w = p->weight;

    miss->found = false;
    return zf_drafts_round_at((struct zf_draft_at){m->of, m->first + at},
                              (struct zf_draft_at){w->of, w->first + at}, n, ZF_VALUES_ENDS, miss,
                              err);
}

#define MASTERS_NEAR 16 /* elements at either end, compared one at a time */

/* Compares the readable ones of the first and last elements, if others cannot be read.  False: none can. */
static bool masters_round_rest(const struct masters_pair *p, uint64_t n, struct zf_mismatch *miss)
{
    struct zf_err ignored;
    bool known = false;

    for (uint64_t i = 0; i < 2 * MASTERS_NEAR && i / 2 < n; i++) {
        if (masters_round(p, i & 1 ? n - 1 - i / 2 : i / 2, 1, miss, &ignored)) {
            known = true;
            if (miss->found)
                break;
        }
    }
    return known;
}

static void *masters_make(void *ctx, uint64_t i, struct zf_err *err)
{
    const struct masters *c = ctx;
    const struct masters_pair *p = &c->at[i];
    zf_auto(mem) struct masters_seen *seen = calloc(1, sizeof *seen);
    uint64_t n = 0;

    if (!seen)
        return zf_null(zf_fail_sys(err, "compare masters"));
    if (zf_elems(p->weight->type.ndim, p->weight->type.shape, &n) &&
        !masters_round(p, 0, n, &seen->miss, err)) {
        if (err->code == ZF_E_NOMEM || !zf_build_degraded(c->s->b))
            return NULL;
        zf_err_clear(err);
        seen->unread = !masters_round_rest(p, n, &seen->miss);
    }
    return zf_give(seen);
}

/* ---- sample ------------------------------------------------------------------------------------ */

/* Approximate number of pairs compared in a save that is too large to compare all (zf_sample_of): a pair
 * takes up to eight requests if the save is remote. */
#define MASTERS_MOST 512u

/* Removes the pairs that are not compared.  Kept are the first and last pair of a stack, and every nth
 * layer, beginning with a different layer in each stack, so that no layer is skipped in all stacks. */
static void masters_sample(struct masters *c)
{
    uint64_t elements = 0, n = 0, stack = 0, layer = 0;
    const size_t all = c->n, every = (all - 1) / MASTERS_MOST + 1;

    for (size_t i = 0; i < all; i++) {
        uint64_t k = 0;

        (void)(zf_elems(c->at[i].weight->type.ndim, c->at[i].weight->type.shape, &k) &&
               zf_add(elements, k, &elements));
    }
    if (every == 1 || zf_sample_of(elements, all).places == 1)
        return;
    for (size_t i = 0; i < all; i++) {
        const struct masters_pair p = c->at[i];
        const bool opens = i == 0 || c->at[n - 1].master->of != p.master->of;
        const bool ends = i + 1 == all || c->at[i + 1].master->of != p.master->of;

        stack += opens;
        layer = opens ? 0 : layer + 1;
        if (opens || ends || (stack + layer) % every == 0)
            c->at[n++] = p;
    }
    c->n = n;
}

/* ---- results ----------------------------------------------------------------------------------- */

static int masters_width(const struct mg_param *m)
{
    return (int)(m->name.n < 200 ? m->name.n : 200);
}

/* Masters with unreadable bytes are not used; the others are. */
static bool masters_leave(struct mg_save *s, struct mg_param *m, uint64_t *n, struct zf_err *err)
{
    m->unverified = true;
    return ++*n > 1 || zf_build_note(s->b, err,
                                     "the fp32 master of \"%.*s\" cannot be compared with its "
                                     "weight, because bytes of them are lost (others likewise): "
                                     "the root shows the stored weight, optim/param/ the master",
                                     masters_width(m), m->name.p);
}

/* Compares the pairs until one differs: that is noted, and then no master is used as a weight. */
static bool masters_compare(struct masters *c, struct zf_err *err)
{
    struct mg_save *s = c->s;
    zf_auto(ahead) struct zf_ahead *made =
        zf_ahead_new((struct zf_ahead_work){.make = masters_make,
                                            .drop = free,
                                            .ctx = c,
                                            .most = zf_store_ahead(s->st),
                                            .few = zf_store_is_far(s->st) ? ZF_AHEAD_FAR : 0},
                     c->n, err);
    uint64_t unread = 0;

    for (size_t i = 0; made && i < c->n && !s->masters_doubted; i++) {
        zf_auto(mem) struct masters_seen *seen = zf_ahead_take(made, err);
        struct mg_param *m = c->at[i].master;

        if (!seen || (seen->unread && !masters_leave(s, m, &unread, err)))
            return false;
        s->masters_doubted = seen->miss.found && !seen->unread;
        if (s->masters_doubted &&
            !zf_build_note(
                s->b, err,
                "the fp32 masters do not belong to the weights: element %llu of \"%.*s\" is %g in "
                "the master and %g in the weight; the root shows the stored weights, optim/param/ "
                "the masters, and moments may belong to other elements",
                (unsigned long long)seen->miss.at, masters_width(m), m->name.p, seen->miss.master,
                seen->miss.weight))
            return false;
    }
    return made != NULL;
}

/* Notes a pair that cannot belong together, whatever its bytes are; then no master is used as a weight. */
static bool masters_refuse(struct mg_save *s, const struct mg_param *m, const struct mg_param *w,
                           struct zf_err *err)
{
    if (!zf_shape_equal(m->type.ndim, m->type.shape, w->type.ndim, w->type.shape)) {
        s->masters_doubted = true;
        return zf_build_note(
            s->b, err,
            "the fp32 masters do not belong to the weights: the shapes of \"%.*s\" differ; the "
            "root shows the stored weights, optim/param/ the masters",
            masters_width(m), m->name.p);
    }
    if (!masters_comparable(m, w)) {
        s->masters_doubted = true;
        return zf_build_note(
            s->b, err,
            "the fp32 masters do not belong to the weights: %s values of \"%.*s\" do not round to "
            "%s; the root shows the stored weights, optim/param/ the masters",
            zf_dtype_info(m->type.dtype)->suffix, masters_width(m), m->name.p,
            zf_dtype_info(w->type.dtype)->suffix);
    }
    return true;
}

/* Are there two masters of this name?  It is unknown which of them belongs to the weight. */
static bool masters_twice(struct mg_save *s, const struct mg_param *m, struct zf_err *err)
{
    s->masters_doubted = true;
    return zf_build_note(
        s->b, err,
        "there are two fp32 masters of \"%.*s\", and the save does not record which of them "
        "belongs to the weight; the root shows the stored weights, optim/param/ the masters",
        masters_width(m), m->name.p);
}

/* Handles a master without a weight: it is shown in optim/param.  Degraded, its weight may be lost. */
static bool masters_without(struct mg_save *s, struct mg_param *m, uint64_t *n, struct zf_err *err)
{
    m->unverified = s->foreign_weights || !zf_build_degraded(s->b);
    *n += m->unverified;
    return !m->unverified || *n > 1 ||
           zf_build_note(s->b, err,
                         "there is no weight named \"%.*s\", so its fp32 master is in optim/param/ "
                         "(others likewise)",
                         masters_width(m), m->name.p);
}

/* Lists the master with its weight, or notes that the two cannot belong together. */
static bool masters_add(struct masters *c, struct mg_param *m, uint64_t *without,
                        struct zf_err *err)
{
    struct mg_save *s = c->s;
    size_t n;
    const struct mg_param *w = mg_save_named(s, MG_WEIGHTS, m->name, &n);

    (void)mg_save_named(s, MG_MASTERS, m->name, &n);
    if (n > 1)
        return masters_twice(s, m, err);
    if (!w)
        return masters_without(s, m, without, err);
    if (!masters_refuse(s, m, w, err))
        return false;
    struct masters_pair *p = s->masters_doubted ? NULL : zf_vec_push(c, err);
    if (p)
        *p = (struct masters_pair){m, w};
    return p || s->masters_doubted;
}

/* Lists the pairs to compare, until one cannot belong together. */
static bool masters_list(struct masters *c, struct zf_err *err)
{
    struct mg_save *s = c->s;
    uint64_t without = 0;

    if (s->trained && !mg_save_index(s, err))
        return false;
    for (size_t i = 0; s->trained && i < s->param.n && !s->masters_doubted; i++)
        if (mg_key_is_master(s->param.at[i].state) &&
            !masters_add(c, &s->param.at[i], &without, err))
            return false;
    return true;
}

bool mg_masters_check(struct mg_save *s, struct zf_err *err)
{
    zf_auto(masters) struct masters c = {.s = s};

    if (!masters_list(&c, err))
        return false;
    if (zf_store_is_far(s->st) && !zf_build_degraded(s->b))
        masters_sample(&c);
    return s->masters_doubted || masters_compare(&c, err);
}
