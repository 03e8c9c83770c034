/* SPDX-License-Identifier: Apache-2.0 */
/* Reads one rank's model file of OLMo's "local" layout: its shards of FSDP's flat parameters,
 * and where the parameters are in them.
 *
 * {"modules": [{"name": text, "handles": [{"flat_param.data": vector, …}, …]}, …]}.
 * Source: olmo/checkpoint.py, LocalShardedCheckpointer (0.2 … 0.6); torch/distributed/fsdp/
 * flat_param.py (1.13 … 2.0), _flat_param.py (2.2 … 2.14). */
#include "local_lay.h"

#include <inttypes.h>
#include <string.h>

#include <zf/assemble/take.h>
#include <zf/base/num.h>

#include "save.h"

/* A key of a handle's state dict. */
#define FLAT(key) "flat_param." key

/* A handle that is being read. */
struct reading {
    struct zf_keeper *k;
    struct zf_torch *t;
    const struct zf_take *handle;
    struct olmo_flat *out;
};

/* ---- names and shapes ---- */

static const char *flat_take_name(const struct reading *r, const char *module,
                                  const struct zf_take *fqn)
{
    struct zf_err err;
    const char *text = zf_take_text(fqn, NULL), *name = NULL;
    const char *full = *module ? zf_arena_fmt(r->k->arena, &err, "%s.%s", module, text) : text;

    if (!full || !(name = save_clean_name(r->k->arena, full, strlen(full), &err)))
        (void)zf_take_fail(fqn, &err);
    return name;
}

static void flat_take_shape(const struct zf_take *shape, const struct zf_take *numel,
                            struct olmo_param *p)
{
    uint64_t n = zf_take_u64(numel);

    p->shape = zf_take_sizes(shape, &p->ndim);
    (void)(zf_take_must(shape, zf_elems(p->ndim, p->shape, &p->len),
                        "the product of its sizes exceeds 64 bits") &&
           zf_take_must(numel, shape->t->failed || p->len == n,
                        "the shape of \"%.100s\" has %" PRIu64
                        " elements, but here it has %" PRIu64,
                        p->name, p->len, n));
}

/* True if the entries of v are the lengths of the parameters and of the padding that makes each begin at a
 * multiple of `align` elements, with any further padding at the end; sets the pads.  Source:
 * _flat_param.py, _init_flat_param_and_metadata (2.1 ... 2.14). */
static bool flat_pads_are(const struct olmo_flat *f, const struct zf_pv *v, uint64_t align)
{
    uint64_t n = zf_pv_len(v), at = 0, total = 0, len;

    for (uint32_t j = 0; j < f->n; j++) {
        uint64_t pad = (align - total % align) % align;

        if (j > 0)
            f->param[j - 1].pad = pad;
        if (pad > 0 && (!zf_pv_u64(zf_pv_item(v, at++), &len) || len != pad))
            return false;
        if (!zf_pv_u64(zf_pv_item(v, at++), &len) || len != f->param[j].len ||
            !zf_add(total, pad, &total) || !zf_add(total, len, &total))
            return false;
    }
    if (f->n > 0)
        f->param[f->n - 1].pad =
            0; /* padding at the end only makes the ranks' shards equally long */
    return at == n ||
           (at + 1 == n && f->n > 0 && zf_pv_u64(zf_pv_item(v, at), &f->param[f->n - 1].pad));
}

/* torch >= 2.1 also lists the padding between parameters, (35, 1, 7, 1, 7), without saying which entries
 * are padding: each parameter begins at a multiple of 16 bytes. */
static void flat_take_pads(const struct reading *r)
{
    struct zf_take pads = zf_take_key(r->handle, FLAT("_numels_with_padding"));
    uint64_t each = zf_dtype_info(r->out->data.dtype)->bytes;

    if (!pads.v)
        return;
    (void)zf_take_list(&pads);
    bool fit = !pads.t->failed && each <= 16 && flat_pads_are(r->out, pads.v, 16 / each);
    for (uint64_t align = 1; align <= 16 && !fit && !pads.t->failed; align *= 2)
        fit = flat_pads_are(r->out, pads.v, align);
    (void)zf_take_must(&pads, fit,
                       "it does not match \"flat_param._numels\" with padding in between");
}

/* ---- which part of each parameter is in this shard ---- */

/* Sets the part of a parameter; `last` is inclusive, as in the file. */
static void flat_take_part(const struct reading *r, const struct zf_take *x, struct olmo_param *p,
                           uint64_t at, uint64_t first, uint64_t last)
{
    uint64_t n = last - first + 1;

    if (zf_take_must(x, first <= last && last < p->len,
                     "this shard should hold elements %" PRIu64 " … %" PRIu64
                     " of \"%.100s\", which has %" PRIu64,
                     first, last, p->name, p->len) &&
        zf_take_must(x, zf_within(at, n, r->out->data.n),
                     "\"%.100s\" should have %" PRIu64 " elements at %" PRIu64
                     " of a shard of %" PRIu64,
                     p->name, n, at, r->out->data.n))
        p->part = (struct olmo_part){.in = true, .at = at, .first = first, .n = n};
}

/* torch >= 2.1: (in_shard, offset_in_shard, numel_in_shard, intra_param_start_idx,
 * intra_param_end_idx), a NamedTuple. */
static void flat_take_info(const struct reading *r, const struct zf_take *info,
                           struct olmo_param *p)
{
    struct zf_take in = zf_take_item(info, 0), at = zf_take_item(info, 1),
                   n = zf_take_item(info, 2), first = zf_take_item(info, 3),
                   last = zf_take_item(info, 4);

    if (!zf_take_call(info, "_ShardParamInfo") || !zf_take_bool(&in))
        return;
    uint64_t here = zf_take_u64(&n), from = zf_take_u64(&first), to = zf_take_u64(&last);
    uint64_t place = zf_take_u64(&at);
    if (p->len == 0 || info->t->failed) /* an empty parameter has no part */
        return;
    flat_take_part(r, info, p, place, from, to);
    (void)zf_take_must(info, p->part.n == here,
                       "\"%.100s\" should have %" PRIu64 " elements here, from %" PRIu64
                       " to %" PRIu64,
                       p->name, here, from, to);
}

/* torch <= 2.0.1: (start, end) only of the parameters from the first to the last index, which are
 * consecutive in the shard. */
static void flat_take_offsets(const struct reading *r)
{
    struct zf_take offsets = zf_take_key(r->handle, FLAT("_shard_param_offsets"));
    struct zf_take which = zf_take_key(r->handle, FLAT("_shard_indices"));
    uint64_t n = zf_take_list(&offsets), at = 0;

    if (n == 0) /* only padding: then the indices are (0, 0) */
        return;
    struct zf_take first = zf_take_item(&which, 0), last = zf_take_item(&which, 1);
    uint64_t j = zf_take_u64(&first), end = zf_take_u64(&last);
    if (!zf_take_must(&which, which.t->failed || (j <= end && end < r->out->n && end - j + 1 == n),
                      "it does not list the %" PRIu64 " of %" PRIu32
                      " parameters that \"flat_param._shard_param_offsets\" describes",
                      n, r->out->n))
        return;
    for (uint64_t i = 0; i < n && !which.t->failed; i++, j++) {
        struct zf_take pair = zf_take_item(&offsets, i), from = zf_take_item(&pair, 0),
                       to = zf_take_item(&pair, 1);
        uint64_t begin = zf_take_u64(&from), inclusive = zf_take_u64(&to);

        if (!pair.t->failed)
            flat_take_part(r, &pair, &r->out->param[j], at, begin, inclusive);
        at += r->out->param[j].part.n; /* at most the sum of lengths, which fits */
    }
}

/* ---- a handle ---- */

static void flat_take_params(const struct reading *r, const char *module)
{
    struct zf_take fqns = zf_take_key(r->handle, FLAT("_fqns"));
    struct zf_take shapes = zf_take_key(r->handle, FLAT("_shapes"));
    struct zf_take numels = zf_take_key(r->handle, FLAT("_numels"));
    uint64_t n = zf_take_list(&fqns), total = 0;

    if (!zf_take_must(&fqns, n <= UINT32_MAX, "there are %" PRIu64 " parameters, too many", n) ||
        !zf_take_list_of(&shapes, n) || !zf_take_list_of(&numels, n))
        return;
    r->out->param = zf_take_room(fqns.t, n, sizeof *r->out->param);
    r->out->n = (uint32_t)n;
    for (uint32_t j = 0; j < n && !fqns.t->failed; j++) {
        struct olmo_param *p = &r->out->param[j];
        struct zf_take fqn = zf_take_item(&fqns, j), shape = zf_take_item(&shapes, j),
                       numel = zf_take_item(&numels, j);

        p->name = flat_take_name(r, module, &fqn);
        flat_take_shape(&shape, &numel, p);
        (void)zf_take_must(&numels, zf_add(total, p->len, &total), "their sum exceeds 64 bits");
    }
}

static void flat_take_handle(const struct reading *r, const char *module)
{
    struct zf_take data = zf_take_key(r->handle, FLAT("data"));
    struct zf_take infos = zf_take_key(r->handle, FLAT("_shard_param_infos"));

    flat_take_params(r, module);
    if (!zf_take_tensor(&data, r->k, r->t, &r->out->data) ||
        !zf_take_must(&data, r->out->data.ndim == 1 && r->out->data.packed,
                      "expected a packed tensor of one dimension, found %" PRIu32,
                      r->out->data.ndim))
        return;
    flat_take_pads(r);
    if (!infos.v) {
        flat_take_offsets(r);
    } else if (zf_take_list_of(&infos, r->out->n)) {
        for (uint32_t j = 0; j < r->out->n && !infos.t->failed; j++) {
            struct zf_take info = zf_take_item(&infos, j);

            flat_take_info(r, &info, &r->out->param[j]);
        }
    }
}

/* ---- the file ---- */

static void flat_take_module(const struct reading *file, const struct zf_take *module,
                             struct olmo_flats *out)
{
    struct zf_take name = zf_take_key(module, "name"), handles = zf_take_key(module, "handles");
    const char *text = zf_take_text(&name, NULL);

    for (uint64_t i = 0, n = zf_take_list(&handles); i < n && !handles.t->failed; i++) {
        struct zf_take handle = zf_take_item(&handles, i);
        struct reading r = *file;

        r.handle = &handle;
        r.out = &out->flat[out->n++];
        flat_take_handle(&r, text);
        out->n_params += r.out->n;
    }
}

bool flat_params_read(struct zf_keeper *k, struct zf_torch *t, struct olmo_flats *out,
                      struct zf_err *err)
{
    struct zf_taker taker = {.arena = k->arena};
    struct zf_take root = zf_take_root(&taker, zf_torch_root(t));
    struct zf_take modules = zf_take_key(&root, "modules");
    const struct reading file = {.k = k, .t = t};
    uint64_t n_modules = zf_take_list(&modules), n = 0;

    *out = (struct olmo_flats){0};
    for (uint64_t m = 0; m < n_modules; m++)
        n += zf_pv_len(zf_pv_get(zf_pv_item(modules.v, m), "handles"));
    (void)zf_take_must(&modules, n <= UINT32_MAX, "there are %" PRIu64 " flat parameters, too many",
                       n);
    out->flat = zf_take_room(&taker, n, sizeof *out->flat);
    for (uint64_t m = 0; m < n_modules && !taker.failed; m++) {
        struct zf_take module = zf_take_item(&modules, m);

        flat_take_module(&file, &module, out);
    }
    return zf_take_ok(&taker, err);
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
            return zf_fail(
                err, ZF_E_FORMAT, ZF_OFF_NONE,
                "its parameter \"%.80s\" differs in name or shape from the one in %.60s, \"%.80s\"",
                f->param[j].name, path, first->param[j].name);
        }
    }
    if (f->n != first->n || f->data.n != first->data.n || f->data.dtype != first->data.dtype) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "a flat parameter has %" PRIu32 " parameters and a shard of %" PRIu64
                       " elements of %s, but in %.60s it has %" PRIu32 " and %" PRIu64 " of %s",
                       f->n, f->data.n, zf_dtype_info(f->data.dtype)->torch, path, first->n,
                       first->data.n, zf_dtype_info(first->data.dtype)->torch);
    }
    for (uint32_t j = 0; j < f->n; j++) {
        if (f->param[j].pad != first->param[j].pad) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "\"%.80s\" is followed by padding of %" PRIu64
                           " elements, but in %.60s of %" PRIu64,
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
                       "it has %" PRIu32 " flat parameters, but %.100s has %" PRIu32, f->n,
                       first_path, first->n);
    }
    for (uint32_t i = 0; i < f->n; i++)
        if (!flat_agree(&f->flat[i], &first->flat[i], first_path, err))
            return false;
    return true;
}
