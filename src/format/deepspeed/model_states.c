/* SPDX-License-Identifier: Apache-2.0 */
/* Model-states files: names, shapes and order of the parameters, and what has no flat vector.
 * Source: deepspeed/runtime/engine.py (_save_checkpoint, _get_zero_param_shapes,
 * _get_zero_frozen_param_attributes, _get_shared_params), 0.6.0 … 0.19.8. */
#include "model_states.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/assemble/degraded.h>
#include <zf/base/num.h>

#include "agree.h"
#include "extra_state.h"
#include "tp_digest.h"

/* A torch.Size, tuple or list of extents. */
static bool model_read_shape(struct ds_save *ds, const struct zf_pv *v, struct ds_param *p,
                             struct zf_err *err)
{
    const struct zf_pv *size = zf_torch_size(v);
    uint64_t n = zf_pv_len(size);
    uint64_t *shape;

    if (!size) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "the shape of \"%.*s\" is not a torch.Size",
                       (int)p->name.n, p->name.p);
    }
    if (n > ds->o->lim->tensor_dims) {
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE,
                       "\"%.*s\" has %llu dimensions, more than tensor_dims = %llu", (int)p->name.n,
                       p->name.p, (unsigned long long)n,
                       (unsigned long long)ds->o->lim->tensor_dims);
    }
    shape = zf_arena_get(ds->a, n, sizeof *shape, err);
    if (shape && !zf_torch_extents(size, n, shape)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "an extent of \"%.*s\" is not a number >= 0",
                       (int)p->name.n, p->name.p);
    }
    p->shape = shape;
    p->ndim = (uint32_t)n;
    if (shape && !zf_elems(p->ndim, shape, &p->n)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "the extents of \"%.*s\" multiply beyond 64 bits", (int)p->name.n,
                       p->name.p);
    }
    return shape != NULL;
}

static bool model_read_group(struct ds_save *ds, const struct zf_pv *map, const char *what,
                             struct ds_shapes *out, struct zf_err *err)
{
    uint64_t n = zf_pv_len(map);

    if (!zf_pv_is_map(map) && n > 0) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "%s is not a mapping of names to shapes",
                       what);
    }
    if (n > ds->o->lim->tensors) {
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "%s has %llu names, more than tensors = %llu",
                       what, (unsigned long long)n, (unsigned long long)ds->o->lim->tensors);
    }
    out->n = (uint32_t)n;
    out->param = zf_arena_get(ds->a, n, sizeof *out->param, err);
    for (uint64_t i = 0; out->param && i < n; i++) {
        if (!ds_name_of(ds->a, zf_pv_key(map, i), what, &out->param[i].name, err) ||
            !model_read_shape(ds, zf_pv_val(map, i), &out->param[i], err)) {
            return false;
        }
    }
    return out->param != NULL;
}

bool ds_model_shapes(struct ds_save *ds, const struct zf_pv *v, struct ds_shapes **out,
                     uint32_t *n_out, struct zf_err *err)
{
    bool list = zf_pv_is_seq(v) && !zf_pv_is_map(v);
    uint64_t n = list ? zf_pv_len(v) : 1;

    if (!list && !zf_pv_is_map(v)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "param_shapes is neither a list nor a mapping");
    }
    *out = zf_arena_get(ds->a, n, sizeof **out, err);
    *n_out = (uint32_t)n;
    for (uint64_t g = 0; *out && g < n; g++) {
        if (!model_read_group(ds, list ? zf_pv_item(v, g) : v, "param_shapes", &(*out)[g], err)) {
            return false;
        }
    }
    return *out != NULL;
}

static bool model_read_names(struct ds_save *ds, const struct zf_pv *v, struct ds_model *m,
                             struct zf_err *err)
{
    uint64_t n = zf_pv_len(v);

    m->has_buffers = v && zf_pv_kind(v) != ZF_PV_NONE;
    m->n_buffers = (uint32_t)n;
    m->buffer = zf_arena_get(ds->a, n, sizeof *m->buffer, err);
    for (uint64_t i = 0; m->buffer && i < n; i++) {
        if (!ds_name_of(ds->a, zf_pv_item(v, i), "buffer_names", &m->buffer[i], err)) {
            return false;
        }
    }
    if (m->buffer) {
        ds_name_sort(m->buffer, m->n_buffers);
    }
    return m->buffer != NULL;
}

static bool model_read_aliases(struct ds_save *ds, const struct zf_pv *v, struct ds_model *m,
                               struct zf_err *err)
{
    uint64_t n = zf_pv_is_map(v) ? zf_pv_len(v) : 0;

    m->n_aliases = (uint32_t)n;
    m->alias = zf_arena_get(ds->a, n, sizeof *m->alias, err);
    m->second = zf_arena_get(ds->a, n, sizeof *m->second, err);
    for (uint64_t i = 0; m->alias && m->second && i < n; i++) {
        if (!ds_name_of(ds->a, zf_pv_key(v, i), "shared_params", &m->alias[i].name, err) ||
            !ds_name_of(ds->a, zf_pv_val(v, i), "shared_params", &m->alias[i].of, err)) {
            return false;
        }
        m->second[i] = m->alias[i].name;
    }
    if (m->second) {
        ds_name_sort(m->second, m->n_aliases);
    }
    return m->alias && m->second;
}

static bool model_read_fragments(struct ds_save *ds, struct zf_torch *t, const struct zf_pv *v,
                                 struct ds_model *m, struct zf_err *err)
{
    uint64_t n = zf_pv_is_map(v) ? zf_pv_len(v) : 0;

    m->n_fragments = (uint32_t)n;
    m->fragment = zf_arena_get(ds->a, n, sizeof *m->fragment, err);
    for (uint64_t i = 0; m->fragment && i < n; i++) {
        struct ds_entry *f = &m->fragment[i];

        if (!ds_name_of(ds->a, zf_pv_key(v, i), "frozen_param_fragments", &f->name, err)) {
            return false;
        }
        if (!zf_tensor_ref_read(&ds->keep, t, zf_pv_val(v, i), &f->view, err)) {
            return !ds_err_named(err) &&
                   zf_err_in(err, "!frozen_param_fragments[\"%.*s\"]", (int)f->name.n, f->name.p);
        }
    }
    return m->fragment != NULL;
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

    if (!s) {
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    }
    if (!at) {
        return false;
    }
    for (uint32_t i = 0; i < m->n_entries; i++) {
        s[i] = (struct sorted){m->entry[i].name, i};
    }
    qsort(s, m->n_entries, sizeof *s, model_by_name);
    for (uint32_t i = 0; i < m->n_entries; i++) {
        at[i] = s[i].i;
    }
    m->by_name = at;
    return true;
}

const struct ds_entry *ds_model_find(const struct ds_model *m, struct ds_name name)
{
    uint32_t lo = 0, hi = m->n_entries;

    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        const struct ds_entry *e = &m->entry[m->by_name[mid]];
        int c = ds_name_cmp(e->name, name);

        if (c == 0) {
            return e;
        }
        if (c < 0) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return NULL;
}

/* The parameters that come next in the groups, as far as the groups are few. */
#define MODEL_CURSORS 8u
struct model_cursors {
    uint32_t at[MODEL_CURSORS];
};

/* The name of an entry of `module`: mostly one of the groups', which have the parameters in the same order. */
static bool model_entry_name(struct ds_save *ds, const struct ds_model *m, struct model_cursors *c,
                             const struct zf_pv *key, struct ds_name *out, struct zf_err *err)
{
    uint64_t n = 0;
    const char *p = zf_pv_kind(key) == ZF_PV_STR ? zf_pv_text(key, &n) : NULL;

    for (uint32_t g = 0; p && g < m->n_groups && g < MODEL_CURSORS; g++) {
        const struct ds_shapes *s = &m->group[g];
        const struct ds_name *next = c->at[g] < s->n ? &s->param[c->at[g]].name : NULL;

        if (next && next->n == n && memcmp(next->p, p, n) == 0) {
            c->at[g]++;
            *out = *next;
            return true;
        }
    }
    return ds_name_of(ds->a, key, "\"module\"", out, err);
}

bool ds_entry_read(struct ds_save *ds, struct zf_torch *t, const char *where, const struct zf_pv *v,
                   struct zf_source **empty, struct ds_entry *e, struct zf_err *err)
{
    e->tensor = zf_torch_kind(t, v) == ZF_TORCH_DENSE;
    if (!e->tensor || zf_tensor_ref_read_many(&ds->keep, t, v, empty, &e->view, err)) {
        return true;
    }
    e->tensor = false;
    e->lost = true;
    if (zf_build_degraded(ds->b) && err->code != ZF_E_NOMEM && err->code != ZF_E_LIMIT) {
        return zf_leave_out(ds->b, zf_torch_name(t), e->name.p, err);
    }
    return !ds_err_named(err) &&
           (zf_err_in(err, "!%s[\"%.*s\"]", where, ds_name_shown(e->name), e->name.p) ||
            zf_err_in(err, "%s", zf_torch_name(t)));
}

static bool model_read_module(struct ds_save *ds, struct zf_torch *t, const struct zf_pv *v,
                              struct ds_model *m, struct zf_err *err)
{
    uint64_t n = zf_pv_len(v);
    struct model_cursors cursors = {0};
    struct zf_source *empty = NULL;

    if (!zf_pv_is_map(v) && n > 0) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "\"module\" is not a mapping of names");
    }
    if (n > ds->o->lim->tensors) {
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE,
                       "\"module\" has %llu names, more than tensors = %llu", (unsigned long long)n,
                       (unsigned long long)ds->o->lim->tensors);
    }
    m->n_entries = (uint32_t)n;
    m->entry = zf_arena_get(ds->a, n, sizeof *m->entry, err);
    for (uint64_t i = 0; m->entry && i < n; i++) {
        struct ds_entry *e = &m->entry[i];

        if (!model_entry_name(ds, m, &cursors, zf_pv_key(v, i), &e->name, err)) {
            return false;
        }
        if (!ds_entry_read(ds, t, "module", zf_pv_val(v, i), &empty, e, err)) {
            return false;
        }
    }
    return m->entry && ds_model_index(ds, m, err);
}

/* checkpoint_parallel_dimensions, since 0.19.5. */
static bool model_read_mesh(const struct zf_pv *root, struct ds_model *m, struct zf_err *err)
{
    const struct zf_pv *dims = zf_pv_get(root, "checkpoint_parallel_dimensions");
    uint64_t tp, pp;

    if (!zf_pv_is_map(dims)) {
        return true;
    }
    if (!zf_pv_u64(zf_pv_get(dims, "tp_degree"), &tp) || tp == 0 || tp > UINT32_MAX / 2 ||
        !zf_pv_u64(zf_pv_get(dims, "pp_degree"), &pp) || pp == 0 || pp > UINT32_MAX / 2) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "the degrees in checkpoint_parallel_dimensions are not numbers > 0");
    }
    m->tp = (uint32_t)tp;
    m->pp = (uint32_t)pp;
    return true;
}

/* The layers of AutoEP, under one of the two names they had. */
static const struct zf_pv *model_autoep(const struct zf_pv *root)
{
    const struct zf_pv *v = zf_pv_get(root, "ds_autoep_layers");

    return zf_pv_kind(v) != ZF_PV_NONE ? v : zf_pv_get(root, "autoep_layers");
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

static bool model_read_root(struct ds_save *ds, struct zf_torch *t, struct ds_model *m,
                            struct zf_err *err)
{
    const struct zf_pv *root = zf_torch_root(t);
    const struct zf_pv *shapes = zf_pv_get(root, "param_shapes");
    const struct zf_pv *frozen = zf_pv_get(root, "frozen_param_shapes");
    const struct zf_pv *zero = zf_pv_get(zf_pv_get(root, "ds_config"), "zero_optimization");
    int64_t steps;

    if (!zf_pv_is_map(root) || !zf_pv_get(root, "module")) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "not a model-states file: there is no \"module\" in it");
    }
    if (zf_pv_is_map(zf_pv_get(root, "folding"))) {
        return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                       "AutoEP folded into AutoTP (\"folding\") is not supported: its experts are "
                       "spread over tensor-parallel ranks as well");
    }
    m->steps = zf_pv_int(zf_pv_get(root, "global_steps"), &steps) ? steps : -1;
    m->skipped = zf_pv_int(zf_pv_get(root, "skipped_steps"), &steps) ? steps : 0;
    model_read_version(zf_pv_get(root, "ds_version"), m);
    m->zenflow = zf_pv_kind(zf_pv_get(zero, "zenflow")) != ZF_PV_NONE;
    m->mp_world = zf_pv_u64(zf_pv_get(root, "mp_world_size"), &m->mp_world) ? m->mp_world : 0;
    m->pipeline = zf_pv_kind(zf_pv_get(root, "module")) == ZF_PV_NONE;
    m->round_robin = ds_is_true(zf_pv_get(zero, "round_robin_gradients"));
    m->quantized = ds_is_true(zf_pv_get(zero, "zero_quantized_nontrainable_weights"));
    m->super_offload = ds_is_true(zf_pv_get(zf_pv_get(zero, "offload_optimizer"), "super_offload"));
    m->blocks =
        ds_is_true(zf_pv_get(zf_pv_get(root, "ds_config"), "use_data_before_expert_parallelism"));
    m->moe = zf_pv_kind(zf_pv_get(root, "num_experts")) != ZF_PV_NONE;
    m->has_shapes = zf_pv_kind(shapes) != ZF_PV_NONE;
    return model_read_mesh(root, m, err) &&
           ds_tp_digest(zf_pv_get(zf_pv_get(root, "universal_checkpoint_info"), "affine_map"),
                        &m->affine, err) &&
           (!m->has_shapes || ds_model_shapes(ds, shapes, &m->group, &m->n_groups, err)) &&
           (zf_pv_kind(frozen) == ZF_PV_NONE ||
            model_read_group(ds, frozen, "frozen_param_shapes", &m->frozen, err)) &&
           model_read_names(ds, zf_pv_get(root, "buffer_names"), m, err) &&
           ds_autoep_read(ds, model_autoep(root), &m->fused, &m->n_fused, err) &&
           model_read_aliases(ds, zf_pv_get(root, "shared_params"), m, err) &&
           model_read_fragments(ds, t, zf_pv_get(root, "frozen_param_fragments"), m, err) &&
           model_read_module(ds, t, zf_pv_get(root, "module"), m, err);
}

/* t: the open file; NULL: it could not be opened. */
static bool model_read(struct ds_save *ds, struct zf_torch *t, const struct ds_file *f,
                       struct ds_model *out, struct zf_err *err)
{
    *out = (struct ds_model){.path = f->path};
    if (!t) {
        return false;
    }
    ds->files.likely = zf_torch_weight(t);
    out->read = model_read_root(ds, t, out, err);
    return (out->read && (ds->said_model || ds_agree_job(ds, t, f->path, err)) &&
            (ds->told_model || ds_state_model(ds, t, f->path, err)) &&
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

    if (!model_read(ds, t, f, out, err)) {
        return false;
    }
    ds_agree_remember(ds, t);
    return true;
}
