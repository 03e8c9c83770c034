/* SPDX-License-Identifier: Apache-2.0 */
/* Core 0.15 … 0.19.2 save shifted masters and moments with fully_reshardable where a buffer has
 * several buckets of which one is padded: the writer packs them without the padding, and cuts at
 * padded offsets (megatron/core/optimizer/distrib_optimizer.py; mended upstream by pull 5077).
 * The weights are right, so each master is held against its weight before any is believed. */
#include "steps.h"

#include <zf/assemble/values.h>
#include <zf/base/hash.h>
#include <zf/base/num.h>
#include <zf/base/table.h>

/* A weight by the hash of its name. */
struct masters_weight {
    UT_hash_handle hh;
    size_t param; /* its number + 1 */
};

static uint64_t masters_hash(struct mg_text name)
{
    return zf_hash(0, name.p, name.n);
}

static bool masters_see_weights(const struct mg_save *s, struct masters_weight **weights,
                                struct zf_err *err)
{
    for (size_t i = 0; i < s->param.n; i++) {
        const struct mg_param *p = &s->param.at[i];

        if (p->state.n == 0) {
            struct masters_weight *w = zf_table_make_id(*weights, masters_hash(p->name), err);

            if (!w) {
                return false;
            }
            w->param = w->param ? w->param : i + 1;
        }
    }
    return true;
}

/* Can the weight be a rounded form of the master?  Of one type it is a copy: a model in fp32 has masters too
 * (get_parameter_state of distrib_optimizer.py), and they are shifted as others. */
static bool masters_comparable(const struct mg_param *m, const struct mg_param *w)
{
    return zf_values_can_round(m->type.dtype, w->type.dtype) &&
           zf_dtype_info(m->type.dtype)->bytes >= zf_dtype_info(w->type.dtype)->bytes;
}

/* n elements from a place on.  Errors: they cannot be read. */
static bool masters_round(const struct mg_param *m, const struct mg_param *w, uint64_t at,
                          uint64_t n, struct zf_mismatch *miss, struct zf_err *err)
{
    miss->found = false;
    return zf_drafts_round_at((struct zf_draft_at){m->of, m->first + at},
                              (struct zf_draft_at){w->of, w->first + at}, n, ZF_VALUES_ENDS, miss,
                              err);
}

#define MASTERS_NEAR 16 /* elements at either end, one at a time */

/* Some of both cannot be read: does what can be agree?  False: nothing can. */
static bool masters_round_rest(const struct mg_param *m, const struct mg_param *w, uint64_t n,
                               struct zf_mismatch *miss)
{
    struct zf_err ignored;
    bool known = false;

    for (uint64_t i = 0; i < 2 * MASTERS_NEAR && i / 2 < n; i++) {
        if (masters_round(m, w, i & 1 ? n - 1 - i / 2 : i / 2, 1, miss, &ignored)) {
            known = true;
            if (miss->found) {
                break;
            }
        }
    }
    return known;
}

/* unread: the masters of which nothing can be compared, because bytes are lost.  Such a one is
 * not believed; others are. */
static bool masters_compare(struct mg_save *s, struct mg_param *m, const struct mg_param *w,
                            uint64_t *unread, struct zf_mismatch *miss, struct zf_err *err)
{
    uint64_t n = 0;

    if (!zf_elems(w->type.ndim, w->type.shape, &n) || masters_round(m, w, 0, n, miss, err)) {
        return true;
    }
    if (err->code == ZF_E_NOMEM || !zf_build_degraded(s->b)) {
        return false;
    }
    zf_err_clear(err);
    if (masters_round_rest(m, w, n, miss)) {
        return true;
    }
    miss->found = false;
    m->alone = true;
    return ++*unread > 1 ||
           zf_build_note(
               s->b, err,
               "the fp32 master of \"%.*s\" cannot be held against its weight, as bytes of them "
               "are "
               "lost: the root has the stored weight, optim/param/ the master; so it is with "
               "others like it",
               (int)(m->name.n < 200 ? m->name.n : 200), m->name.p);
}

/* One master against its weight; what differs is noted, and no master is believed. */
static bool masters_check(struct mg_save *s, struct mg_param *m, const struct mg_param *w,
                          uint64_t *unread, struct zf_err *err)
{
    struct zf_mismatch miss = {.found = false};
    int n = (int)(m->name.n < 200 ? m->name.n : 200);

    if (!zf_shape_equal(m->type.ndim, m->type.shape, w->type.ndim, w->type.shape)) {
        s->masters_doubted = true;
        return zf_build_note(
            s->b, err,
            "the fp32 masters are not those of the weights: the shapes of \"%.*s\" "
            "differ; the root has the stored weights, optim/param/ the masters",
            n, m->name.p);
    }
    if (!masters_comparable(m, w)) {
        s->masters_doubted = true;
        return zf_build_note(
            s->b, err,
            "the fp32 masters are not those of the weights: %s values of \"%.*s\" do not "
            "round to %s; the root has the stored weights, optim/param/ the masters",
            zf_dtype_info(m->type.dtype)->suffix, n, m->name.p,
            zf_dtype_info(w->type.dtype)->suffix);
    }
    if (!masters_compare(s, m, w, unread, &miss, err)) {
        return false;
    }
    s->masters_doubted = miss.found;
    return !miss.found ||
           zf_build_note(
               s->b, err,
               "the fp32 masters are not those of the weights: element %llu of \"%.*s\" is %g "
               "in the master and %g in the weight; the root has the stored weights, "
               "optim/param/ the masters, and moments may be those of other elements%s",
               (unsigned long long)miss.at, n, m->name.p, miss.master, miss.weight,
               s->in_parts ? ", or of another save" : "");
}

/* Is it the only one of its name?  Nothing says which of two is the weight. */
static bool masters_single(struct mg_save *s, const struct mg_param *m, struct masters_weight **met,
                           struct zf_err *err)
{
    struct masters_weight *seen = zf_table_make_id(*met, masters_hash(m->name), err);

    if (!seen) {
        return false;
    }
    if (!seen->param) {
        seen->param = 1;
        return true;
    }
    s->masters_doubted = true;
    return zf_build_note(
        s->b, err,
        "there are two fp32 masters of \"%.*s\", and nothing says which is the weight's; "
        "the root has the stored weights, optim/param/ the masters",
        (int)(m->name.n < 200 ? m->name.n : 200), m->name.p);
}

/* What has no weight shadows none: it is the optimizer's alone.  In a degraded build its weight may be what
 * is lost. */
static bool masters_without(struct mg_save *s, struct mg_param *m, uint64_t *n, struct zf_err *err)
{
    m->alone = s->foreign_weights || !zf_build_degraded(s->b);
    *n += m->alone;
    return !m->alone || *n > 1 ||
           zf_build_note(s->b, err,
                         "there is no weight of the name \"%.*s\", so that its fp32 master is in "
                         "optim/param/; so it is with others like it",
                         (int)(m->name.n < 200 ? m->name.n : 200), m->name.p);
}

bool mg_masters_check(struct mg_save *s, struct zf_err *err)
{
    zf_auto(uthash) struct masters_weight *weights = NULL;
    zf_auto(uthash) struct masters_weight *met = NULL;
    uint64_t without = 0, unread = 0;

    if (!masters_see_weights(s, &weights, err)) {
        return false;
    }
    for (size_t i = 0; i < s->param.n && !s->masters_doubted; i++) {
        struct mg_param *m = &s->param.at[i];
        const struct masters_weight *w;

        if (!mg_key_is_master(m->state)) {
            continue;
        }
        w = zf_table_find_id(weights, masters_hash(m->name));
        if (!masters_single(s, m, &met, err) || (!w && !masters_without(s, m, &without, err)) ||
            (w && !s->masters_doubted &&
             !masters_check(s, m, &s->param.at[w->param - 1], &unread, err))) {
            return false;
        }
    }
    return true;
}
