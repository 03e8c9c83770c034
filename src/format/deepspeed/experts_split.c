/* SPDX-License-Identifier: Apache-2.0 */
/* The optimizer files number the experts of each rank 0, 1 …; their indices in the whole model follow
 * from the ranks that share a flat buffer.  Under stages 1 and 2 these are every `sets`th rank, or a
 * block of ranks with use_data_before_expert_parallelism; under stage 3 the files list them.  order.c
 * proves the result by the 16-bit weights.
 * Source: deepspeed/utils/groups.py (_create_expert_and_data_parallel), moe/utils.py,
 * runtime/zero/stage_1_and_2.py, 0.5.0 … 0.19.8. */
#include "steps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/assemble/files.h>
#include <zf/base/search.h>

/* An expert: the text before the number in its name, and the number. */
struct split_id {
    struct ds_name prefix;
    uint32_t number;
};
struct split_ids {
    struct split_id *id; /* sorted, without duplicates */
    uint32_t n;
};

static int split_by_id(const void *pa, const void *pb)
{
    const struct split_id *a = pa, *b = pb;
    int c = ds_name_cmp(a->prefix, b->prefix);

    return c ? c : (a->number > b->number) - (a->number < b->number);
}

static void split_sort(struct split_ids *s)
{
    uint32_t kept = 0;

    if (s->n > 1)
        qsort(s->id, s->n, sizeof *s->id, split_by_id);
    for (uint32_t i = 0; i < s->n; i++)
        if (kept == 0 || split_by_id(&s->id[kept - 1], &s->id[i]) != 0)
            s->id[kept++] = s->id[i];
    s->n = kept;
}

/* The number of experts with that prefix; *first: index of the first. */
static uint32_t split_find(const struct split_ids *s, struct ds_name prefix, uint32_t *first)
{
    uint32_t n = 0;
    size_t at;

    ZF_SEARCH(at, s->n, ds_name_cmp(s->id[at].prefix, prefix) >= 0);
    *first = (uint32_t)at;
    while (at + n < s->n && ds_name_eq(s->id[at + n].prefix, prefix))
        n++;
    return n;
}

/* ---- the ranks that share a flat buffer ---- */

/* Enters the ranks of one flat buffer, as listed by p of rank r, the first of them. */
static bool split_enter(const struct ds_rank *mp, uint32_t g, uint32_t r, const struct ds_part *p,
                        const struct ds_part **of, struct zf_err *err)
{
    for (uint32_t i = 0; i < p->n_ranks; i++) {
        uint32_t rank = p->ranks[i];

        if (rank >= mp->n_dp || of[rank]) {
            zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "partition_ranks of group %u list rank %u%s", g,
                    rank, rank < mp->n_dp ? " twice, or in two vectors" : ", which does not exist");
            return zf_err_in(err, "%s", mp->optim[r].path);
        }
        of[rank] = p;
    }
    return true;
}

/* Stage 3: the ranks that the files list.  Flat buffers are in the order of their first ranks. */
static const uint32_t *split_listed(const struct ds_rank *mp, uint32_t g, uint32_t e, uint32_t *n,
                                    struct zf_err *err)
{
    const struct ds_part **of = zf_arena_get(mp->save->a, mp->n_dp, sizeof(*of), err);
    const struct ds_part *found = NULL;
    uint32_t sets = 0;

    for (uint32_t r = 0; of && r < mp->n_dp; r++) {
        const struct ds_part *p = mp->optim[r].lost ? NULL : mp->optim[r].part[g];

        if (p && !of[r]) {
            if (!split_enter(mp, g, r, p, of, err))
                return NULL;
            found = sets++ == e ? p : found;
        }
        if (p && (!of[r] || of[r]->n_ranks != p->n_ranks ||
                  memcmp(of[r]->ranks, p->ranks, p->n_ranks * sizeof *p->ranks) != 0)) {
            zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                    "partition_ranks of group %u differ from those of another rank that has a part "
                    "of the same vector",
                    g);
            return zf_err_in(err, "%s", mp->optim[r].path), NULL;
        }
    }
    if (of && !found) {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "partition_ranks of group %u do not list all ranks",
                g);
        return NULL;
    }
    *n = of ? found->n_ranks : 0;
    return of ? found->ranks : NULL;
}

const uint32_t *ds_experts_ranks(const struct ds_rank *mp, uint32_t g, uint32_t e, uint32_t *n,
                                 struct zf_err *err)
{
    const struct ds_optim *first = rank_optim(mp);
    const struct ds_part *p = first->part[g];
    if (p->ranks)
        return split_listed(mp, g, e, n, err);
    uint64_t each = p->partitions > 0 && p->partitions < mp->n_dp ? p->partitions : mp->n_dp;
    uint64_t sets = mp->n_dp / each;
    uint32_t *out = zf_arena_get(mp->save->a, each, sizeof *out, err);

    if (out && mp->n_dp % each != 0) {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                "group %u has %llu partitions, which do not divide the %u ranks", g,
                (unsigned long long)each, mp->n_dp);
        return zf_err_in(err, "%s", first->path), NULL;
    }
    for (uint64_t k = 0; out && k < each; k++)
        out[k] = (uint32_t)(mp->blocks ? e * each + k : e + k * sets);
    *n = (uint32_t)each;
    return out;
}

/* ---- names ---- */

/* The experts of a group: those in the optimizer (local), and those with files of weights (filed). */
struct split {
    struct ds_rank *mp;
    const struct ds_group *in; /* the group that is split */
    struct split_ids local, filed;
    uint32_t sets, e;
};

static bool split_lists(struct split *s, struct zf_err *err)
{
    const struct ds_model *files = &s->mp->expert;
    struct ds_expert_name name;

    s->local = s->filed = (struct split_ids){0};
    s->local.id = zf_arena_get(s->mp->save->a, s->in->n, sizeof *s->local.id, err);
    s->filed.id = zf_arena_get(s->mp->save->a, files->n_entries, sizeof *s->filed.id, err);
    if (!s->local.id || !s->filed.id)
        return false;
    for (uint32_t i = 0; i < s->in->n; i++)
        if (ds_expert_name(s->in->param[i].name, &name))
            s->local.id[s->local.n++] = (struct split_id){name.prefix, name.number};
    for (uint32_t i = 0; i < files->n_entries; i++)
        if (ds_expert_name(files->entry[i].name, &name))
            s->filed.id[s->filed.n++] = (struct split_id){name.prefix, name.number};
    split_sort(&s->local);
    split_sort(&s->filed);
    return true;
}

/* No file has the 16-bit weights of an expert.  Degraded: only stored/ lacks them, and a note says so. */
static bool split_missing(const struct split *s, struct ds_name name, uint32_t number,
                          struct zf_err *err)
{
    struct ds_rank *mp = s->mp;
    const struct ds_file *like = NULL;
    struct ds_expert_name a, b;
    char file[DS_FILE_NAME], is[ZF_ABSENT_MAX];

    if (mp->save->o->degraded) {
        return zf_build_note(mp->save->b, err, "the 16-bit weight \"%.*s\" is missing", (int)name.n,
                             name.p);
    }
    for (uint32_t i = 0; i < mp->expert.n_entries && ds_expert_name(name, &a) && !like; i++)
        if (ds_expert_name(mp->expert.entry[i].name, &b) && ds_name_eq(a.prefix, b.prefix))
            like = mp->expert.entry[i].file;
    if (!like || strncmp(like->path, "layer_", 6) != 0) {
        (void)snprintf(file, sizeof file, "[layer_*_]expert_%u_mp_rank_%02u_model_states.pt",
                       number, mp->mp);
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "no file %s holds the 16-bit weight \"%.*s\"",
                       file, (int)name.n, name.p);
    }
    struct ds_file missing = *like;
    missing.expert = number;
    (void)ds_file_name(missing, file);
    return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "%s %s; the 16-bit weight \"%.*s\" should be in it", file,
                   zf_absent(mp->save->st, file, is), (int)name.n, name.p);
}

/* Marks entry e as the 16-bit weight of n elements of a master; their lengths must be equal. */
static bool split_take(const struct split *s, const struct ds_entry *e, uint64_t n,
                       struct zf_err *err)
{
    struct ds_rank *mp = s->mp;

    if (e->view.n != n) {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                "\"%.*s\" has %llu elements, but its shape in param_shapes has %llu",
                (int)e->name.n, e->name.p, (unsigned long long)e->view.n, (unsigned long long)n);
        return zf_err_in(err, "%s", e->file->path);
    }
    mp->expert.entry[e - mp->expert.entry].trained = true;
    return true;
}

/* The name of x with another expert number. */
static bool split_name(const struct split *s, const struct ds_expert_name *x, uint32_t number,
                       struct ds_name *out, struct zf_err *err)
{
    char digits[16];
    int n = snprintf(digits, sizeof digits, "%u", number);
    uint64_t len = (uint64_t)x->prefix.n + (uint64_t)n + x->rest.n;
    char *p = zf_arena_get(s->mp->save->a, len + 1, 1, err);

    if (!p || len > UINT32_MAX)
        return p && zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "the name of an expert is too long");
    memcpy(p, x->prefix.p, x->prefix.n);
    memcpy(p + x->prefix.n, digits, (size_t)n);
    memcpy(p + x->prefix.n + n, x->rest.p, x->rest.n);
    *out = (struct ds_name){p, (uint32_t)len};
    return true;
}

/* Expert l of flat buffer e is number e * (experts per buffer) + l of this model-parallel rank.  With a
 * single model-parallel rank that is its index in the model; else the expert files have the index. */
static bool split_native(const struct split *s, struct ds_param *p, const struct ds_expert_name *x,
                         struct zf_err *err)
{
    struct ds_rank *mp = s->mp;
    uint32_t at, n_local = split_find(&s->local, x->prefix, &at);
    uint32_t n_filed, first, number = s->e * n_local + x->number;

    if (s->local.id[at].number != 0 || s->local.id[at + n_local - 1].number != n_local - 1) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "the experts of \"%.*s\" in group %u are not numbered 0 to %u",
                       (int)p->name.n, p->name.p, s->in->index, n_local - 1);
    }
    n_filed = split_find(&s->filed, x->prefix, &first);
    if (mp->save->dir.n_mp > 1 && n_filed == s->sets * n_local &&
        s->filed.id[first + number].number != number) {
        if (!split_name(s, x, s->filed.id[first + number].number, &p->weight, err))
            return false;
        mp->renumbered = true;
    }
    if (mp->save->dir.n_mp == 1 && n_filed > s->sets * n_local) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "there are files of %u experts \"%.*s…\", but the optimizer has %u. Is one "
                       "of the files from another save?",
                       n_filed, (int)x->prefix.n, x->prefix.p, s->sets * n_local);
    }
    if (!split_name(s, x, number, &p->name, err))
        return false;
    const struct ds_entry *e = ds_experts_weight(mp, p, 0);
    if (e && e->file && e->file->kind == DS_EXPERT)
        return split_take(s, e, p->n, err);
    /* one of several tensor-parallel ranks may have written the files of all experts */
    return e || (mp->save->dir.n_mp > 1 && n_filed == 0) || split_missing(s, p->name, number, err);
}

/* Handles a shard of the fused tensor of all experts of a layer (AutoEP). */
static bool split_fused(const struct split *s, struct ds_param *p, const struct ds_fused *f,
                        struct zf_err *err)
{
    struct ds_rank *mp = s->mp;
    uint64_t *whole = zf_arena_get(mp->save->a, p->ndim, sizeof *whole, err);

    if (!whole)
        return false;
    if (p->ndim == 0 || s->sets != f->n_ep || p->shape[0] != f->n[s->e] ||
        (f->shape && (f->ndim != p->ndim ||
                      memcmp(f->shape + 1, p->shape + 1, (p->ndim - 1) * sizeof *whole) != 0))) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "\"%.*s\" is in %u vectors, but by the affine map it is on %u "
                       "expert-parallel ranks, or has another shape",
                       (int)p->name.n, p->name.p, s->sets, f->n_ep);
    }
    memcpy(whole, p->shape, p->ndim * sizeof *whole);
    whole[0] = f->first[f->n_ep - 1] + f->n[f->n_ep - 1];
    p->whole = whole;
    p->first = f->first[s->e];
    for (uint64_t l = 0; !mp->save->dir.by_rank && l < p->shape[0]; l++) {
        const struct ds_entry *e = ds_experts_weight(mp, p, l);

        if (!(e ? split_take(s, e, p->n / p->shape[0], err)
                : split_missing(s, p->name, (uint32_t)(p->first + l), err)))
            return false;
    }
    return true;
}

/* Gives the parameters of one flat buffer their names in the whole model. */
static bool split_params(const struct split *s, struct ds_group *out, struct zf_err *err)
{
    const struct ds_model *m = &s->mp->model;

    out->param = zf_arena_get(s->mp->save->a, s->in->n, sizeof *out->param, err);
    for (uint32_t i = 0; out->param && i < s->in->n; i++) {
        struct ds_param *p = &out->param[i];
        const struct ds_fused *f;
        struct ds_expert_name x;
        bool ok;

        *p = s->in->param[i];
        if (ds_expert_name(p->name, &x)) {
            ok = split_native(s, p, &x, err);
        } else if ((f = ds_autoep_find(m->fused, m->n_fused, p->name))) {
            ok = split_fused(s, p, f, err);
        } else {
            ok = s->sets == 1 || zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                                         "group %u has %u vectors, as groups of experts have, but "
                                         "\"%.*s\" is not a parameter of experts",
                                         s->in->index, s->sets, (int)p->name.n, p->name.p);
        }
        if (!ok)
            return !ds_err_named(err) && zf_err_in(err, "%s", s->mp->model.path);
    }
    return out->param != NULL;
}

/* Stage 3: if the first rank of flat buffer e records its expert-parallel rank, that must be e. */
static bool split_check_rank(const struct split *s, uint32_t rank, struct zf_err *err)
{
    struct ds_rank *mp = s->mp;
    const struct ds_file *f = NULL;
    struct ds_model m = mp->model;

    for (uint32_t i = 0; i < mp->n_model_files && !f; i++)
        f = mp->model_file[i].dp == rank ? &mp->model_file[i] : NULL;
    if (!f || !mp->save->dir.by_rank || s->sets == 1)
        return true;
    if (f != mp->model_from && !ds_model_read(mp->save, f, &m, err))
        return rank_skip_model(mp->save, &m, err);
    if (f != mp->model_from && !ds_agree_check(mp->save, true, err))
        return false;
    for (uint32_t i = 0; i < s->in->n; i++) {
        const struct ds_fused *x = ds_autoep_find(m.fused, m.n_fused, s->in->param[i].name);

        if (x && x->ep_rank != s->e && x->ep_rank != UINT32_MAX) {
            zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                    "by this file its experts \"%.*s\" belong to expert-parallel rank %u, but by "
                    "partition_ranks to %u",
                    (int)x->name.n, x->name.p, x->ep_rank, s->e);
            return zf_err_in(err, "%s", f->path);
        }
    }
    return true;
}

static bool split_group(struct split *s, struct ds_group *out, struct zf_err *err)
{
    struct ds_rank *mp = s->mp;
    uint32_t n;
    const uint32_t *member = ds_experts_ranks(mp, s->in->index, s->e, &n, err);
    const struct ds_part **part = member ? zf_arena_get(mp->save->a, n, sizeof(*part), err) : NULL;
    bool some = false;

    if (!part)
        return false;
    for (uint32_t k = 0; k < n; k++) {
        part[k] = ds_optim_part(&mp->optim[member[k]], s->in->index, 0);
        some = some || !mp->optim[member[k]].lost;
    }
    if (!some) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "none of the optimizer files that hold vector %u of group %u can be read",
                       s->e, s->in->index);
    }
    *out = *s->in;
    out->part = part;
    out->n_ranks = n;
    return split_check_rank(s, member[0], err) && split_params(s, out, err);
}

/* The number of flat buffers of file group g. */
static bool split_sets(const struct ds_rank *mp, uint32_t g, uint32_t *sets, struct zf_err *err)
{
    uint32_t n;

    if (!ds_experts_ranks(mp, g, 0, &n, err))
        return false;
    *sets = mp->n_dp / n;
    return true;
}

bool ds_experts_split(struct ds_rank *mp, struct zf_err *err)
{
    const struct ds_group *in = mp->group;
    uint32_t n_in = mp->n_groups, sets;
    uint64_t n = 0;

    for (uint32_t g = 0; g < n_in; g++) {
        if (!split_sets(mp, in[g].index, &sets, err))
            return false;
        n += sets;
    }
    mp->group = zf_arena_get(mp->save->a, n, sizeof *mp->group, err);
    mp->n_groups = 0;
    for (uint32_t g = 0; mp->group && g < n_in; g++) {
        struct split s = {.mp = mp, .in = &in[g]};

        if (!split_sets(mp, s.in->index, &s.sets, err) || !split_lists(&s, err))
            return false;
        for (; s.e < s.sets; s.e++)
            if (!split_group(&s, &mp->group[mp->n_groups++], err))
                return false;
    }
    return mp->group != NULL;
}
