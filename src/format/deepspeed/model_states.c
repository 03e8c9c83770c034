/* SPDX-License-Identifier: Apache-2.0 */
/* Model-states files: names, shapes and order of the parameters, and tensors in no flat buffer.
 * Source: deepspeed/runtime/engine.py (_save_checkpoint, _get_zero_param_shapes,
 * _get_zero_frozen_param_attributes, _get_shared_params), 0.6.0 … 0.19.8. */
#include "steps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/assemble/degraded.h>
#include <zf/base/num.h>
#include <zf/base/search.h>

static void model_take_shape(const struct ds_save *ds, const struct zf_take *x, struct ds_param *p)
{
    p->shape = zf_take_sizes(x, &p->ndim);
    (void)(zf_take_most(x, p->ndim, ds->o->lim->tensor_dims, ZF_LIMIT_tensor_dims) &&
           zf_take_must(x, zf_elems(p->ndim, p->shape, &p->n),
                        "the product of its sizes exceeds 64 bits"));
}

static void model_take_group(const struct ds_save *ds, const struct zf_take *map,
                             struct ds_shapes *out)
{
    uint64_t n = zf_take_map(map);

    (void)zf_take_most(map, n, ds->o->lim->tensors, ZF_LIMIT_tensors);
    out->n = (uint32_t)n;
    out->param = zf_take_room(map->t, n, sizeof *out->param);
    for (uint64_t i = 0; i < n && !map->t->failed; i++) {
        const struct zf_take name = zf_take_name(map, i), one = zf_take_item(map, i);

        out->param[i].name = ds_take_name(&name);
        model_take_shape(ds, &one, &out->param[i]);
    }
}

void ds_take_shapes(const struct ds_save *ds, const struct zf_take *x, struct ds_shapes **out,
                    uint32_t *n_out)
{
    uint64_t n = zf_pv_is_map(x->v) ? 1 : zf_take_list(x);

    *n_out = (uint32_t)n;
    *out = zf_take_room(x->t, n, sizeof **out);
    for (uint64_t g = 0; g < n && !x->t->failed; g++) {
        const struct zf_take one = zf_take_item(x, g);

        model_take_group(ds, zf_pv_is_map(x->v) ? x : &one, &(*out)[g]);
    }
}

static void model_take_buffers(const struct zf_take *list, struct ds_model *m)
{
    uint64_t n = zf_take_given(list) ? zf_take_list(list) : 0;

    m->has_buffers = zf_take_given(list);
    m->n_buffers = (uint32_t)n;
    m->buffer = zf_take_room(list->t, n, sizeof *m->buffer);
    for (uint64_t i = 0; i < n && !list->t->failed; i++) {
        const struct zf_take one = zf_take_item(list, i);

        m->buffer[i] = ds_take_name(&one);
    }
    if (!list->t->failed)
        ds_name_sort(m->buffer, m->n_buffers);
}

static void model_take_aliases(const struct zf_take *map, struct ds_model *m)
{
    uint64_t n = zf_pv_is_map(map->v) ? zf_pv_len(map->v) : 0;

    m->n_aliases = (uint32_t)n;
    m->alias = zf_take_room(map->t, n, sizeof *m->alias);
    m->second = zf_take_room(map->t, n, sizeof *m->second);
    for (uint64_t i = 0; i < n && !map->t->failed; i++) {
        const struct zf_take name = zf_take_name(map, i), of = zf_take_item(map, i);

        m->alias[i] = (struct ds_alias){ds_take_name(&name), ds_take_name(&of)};
        m->second[i] = m->alias[i].name;
    }
    if (!map->t->failed)
        ds_name_sort(m->second, m->n_aliases);
}

static void model_take_fragments(struct ds_save *ds, struct zf_torch *t, const struct zf_take *map,
                                 struct ds_model *m)
{
    uint64_t n = zf_pv_is_map(map->v) ? zf_pv_len(map->v) : 0;

    m->n_fragments = (uint32_t)n;
    m->fragment = zf_take_room(map->t, n, sizeof *m->fragment);
    for (uint64_t i = 0; i < n && !map->t->failed; i++) {
        const struct zf_take name = zf_take_name(map, i), one = zf_take_item(map, i);

        m->fragment[i].name = ds_take_name(&name);
        (void)zf_take_tensor(&one, &ds->keep, t, &m->fragment[i].view);
    }
}

struct sorted {
    struct ds_name name;
    uint32_t i;
};

static int model_by_name(const void *a, const void *b)
{
    return ds_name_cmp(((const struct sorted *)a)->name, ((const struct sorted *)b)->name);
}

bool ds_model_index(struct ds_save *ds, struct ds_model *m, struct zf_err *err)
{
    zf_auto(mem) struct sorted *s = malloc((m->n_entries + (size_t)1) * sizeof *s);
    uint32_t *at = zf_arena_get(ds->a, m->n_entries, sizeof *at, err);

    if (!s)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    if (!at)
        return false;
    for (uint32_t i = 0; i < m->n_entries; i++)
        s[i] = (struct sorted){m->entry[i].name, i};
    qsort(s, m->n_entries, sizeof *s, model_by_name);
    for (uint32_t i = 0; i < m->n_entries; i++)
        at[i] = s[i].i;
    m->by_name = at;
    return true;
}

const struct ds_entry *ds_model_find(const struct ds_model *m, struct ds_name name)
{
    size_t i;

    ZF_SEARCH(i, m->n_entries, ds_name_cmp(m->entry[m->by_name[i]].name, name) >= 0);
    const struct ds_entry *e = i < m->n_entries ? &m->entry[m->by_name[i]] : NULL;
    return e && ds_name_eq(e->name, name) ? e : NULL;
}

/* The next parameter of each of the first groups, to find names without a search. */
#define MODEL_CURSORS 8u
struct model_cursors {
    uint32_t at[MODEL_CURSORS];
};

/* The name of an entry of `module`: usually the next name of a group, since the order is the same. */
static struct ds_name model_take_name(const struct ds_model *m, struct model_cursors *c,
                                      const struct zf_take *key)
{
    uint64_t n = 0;
    const char *p = zf_pv_kind(key->v) == ZF_PV_STR ? zf_pv_text(key->v, &n) : NULL;

    for (uint32_t g = 0; p && g < m->n_groups && g < MODEL_CURSORS; g++) {
        const struct ds_shapes *s = &m->group[g];
        const struct ds_name *next = c->at[g] < s->n ? &s->param[c->at[g]].name : NULL;

        if (next && next->n == n && memcmp(next->p, p, n) == 0) {
            c->at[g]++;
            return *next;
        }
    }
    return ds_take_name(key);
}

/* Reads the value of e, whose name is set, from the mapping `where` of file t; *empty as for zf_tensor_ref_read_many. */
static bool model_read_entry(struct ds_save *ds, struct zf_torch *t, const char *where,
                             const struct zf_pv *v, struct zf_source **empty, struct ds_entry *e,
                             struct zf_err *err)
{
    e->tensor = zf_torch_kind(t, v) == ZF_TORCH_DENSE;
    if (!e->tensor || zf_tensor_ref_read_many(&ds->keep, t, v, empty, &e->view, err))
        return true;
    e->tensor = false;
    e->lost = true;
    if (zf_build_degraded(ds->b) && err->code != ZF_E_NOMEM && err->code != ZF_E_LIMIT)
        return zf_leave_out(ds->b, zf_torch_name(t), e->name.p, err);
    return !ds_err_named(err) &&
           (zf_err_in(err, "!%s[\"%.*s\"]", where, ds_name_shown(e->name), e->name.p) ||
            zf_err_in(err, "%s", zf_torch_name(t)));
}

bool ds_entries_room(struct ds_save *ds, struct ds_model *m, uint64_t more, struct zf_err *err)
{
    const uint64_t most = ds->o->lim->tensors, want = m->n_entries + more;

    if (more > most || want > most || want > UINT32_MAX / 2) {
        return zf_fail_limit(err, ZF_LIMIT_tensors, ZF_OFF_NONE,
                             "there are more names than the limit tensors=%llu",
                             (unsigned long long)most);
    }
    if (want <= m->cap_entries)
        return true;
    /* doubled, because an arena cannot free the old array */
    const uint64_t cap = m->n_entries > 0 ? 2 * want : want;
    struct ds_entry *all = zf_arena_get(ds->a, cap, sizeof *all, err);
    if (!all)
        return false;
    if (m->n_entries > 0)
        memcpy(all, m->entry, m->n_entries * sizeof *all);
    m->entry = all;
    m->cap_entries = (uint32_t)cap;
    return true;
}

bool ds_entries_read(struct ds_save *ds, struct zf_torch *t, const struct ds_file *f,
                     struct ds_model *m, struct zf_err *err)
{
    const struct zf_pv *root = zf_torch_root(t);
    uint64_t n = zf_pv_len(root);
    struct zf_source *empty = NULL;
    uint32_t end = m->n_entries;
    bool named = !f; /* the archive's name is checked: once, since a file has only one archive */

    if (!zf_pv_is_map(root)) {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "it does not map names to tensors");
        return zf_err_in(err, "%s", zf_torch_name(t));
    }
    if (!ds_entries_room(ds, m, n, err))
        return false;
    for (uint64_t i = 0; i < n; i++) {
        struct ds_entry *e = &m->entry[end];

        *e = (struct ds_entry){.file = f, .same = end};
        if (!ds_name_of(ds->a, zf_pv_key(root, i), "the file", &e->name, err))
            return zf_err_in(err, "%s", zf_torch_name(t));
        if (!model_read_entry(ds, t, "", zf_pv_val(root, i), &empty, e, err) ||
            (!named && e->tensor && e->view.src &&
             !ds_dir_same_rank(f->path, e->view.src->name, err)))
            return false;
        named = named || (e->tensor && e->view.src);
        end += e->tensor || (f && f->kind == DS_LAYER);
    }
    m->n_entries = end;
    return true;
}

static void model_take_module(struct ds_save *ds, struct zf_torch *t, const struct zf_take *map,
                              struct ds_model *m)
{
    uint64_t n = m->pipeline ? 0 : zf_take_map(map);
    struct model_cursors cursors = {0};
    struct zf_source *empty = NULL;
    struct zf_err err;

    (void)zf_take_most(map, n, ds->o->lim->tensors, ZF_LIMIT_tensors);
    m->n_entries = (uint32_t)n;
    m->entry = zf_take_room(map->t, n, sizeof *m->entry);
    for (uint64_t i = 0; i < n && !map->t->failed; i++) {
        const struct zf_take name = zf_take_name(map, i), one = zf_take_item(map, i);
        struct ds_entry *e = &m->entry[i];

        e->same = (uint32_t)i;
        e->name = model_take_name(m, &cursors, &name);
        if (!map->t->failed && !model_read_entry(ds, t, "module", one.v, &empty, e, &err))
            (void)zf_take_fail(&one, &err);
    }
    if (!map->t->failed && !ds_model_index(ds, m, &err))
        (void)zf_take_fail(map, &err);
}

/* Takes checkpoint_parallel_dimensions, recorded since 0.19.5. */
static void model_take_mesh(const struct zf_take *dims, struct ds_model *m)
{
    static const char *const keys[] = {"tp_degree", "pp_degree"};
    uint32_t *const out[] = {&m->tp, &m->pp};

    for (int i = 0; i < 2 && zf_pv_is_map(dims->v); i++) {
        const struct zf_take one = zf_take_key(dims, keys[i]);
        uint64_t n = zf_take_u64(&one);

        (void)zf_take_must(&one, n > 0 && n <= UINT32_MAX / 2, "%llu is not a number of ranks",
                           (unsigned long long)n);
        *out[i] = (uint32_t)n;
    }
}

/* The layers of AutoEP, under either of their two keys. */
static struct zf_take model_autoep(const struct zf_take *root)
{
    const struct zf_take layers = zf_take_key(root, "ds_autoep_layers");

    return zf_take_given(&layers) ? layers : zf_take_key(root, "autoep_layers");
}

/* Sets minor and patch from "0.minor.patch…". */
static void model_read_version(const struct zf_pv *v, struct ds_model *m)
{
    uint64_t n = 0;
    const char *text = zf_pv_kind(v) == ZF_PV_STR ? zf_pv_text(v, &n) : "";
    char copy[24];
    unsigned minor, patch;

    (void)snprintf(copy, sizeof copy, "%.*s", (int)(n < 20 ? n : 20), text);
    if (sscanf(copy, "0.%4u.%4u", &minor, &patch) == 2) {
        m->minor = minor;
        m->patch = patch;
    }
}

/* Reads counts and flags. */
static void model_read_facts(const struct zf_pv *root, struct ds_model *m)
{
    const struct zf_pv *config = zf_pv_get(root, "ds_config");
    const struct zf_pv *zero = zf_pv_get(config, "zero_optimization");
    int64_t steps;

    m->steps = zf_pv_int(zf_pv_get(root, "global_steps"), &steps) ? steps : -1;
    m->skipped = zf_pv_int(zf_pv_get(root, "skipped_steps"), &steps) ? steps : 0;
    model_read_version(zf_pv_get(root, "ds_version"), m);
    m->zenflow = zf_pv_kind(zf_pv_get(zero, "zenflow")) != ZF_PV_NONE;
    m->mp_world = zf_pv_u64(zf_pv_get(root, "mp_world_size"), &m->mp_world) ? m->mp_world : 0;
    m->pipeline = zf_pv_kind(zf_pv_get(root, "module")) == ZF_PV_NONE;
    m->round_robin = ds_is_true(zf_pv_get(zero, "round_robin_gradients"));
    m->quantized = ds_is_true(zf_pv_get(zero, "zero_quantized_nontrainable_weights"));
    m->super_offload = ds_is_true(zf_pv_get(zf_pv_get(zero, "offload_optimizer"), "super_offload"));
    m->blocks = ds_is_true(zf_pv_get(config, "use_data_before_expert_parallelism"));
    m->moe = zf_pv_kind(zf_pv_get(root, "num_experts")) != ZF_PV_NONE;
}

static bool model_read_root(struct ds_save *ds, struct zf_torch *t, struct ds_model *m,
                            struct zf_err *err)
{
    struct zf_taker taker = {.arena = ds->a};
    const struct zf_take root = zf_take_root(&taker, zf_torch_root(t));
    const struct zf_take module = zf_take_key(&root, "module");
    const struct zf_take shapes = zf_take_key(&root, "param_shapes");
    const struct zf_take frozen = zf_take_key(&root, "frozen_param_shapes");
    const struct zf_take info = zf_take_key(&root, "universal_checkpoint_info");
    const struct zf_take mesh = zf_take_key(&root, "checkpoint_parallel_dimensions");
    const struct zf_take buffers = zf_take_key(&root, "buffer_names");
    const struct zf_take aliases = zf_take_key(&root, "shared_params");
    const struct zf_take fragments = zf_take_key(&root, "frozen_param_fragments");
    const struct zf_take autoep = model_autoep(&root);

    if (!zf_take_must(&root, zf_pv_is_map(root.v) && module.v,
                      "this is not a model-states file: it has no \"module\"") ||
        !zf_take_can(&root, !zf_pv_is_map(zf_pv_get(root.v, "folding")),
                     "AutoEP folded into AutoTP (\"folding\") is not supported: it spreads experts "
                     "over tensor-parallel ranks"))
        return zf_take_ok(&taker, err);
    model_read_facts(root.v, m);
    model_take_mesh(&mesh, m);
    if (!ds_tp_digest(zf_pv_get(info.v, "affine_map"), &m->affine, err))
        (void)zf_take_fail(&info, err);
    m->has_shapes = zf_take_given(&shapes);
    if (m->has_shapes)
        ds_take_shapes(ds, &shapes, &m->group, &m->n_groups);
    if (zf_take_given(&frozen))
        model_take_group(ds, &frozen, &m->frozen);
    model_take_buffers(&buffers, m);
    ds_autoep_take(&autoep, ds->o->lim->tensors, &m->fused, &m->n_fused);
    model_take_aliases(&aliases, m);
    model_take_fragments(ds, t, &fragments, m);
    model_take_module(ds, t, &module, m);
    return zf_take_ok(&taker, err);
}

/* t: the open file; NULL: it could not be opened. */
static bool model_read(struct ds_save *ds, struct zf_torch *t, const struct ds_file *f,
                       struct ds_model *out, struct zf_err *err)
{
    *out = (struct ds_model){.path = f->path};
    if (!t)
        return false;
    ds->files.likely = zf_torch_weight(t);
    out->read = model_read_root(ds, t, out, err);
    return (out->read && (ds->rank->model_values || ds_agree_job(ds, t, f->path, err)) &&
            (ds->shown_model || ds_state_model(ds, t, f->path, err)) &&
            ds_agree_read(ds, t, f->path, true, err)) ||
           (!ds_err_named(err) && zf_err_in(err, "%s", zf_torch_name(t)));
}

bool ds_model_read(struct ds_save *ds, const struct ds_file *f, struct ds_model *out,
                   struct zf_err *err)
{
    zf_auto(torch) struct zf_torch *t = zf_torch_ahead_open(&ds->files, f->path, err);

    return model_read(ds, t, f, out, err);
}

bool ds_model_read_first(struct ds_save *ds, const struct ds_file *f, struct ds_model *out,
                         struct zf_err *err)
{
    zf_auto(torch) struct zf_torch *t = zf_torch_ahead_open_first(&ds->files, f->path, err);

    if (!model_read(ds, t, f, out, err))
        return false;
    ds_agree_remember(ds, t);
    return true;
}
