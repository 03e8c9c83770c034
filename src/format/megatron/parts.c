/* SPDX-License-Identifier: Apache-2.0 */
/* A factory cuts a parameter along its first dimension before it is saved, so that each part is cut
 * among ranks by itself: the two halves of a gated linear unit, what the projection and the convolution
 * of Mamba and of gated delta nets give at once.  The parts follow each other in the live tensor, in the
 * order below.  A number that each part has, its steps, is one of the whole where it is the same.
 * Source: megatron/core/transformer/mlp.py apply_swiglu_sharded_factory (singleton_local_shards, 0.15 …
 * 0.19), megatron/core/ssm/mamba_mixer.py and gated_delta_net.py sharded_state_dict (0.9 … 0.19). */
#include "steps.h"

#include <string.h>

#include <zf/assemble/cut.h>
#include <zf/base/hash.h>
#include <zf/base/num.h>
#include <zf/base/table.h>

enum { PARTS_MAX = 6 };

static const struct parts_kind {
    const char *whole; /* the end of the whole name, of full components */
    const char *end[PARTS_MAX];
    uint32_t n;
} parts_kinds[] = {
    {"weight", {"_w", "_v"}, 2},
    {"bias", {"_w", "_v"}, 2},
    {"in_proj.weight", {".z", ".x", ".B", ".C", ".dt"}, 5},
    {"in_proj.bias", {".z", ".x", ".B", ".C", ".dt"}, 5},
    {"conv1d.weight", {".x", ".B", ".C"}, 3},
    {"conv1d.bias", {".x", ".B", ".C"}, 3},
    {"in_proj.weight", {".query", ".key", ".value", ".z", ".beta", ".alpha"}, 6},
    {"conv1d.weight", {".query", ".key", ".value"}, 3},
    {"conv1d.bias", {".query", ".key", ".value"}, 3},
};
#define PARTS_KINDS (sizeof parts_kinds / sizeof *parts_kinds)

/* Is the end of the name exactly these components? */
static bool parts_is_whole(struct mg_text t, const char *whole)
{
    size_t n = strlen(whole);

    return mg_text_ends(t, whole) && (t.n == n || t.p[t.n - n - 1] == '.');
}

/* Which part of that kind the name is, or n; *whole = the name of the parameter. */
static uint32_t parts_which(const struct parts_kind *kind, struct mg_text name,
                            struct mg_text *whole)
{
    for (uint32_t i = 0; i < kind->n; i++) {
        if (mg_text_ends(name, kind->end[i])) {
            *whole = (struct mg_text){name.p, name.n - strlen(kind->end[i])};
            if (parts_is_whole(*whole, kind->whole)) {
                return i;
            }
        }
    }
    return kind->n;
}

/* A parameter that is met in parts. */
struct parts_met {
    UT_hash_handle hh; /* of kind, state and whole name */
    struct mg_text whole, state;
    size_t part[PARTS_MAX]; /* number + 1 of the parameter; 0 = not met */
    uint32_t n;
    bool there; /* the whole name is in the list, or a part twice */
};

static uint64_t parts_hash(size_t kind, struct mg_text state, struct mg_text name)
{
    return zf_hash(zf_hash(1 + kind, state.p, state.n), name.p, name.n);
}

/* A name may be a part of several kinds: "in_proj.weight.z". */
static bool parts_meet(struct parts_met **met, const struct mg_param *p, size_t i,
                       struct zf_err *err)
{
    for (size_t k = 0; k < PARTS_KINDS; k++) {
        struct mg_text whole;
        uint32_t part = parts_which(&parts_kinds[k], p->name, &whole);
        struct parts_met *m;

        if (part == parts_kinds[k].n) {
            continue;
        }
        m = zf_table_make_id(*met, parts_hash(k, p->state, whole), err);
        if (!m) {
            return false;
        }
        m->whole = whole;
        m->state = p->state;
        m->n = parts_kinds[k].n;
        m->there = m->there || m->part[part];
        m->part[part] = i + 1;
    }
    return true;
}

/* Are all parts there, of one type and equal but in the first dimension?  *rows: of all. */
static bool parts_fit(const struct mg_save *s, const struct parts_met *m, uint64_t *rows)
{
    const struct mg_param *first = m->part[0] ? &s->param.at[m->part[0] - 1] : NULL;

    *rows = 0;
    if (!first || m->there) {
        return false;
    }
    for (uint32_t i = 0; i < m->n; i++) {
        const struct mg_param *p = m->part[i] ? &s->param.at[m->part[i] - 1] : NULL;

        if (!p || p->apart || p->type.dtype != first->type.dtype ||
            p->type.ndim != first->type.ndim ||
            (p->type.ndim > 0 && (memcmp(p->type.shape + 1, first->type.shape + 1,
                                         (first->type.ndim - 1) * sizeof *first->type.shape) != 0 ||
                                  !zf_add(*rows, p->type.shape[0], rows)))) {
            return false;
        }
    }
    return true;
}

/* A number, as of steps, that belongs to all parts: is it the same everywhere? */
static bool parts_one_number(struct mg_save *s, const struct parts_met *m, bool *same,
                             struct zf_err *err)
{
    struct zf_copy_check check = {0};
    struct zf_draft *first = NULL;
    bool ok = zf_build_mark(s->b, err);
    bool marked = ok;

    *same = true;
    for (uint32_t i = 0; ok && *same && i < m->n; i++) {
        const struct mg_param *p = &s->param.at[m->part[i] - 1];
        struct zf_draft *d = zf_build_hidden(s->b, p->name.p, p->name.n, p->type, err);

        ok = d && zf_draft_part(d, 0, 1, p->of, p->first, err) &&
             (!first || zf_cut_same(&check, first, d, same, err));
        first = first ? first : d;
    }
    if (marked) {
        zf_build_undo(s->b);
    }
    zf_copy_check_fini(&check);
    return ok;
}

static bool parts_fill(struct mg_save *s, const struct parts_met *m, struct zf_draft *d,
                       struct zf_err *err)
{
    uint64_t at = 0, n, total = 1;

    if (!zf_elems(zf_draft_type(d).ndim, zf_draft_type(d).shape, &total)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "the parts of \"%.*s\" are too large",
                       (int)m->whole.n, m->whole.p);
    }
    for (uint32_t i = 0; i < m->n; i++) {
        struct mg_param *p = &s->param.at[m->part[i] - 1];

        if (!zf_elems(p->type.ndim, p->type.shape, &n) ||
            (at + n <= total && !zf_draft_part(d, at, n, p->of, p->first, err))) {
            return false;
        }
        p->apart = true;
        at += n;
    }
    return true;
}

static bool parts_join_one(struct mg_save *s, const struct parts_met *m, struct zf_err *err)
{
    struct mg_param whole;
    uint64_t rows, *shape;
    size_t *part;

    if (!parts_fit(s, m, &rows)) {
        return true;
    }
    if (s->param.at[m->part[0] - 1].type.ndim == 0) {
        bool same;

        if (!parts_one_number(s, m, &same, err) || !same) {
            return err->code == ZF_OK;
        }
    }
    whole = s->param.at[m->part[0] - 1];
    shape = zf_arena_get(s->arena, whole.type.ndim, sizeof *shape, err);
    part = shape ? zf_arena_get(s->arena, m->n, sizeof *part, err) : NULL;
    if (!part) {
        return false;
    }
    for (uint32_t i = 0; i < m->n; i++) {
        part[i] = m->part[i] - 1;
    }
    memcpy(shape, whole.type.shape, whole.type.ndim * sizeof *shape);
    if (whole.type.ndim > 0) {
        shape[0] = rows;
    }
    whole.type.shape = shape;
    whole.name = m->whole;
    whole.from = NULL;
    whole.first = 0;
    whole.part = part;
    whole.n_parts = m->n;
    whole.of = zf_build_hidden(s->b, m->whole.p, m->whole.n, whole.type, err);
    return whole.of && parts_fill(s, m, whole.of, err) && mg_save_param(s, &whole, err);
}

bool mg_parts_join(struct mg_save *s, struct zf_err *err)
{
    struct parts_met *met = NULL;
    bool ok = true;

    for (size_t i = 0; ok && i < s->param.n; i++) {
        ok = parts_meet(&met, &s->param.at[i], i, err);
    }
    for (size_t i = 0; ok && i < s->param.n && met; i++) {
        const struct mg_param *p = &s->param.at[i];

        for (size_t k = 0; k < PARTS_KINDS; k++) {
            struct parts_met *m = zf_table_find_id(met, parts_hash(k, p->state, p->name));

            if (m) {
                m->there = true;
            }
        }
    }
    for (const struct parts_met *m = met; ok && m; m = m->hh.next) {
        ok = parts_join_one(s, m, err);
    }
    zf_table_free(met);
    return ok;
}
