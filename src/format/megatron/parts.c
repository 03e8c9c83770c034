/* SPDX-License-Identifier: Apache-2.0 */
/* A factory cuts a parameter along its first dimension before it is saved, so that each part is cut
 * among ranks by itself: the two halves of a gated linear unit, what Mamba's projection and convolution
 * give at once.  The parts follow each other in the live tensor, in the order below.
 * Source: megatron/core/transformer/mlp.py apply_swiglu_sharded_factory (singleton_local_shards, 0.15 …
 * 0.19), megatron/core/ssm/mamba_mixer.py sharded_state_dict (0.9 … 0.19). */
#include "parts.h"

#include <string.h>

#include <zf/base/hash.h>
#include <zf/base/num.h>
#include <zf/base/table.h>

enum { PARTS_MAX = 5 };

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
};

static bool parts_ends(struct mg_text t, const char *end)
{
    size_t n = strlen(end);

    return t.n >= n && memcmp(t.p + t.n - n, end, n) == 0;
}

/* Is the end of the name exactly these components? */
static bool parts_is_whole(struct mg_text t, const char *whole)
{
    size_t n = strlen(whole);

    return parts_ends(t, whole) && (t.n == n || t.p[t.n - n - 1] == '.');
}

bool mg_part_of(struct mg_text name, struct mg_part *out)
{
    for (size_t k = 0; k < sizeof parts_kinds / sizeof *parts_kinds; k++) {
        for (uint32_t i = 0; i < parts_kinds[k].n; i++) {
            struct mg_text whole = name;

            if (!parts_ends(name, parts_kinds[k].end[i])) {
                continue;
            }
            whole.n -= strlen(parts_kinds[k].end[i]);
            if (parts_is_whole(whole, parts_kinds[k].whole)) {
                *out = (struct mg_part){whole, i, parts_kinds[k].n};
                return true;
            }
        }
    }
    return false;
}

/* A parameter that is met in parts. */
struct parts_met {
    uint64_t hash; /* of state and whole name */
    struct mg_text whole, state;
    size_t part[PARTS_MAX]; /* number + 1 of the parameter; 0 = not met */
    uint32_t n;
    bool there; /* the whole name is in the list, or a part twice */
};

static uint64_t parts_hash(struct mg_text state, struct mg_text name)
{
    return zf_hash(zf_hash(1, state.p, state.n), name.p, name.n);
}

static bool parts_meet(struct zf_table *met, const struct mg_param *p, size_t i, struct zf_err *err)
{
    struct mg_part part;
    struct parts_met *m;

    if (!mg_part_of(p->name, &part)) {
        return true;
    }
    m = zf_table_put(met, parts_hash(p->state, part.whole), sizeof *m, err);
    if (!m) {
        return false;
    }
    m->whole = part.whole;
    m->state = p->state;
    m->n = part.n;
    m->there = m->there || m->part[part.part];
    m->part[part.part] = i + 1;
    return true;
}

/* Are all parts there, of one type and equal but in the first dimension?  *rows: of all. */
static bool parts_fit(const struct mg_save *s, const struct parts_met *m, uint64_t *rows)
{
    const struct mg_param *first = m->part[0] ? &s->param.at[m->part[0] - 1] : NULL;

    *rows = 0;
    if (!first || m->there || first->type.ndim == 0) {
        return false;
    }
    for (uint32_t i = 0; i < m->n; i++) {
        const struct mg_param *p = m->part[i] ? &s->param.at[m->part[i] - 1] : NULL;

        if (!p || p->type.dtype != first->type.dtype || p->type.ndim != first->type.ndim ||
            memcmp(p->type.shape + 1, first->type.shape + 1,
                   (first->type.ndim - 1) * sizeof *first->type.shape) != 0 ||
            !zf_add(*rows, p->type.shape[0], rows)) {
            return false;
        }
    }
    return true;
}

static bool parts_fill(struct mg_save *s, const struct parts_met *m, struct zf_draft *d,
                       struct zf_err *err)
{
    uint64_t at = 0, n;

    for (uint32_t i = 0; i < m->n; i++) {
        struct mg_param *p = &s->param.at[m->part[i] - 1];

        if (!zf_elems(p->type.ndim, p->type.shape, &n) ||
            !zf_draft_part(d, at, n, p->of, p->first, err)) {
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

    if (!parts_fit(s, m, &rows)) {
        return true;
    }
    whole = s->param.at[m->part[0] - 1];
    shape = zf_arena_get(s->arena, whole.type.ndim, sizeof *shape, err);
    if (!shape) {
        return false;
    }
    memcpy(shape, whole.type.shape, whole.type.ndim * sizeof *shape);
    shape[0] = rows;
    whole.type.shape = shape;
    whole.name = m->whole;
    whole.from = NULL;
    whole.first = 0;
    whole.of = zf_build_hidden(s->b, m->whole.p, m->whole.n, whole.type, err);
    return whole.of && parts_fill(s, m, whole.of, err) && mg_save_param(s, &whole, err);
}

bool mg_parts_join(struct mg_save *s, struct zf_err *err)
{
    struct zf_table met = {0};
    bool ok = true;

    for (size_t i = 0; ok && i < s->param.n; i++) {
        ok = parts_meet(&met, &s->param.at[i], i, err);
    }
    for (size_t i = 0; ok && i < s->param.n && met.index.n; i++) {
        const struct mg_param *p = &s->param.at[i];
        struct parts_met *m = zf_table_get(&met, parts_hash(p->state, p->name));

        if (m) {
            m->there = true;
        }
    }
    for (size_t i = 0; ok && i < met.index.n; i++) {
        ok = parts_join_one(s, &((const struct parts_met *)met.entry)[i], err);
    }
    zf_table_fini(&met);
    return ok;
}
