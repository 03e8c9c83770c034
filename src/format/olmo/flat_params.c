/* SPDX-License-Identifier: Apache-2.0 */
#include "flat_params.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <zf/base/num.h>

#include "save.h"

/* One handle while it is read. */
struct reading {
    struct zf_keeper *k;
    struct zf_torch *t;
    const struct zf_pv *handle;
    struct olmo_flat *out;
};

static const struct zf_pv *flat_get(const struct reading *r, const char *key)
{
    char name[64];

    (void)snprintf(name, sizeof name, "flat_param.%s", key);
    return zf_pv_get(r->handle, name);
}

static bool flat_refuse(struct zf_err *err, const char *key)
{
    return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "\"flat_param.%s\" is missing or not of the form that FSDP writes", key);
}

/* The sequence of that key, which must have n items. */
static const struct zf_pv *flat_seq(const struct reading *r, const char *key, uint64_t n,
                                    struct zf_err *err)
{
    const struct zf_pv *v = flat_get(r, key);

    if (zf_pv_is_seq(v) && zf_pv_len(v) == n) {
        return v;
    }
    if (zf_pv_is_seq(v)) {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                "\"flat_param.%s\" has %" PRIu64 " entries for %" PRIu64 " parameters", key,
                zf_pv_len(v), n);
    } else {
        flat_refuse(err, key);
    }
    return NULL;
}

/* ---- names and shapes ---- */

static bool flat_read_name(const struct reading *r, const char *module, const struct zf_pv *fqn,
                           struct olmo_param *p, struct zf_err *err)
{
    uint64_t n;
    const char *text = zf_pv_kind(fqn) == ZF_PV_STR ? zf_pv_text(fqn, &n) : NULL;
    const char *full =
        text && *module ? zf_arena_fmt(r->k->arena, err, "%s.%s", module, text) : text;

    if (!text) {
        return flat_refuse(err, "_fqns");
    }
    p->name = full ? save_clean_name(r->k->arena, full, strlen(full), err) : NULL;
    return p->name != NULL;
}

static bool flat_read_shape(const struct reading *r, const struct zf_pv *shape,
                            const struct zf_pv *numel, struct olmo_param *p, struct zf_err *err)
{
    const struct zf_pv *size = zf_torch_size(shape);
    uint64_t n = zf_pv_len(size), said;

    if (!size || n > 64 || !zf_pv_u64(numel, &said)) {
        return flat_refuse(err, size && n <= 64 ? "_numels" : "_shapes");
    }
    uint64_t *to = zf_arena_get(r->k->arena, n, sizeof *to, err);
    if (!to) {
        return false;
    }
    p->ndim = (uint32_t)n;
    p->shape = to;
    if (!zf_torch_extents(size, n, to) || !zf_elems(p->ndim, to, &p->len)) {
        return flat_refuse(err, "_shapes");
    }
    return p->len == said ||
           zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "the shape of \"%.100s\" has %" PRIu64 " elements, but \"flat_param._numels\" "
                   "says %" PRIu64,
                   p->name, p->len, said);
}

/* Lays the parameters so that each begins at a multiple of `align` elements, with what is left at the
 * end, and says whether that is what the n entries of v are.  Source: _flat_param.py,
 * _init_flat_param_and_metadata (2.1 ... 2.14). */
static bool flat_pads_are(const struct olmo_flat *f, const struct zf_pv *v, uint64_t align)
{
    uint64_t n = zf_pv_len(v), at = 0, total = 0, len;

    for (uint32_t j = 0; j < f->n; j++) {
        uint64_t pad = (align - total % align) % align;

        if (j > 0) {
            f->param[j - 1].pad = pad;
        }
        if (pad > 0 && (!zf_pv_u64(zf_pv_item(v, at++), &len) || len != pad)) {
            return false;
        }
        if (!zf_pv_u64(zf_pv_item(v, at++), &len) || len != f->param[j].len ||
            !zf_add(total, pad, &total) || !zf_add(total, len, &total)) {
            return false;
        }
    }
    if (f->n > 0) {
        f->param[f->n - 1].pad = 0; /* the end of the vector is padded for the ranks' sake */
    }
    return at == n ||
           (at + 1 == n && f->n > 0 && zf_pv_u64(zf_pv_item(v, at), &f->param[f->n - 1].pad));
}

/* torch >= 2.1 lists what is between the parameters as well, (35, 1, 7, 1, 7), and does not say which
 * entries are padding: each parameter begins at a multiple of 16 bytes. */
static bool flat_read_pads(const struct reading *r, struct zf_err *err)
{
    const struct zf_pv *v = flat_get(r, "_numels_with_padding");
    uint64_t each = zf_dtype_info(r->out->data.dtype)->bytes;

    if (!v) {
        return true;
    }
    if (!zf_pv_is_seq(v)) {
        return flat_refuse(err, "_numels_with_padding");
    }
    if (each <= 16 && flat_pads_are(r->out, v, 16 / each)) {
        return true;
    }
    for (uint64_t align = 1; align <= 16; align *= 2) {
        if (flat_pads_are(r->out, v, align)) {
            return true;
        }
    }
    return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "\"flat_param._numels_with_padding\" is not \"flat_param._numels\" with padding "
                   "in between");
}

/* ---- which part of each parameter is here ---- */

/* Ends are inclusive on disk. */
static bool flat_part_set(struct olmo_param *p, uint64_t at, uint64_t first, uint64_t last,
                          struct zf_err *err)
{
    if (last < first || last >= p->len) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "elements %" PRIu64 " … %" PRIu64
                       " of \"%.100s\" are said to be here, which "
                       "has %" PRIu64,
                       first, last, p->name, p->len);
    }
    p->part = (struct olmo_part){.in = true, .at = at, .first = first, .n = last - first + 1};
    return true;
}

/* torch >= 2.1: (in_shard, offset_in_shard, numel_in_shard, intra_param_start_idx,
 * intra_param_end_idx), a NamedTuple. */
static bool flat_read_info(const struct zf_pv *info, struct olmo_param *p, struct zf_err *err)
{
    const struct zf_pv *in = zf_pv_arg(info, 0);
    uint64_t at, n, first, last;
    bool here;

    if (!zf_pv_is(info, NULL, "_ShardParamInfo") || !zf_pv_bool(in, &here)) {
        return flat_refuse(err, "_shard_param_infos");
    }
    if (!here) {
        return true;
    }
    if (!zf_pv_u64(zf_pv_arg(info, 1), &at) || !zf_pv_u64(zf_pv_arg(info, 2), &n) ||
        !zf_pv_u64(zf_pv_arg(info, 3), &first) || !zf_pv_u64(zf_pv_arg(info, 4), &last)) {
        return flat_refuse(err, "_shard_param_infos");
    }
    if (p->len == 0) { /* nothing can be here of nothing */
        return true;
    }
    return flat_part_set(p, at, first, last, err) &&
           (p->part.n == n || zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                                      "\"%.100s\" is said to have %" PRIu64
                                      " elements here, from %" PRIu64 " to %" PRIu64,
                                      p->name, n, first, last));
}

static bool flat_read_infos(const struct reading *r, struct zf_err *err)
{
    const struct zf_pv *infos = flat_seq(r, "_shard_param_infos", r->out->n, err);

    for (uint32_t j = 0; infos && j < r->out->n; j++) {
        if (!flat_read_info(zf_pv_item(infos, j), &r->out->param[j], err)) {
            return false;
        }
    }
    return infos != NULL;
}

/* torch <= 2.0.1: (start, end) of the parameters from the first to the last index only, one behind
 * the other in the shard. */
static bool flat_read_offsets(const struct reading *r, struct zf_err *err)
{
    const struct zf_pv *offs = flat_get(r, "_shard_param_offsets");
    const struct zf_pv *which = flat_get(r, "_shard_indices");
    uint64_t n = zf_pv_len(offs), j, last, from, to, at = 0;

    if (!zf_pv_is_seq(offs)) {
        return flat_refuse(err, "_shard_param_offsets");
    }
    if (n == 0) { /* nothing but padding: the indices are (0, 0) then */
        return true;
    }
    if (!zf_pv_u64(zf_pv_item(which, 0), &j) || !zf_pv_u64(zf_pv_item(which, 1), &last) ||
        last < j || last >= r->out->n || last - j + 1 != n) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "\"flat_param._shard_indices\" does not name the %" PRIu64 " of %" PRIu32
                       " parameters that \"flat_param._shard_param_offsets\" describes",
                       n, r->out->n);
    }
    for (uint64_t i = 0; i < n; i++, j++) {
        struct olmo_param *p = &r->out->param[j];
        const struct zf_pv *pair = zf_pv_item(offs, i);

        if (!zf_pv_u64(zf_pv_item(pair, 0), &from) || !zf_pv_u64(zf_pv_item(pair, 1), &to)) {
            return flat_refuse(err, "_shard_param_offsets");
        }
        if (!flat_part_set(p, at, from, to, err)) {
            return false;
        }
        at += p->part.n; /* at most the sum of lengths, which fits */
    }
    return true;
}

/* ---- a handle ---- */

static bool flat_read_data(const struct reading *r, struct zf_err *err)
{
    struct zf_tensor_ref *d = &r->out->data;

    if (!zf_tensor_ref_read(r->k, r->t, flat_get(r, "data"), d, err)) {
        return zf_err_in(err, "flat_param.data");
    }
    return (d->ndim == 1 && d->packed) || flat_refuse(err, "data");
}

static bool flat_parts_fit(const struct olmo_flat *f, struct zf_err *err)
{
    for (uint32_t j = 0; j < f->n; j++) {
        const struct olmo_param *p = &f->param[j];

        if (p->part.in && !zf_within(p->part.at, p->part.n, f->data.n)) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "\"%.100s\" is said to have %" PRIu64 " elements at %" PRIu64
                           " of a shard of %" PRIu64,
                           p->name, p->part.n, p->part.at, f->data.n);
        }
    }
    return true;
}

static bool flat_read_handle(const struct reading *r, const char *module, struct zf_err *err)
{
    const struct zf_pv *fqns = flat_get(r, "_fqns");
    uint64_t n = zf_pv_len(fqns), total = 0;

    if (!zf_pv_is_seq(fqns) || n > UINT32_MAX) {
        return flat_refuse(err, "_fqns");
    }
    const struct zf_pv *shapes = flat_seq(r, "_shapes", n, err);
    const struct zf_pv *numels = shapes ? flat_seq(r, "_numels", n, err) : NULL;
    r->out->param = numels ? zf_arena_get(r->k->arena, n, sizeof *r->out->param, err) : NULL;
    if (!r->out->param) {
        return false;
    }
    r->out->n = (uint32_t)n;
    for (uint32_t j = 0; j < n; j++) {
        struct olmo_param *p = &r->out->param[j];

        if (!flat_read_name(r, module, zf_pv_item(fqns, j), p, err) ||
            !flat_read_shape(r, zf_pv_item(shapes, j), zf_pv_item(numels, j), p, err)) {
            return false;
        }
        if (!zf_add(total, p->len, &total)) {
            return flat_refuse(err, "_numels");
        }
    }
    return flat_read_data(r, err) && flat_read_pads(r, err) &&
           (flat_get(r, "_shard_param_infos") ? flat_read_infos(r, err)
                                              : flat_read_offsets(r, err)) &&
           flat_parts_fit(r->out, err);
}

/* ---- the file ---- */

static bool flat_read_module(struct zf_keeper *k, struct zf_torch *t, const struct zf_pv *module,
                             struct olmo_flats *out, struct zf_err *err)
{
    const struct zf_pv *handles = zf_pv_get(module, "handles"), *name = zf_pv_get(module, "name");
    uint64_t len;
    const char *text = zf_pv_kind(name) == ZF_PV_STR ? zf_pv_text(name, &len) : NULL;

    if (!text || !zf_pv_is_seq(handles)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "a module without \"name\" and \"handles\" is not what OLMo writes");
    }
    for (uint64_t h = 0; h < zf_pv_len(handles); h++) {
        struct reading r = {
            .k = k, .t = t, .handle = zf_pv_item(handles, h), .out = &out->flat[out->n]};

        if (!flat_read_handle(&r, text, err)) {
            return zf_err_in(err, "modules!%.100s!handles[%" PRIu64 "]", text, h);
        }
        out->n_params += r.out->n;
        out->n++;
    }
    return true;
}

bool flat_params_read(struct zf_keeper *k, struct zf_torch *t, struct olmo_flats *out,
                      struct zf_err *err)
{
    const struct zf_pv *modules = zf_pv_get(zf_torch_root(t), "modules");
    uint64_t n = 0;

    *out = (struct olmo_flats){0};
    if (!zf_pv_is_seq(modules)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "there is no list of \"modules\", as OLMo's local checkpoints have");
    }
    for (uint64_t m = 0; m < zf_pv_len(modules); m++) {
        n += zf_pv_len(zf_pv_get(zf_pv_item(modules, m), "handles"));
    }
    if (n > UINT32_MAX) {
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "%" PRIu64 " flat parameters are too many", n);
    }
    out->flat = zf_arena_get(k->arena, n, sizeof *out->flat, err);
    for (uint64_t m = 0; out->flat && m < zf_pv_len(modules); m++) {
        if (!flat_read_module(k, t, zf_pv_item(modules, m), out, err)) {
            return false;
        }
    }
    return out->flat != NULL;
}

/* ---- two files ---- */

static bool flat_same_param(const struct olmo_param *a, const struct olmo_param *b)
{
    return strcmp(a->name, b->name) == 0 && zf_shape_equal(a->ndim, a->shape, b->ndim, b->shape);
}

static bool flat_agree(const struct olmo_flat *f, const struct olmo_flat *first, const char *path,
                       struct zf_err *err)
{
    for (uint32_t j = 0; j < f->n && j < first->n; j++) {
        if (!flat_same_param(&f->param[j], &first->param[j])) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "it has \"%.80s\" where %.60s has \"%.80s\", or another shape of it",
                           f->param[j].name, path, first->param[j].name);
        }
    }
    if (f->n != first->n || f->data.n != first->data.n || f->data.dtype != first->data.dtype) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "a flat parameter has %" PRIu32 " parameters and a shard of %" PRIu64
                       " elements of %s, in %.60s it has %" PRIu32 " and %" PRIu64 " of %s",
                       f->n, f->data.n, zf_dtype_info(f->data.dtype)->torch, path, first->n,
                       first->data.n, zf_dtype_info(first->data.dtype)->torch);
    }
    for (uint32_t j = 0; j < f->n; j++) {
        if (f->param[j].pad != first->param[j].pad) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "behind \"%.80s\" there is padding of %" PRIu64 " elements, in %.60s of "
                           "%" PRIu64,
                           f->param[j].name, f->param[j].pad, path, first->param[j].pad);
        }
    }
    return true;
}

bool flat_params_agree(const struct olmo_flats *f, const struct olmo_flats *first,
                       const char *first_path, struct zf_err *err)
{
    if (f->n != first->n) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "it has %" PRIu32 " flat parameters, %.100s has %" PRIu32, f->n, first_path,
                       first->n);
    }
    for (uint32_t i = 0; i < f->n; i++) {
        if (!flat_agree(&f->flat[i], &first->flat[i], first_path, err)) {
            return false;
        }
    }
    return true;
}
