/* SPDX-License-Identifier: Apache-2.0 */
/* Turns the arguments of a rebuild function into a checked, strided view of a storage. */
#include <string.h>

#include <zf/base/num.h>

#include "file.h"

const struct zf_pv *zf_torch_size(const struct zf_pv *v)
{
    v = zf_pv_is(v, NULL, "Size") ? zf_pv_arg(v, 0) : v;
    return zf_pv_is_seq(v) ? v : NULL;
}

bool zf_torch_extents(const struct zf_pv *v, uint64_t n, uint64_t *out)
{
    v = zf_torch_size(v);
    if (!v || zf_pv_len(v) != n)
        return false;
    for (uint64_t i = 0; i < n; i++)
        if (!zf_pv_u64(zf_pv_item(v, i), &out[i]))
            return false;
    return true;
}

bool torch_dims(struct zf_torch *t, const struct zf_pv *v, const char *what, uint32_t *n_out,
                uint64_t **out, struct zf_err *err)
{
    const struct zf_pv *size = zf_torch_size(v);
    uint64_t n = zf_pv_len(size);

    if (!size) {
        return torch_bad(t, err, ZF_E_FORMAT, "the %s of a tensor is not a tuple of integers",
                         what);
    }
    if (zf_pv_late(v) || zf_pv_late(size))
        return torch_bad(t, err, ZF_E_FORMAT, "the %s of a tensor changes after it was made", what);
    if (n > t->lim.tensor_dims || n > UINT32_MAX) {
        return zf_fail_limit(err, ZF_LIMIT_tensor_dims, ZF_OFF_NONE,
                             "a tensor of %llu dimensions, more than the limit tensor_dims=%llu",
                             (unsigned long long)n, (unsigned long long)t->lim.tensor_dims) ||
               zf_err_in(err, "%s", t->src->name);
    }
    *n_out = (uint32_t)n;
    *out = torch_dims_new(t, n, err);
    return *out && (zf_torch_extents(size, n, *out) ||
                    torch_bad(t, err, ZF_E_FORMAT,
                              "the %s of a tensor has an element that is not a size", what));
}

bool torch_dtype(struct zf_torch *t, const struct zf_pv *v, enum zf_dtype *out, struct zf_err *err)
{
    const char *name = zf_pv_name(v);

    if (zf_pv_kind(v) != ZF_PV_GLOBAL)
        return torch_bad(t, err, ZF_E_FORMAT, "the dtype of a tensor is not a dtype");
    return zf_dtype_by_torch(name, strlen(name), out) ||
           torch_bad(t, err, ZF_E_UNSUPPORTED, "tensors of dtype \"%.80s\" cannot be read", name);
}

/* Replaces strides of dimensions of size <= 1, which never matter, by those of a packed tensor, so
 * that equal tensors have equal strides.  True if the tensor is contiguous. */
static bool tensor_normalize_strides(uint32_t ndim, const uint64_t *shape, uint64_t *stride)
{
    uint64_t packed = 1, elems = 0;
    bool contiguous = true;

    if (zf_elems(ndim, shape, &elems) && elems == 0) {
        zf_packed_strides(ndim, shape, stride);
        return true;
    }
    for (uint32_t d = ndim; d-- > 0;) {
        if (shape[d] <= 1)
            stride[d] = packed;
        contiguous = contiguous && stride[d] == packed;
        packed *= shape[d] ? shape[d] : 1; /* overflows only in a tensor that is refused later */
    }
    return contiguous;
}

/* Strides of 0 can turn four bytes into terabytes: refuses a large tensor that is far larger than the
 * `last + 1` elements of its storage. */
static bool tensor_check_view(struct zf_torch *t, const struct zf_torch_tensor *out, uint64_t bytes,
                              uint64_t last, struct zf_err *err)
{
    uint64_t made_of = (last + 1) * zf_dtype_info(out->dtype)->bytes;

    if (bytes <= t->lim.view_bytes || bytes / made_of <= t->lim.view_ratio)
        return true;
    return zf_fail_limit(
               err, ZF_LIMIT_view_bytes, ZF_OFF_NONE,
               "a tensor of %llu bytes that is made of %llu bytes of storage \"%.80s\", more "
               "than the limits view_bytes=%llu and view_ratio=%llu",
               (unsigned long long)bytes, (unsigned long long)made_of, out->storage->key,
               (unsigned long long)t->lim.view_bytes, (unsigned long long)t->lim.view_ratio) ||
           zf_err_in(err, "%s", t->src->name);
}

/* Checks that shape and strides stay within the `have` elements of the storage. */
static bool tensor_check_extent(struct zf_torch *t, struct zf_torch_tensor *out, uint64_t *stride,
                                uint64_t have, struct zf_err *err)
{
    uint64_t bytes, elems, last = out->off_elems;
    bool ok = true;

    if (!zf_dtype_size(out->dtype, out->ndim, out->shape, &bytes) || bytes > INT64_MAX ||
        !zf_elems(out->ndim, out->shape, &elems)) {
        return torch_bad(t, err, ZF_E_FORMAT,
                         "the shape of a tensor in storage \"%.80s\" is too large for any file",
                         out->storage->key);
    }
    out->contiguous = tensor_normalize_strides(out->ndim, out->shape, stride);
    out->stride = stride;
    if (elems == 0) {
        out->off_elems = 0;
        return true;
    }
    for (uint32_t d = 0; ok && d < out->ndim; d++)
        ok = zf_mul_add(out->shape[d] - 1, stride[d], last, &last);
    if (!ok || last >= have) {
        return torch_bad(
            t, err, ZF_E_FORMAT,
            "a tensor reaches beyond its storage \"%.80s\": element %llu of %llu is needed",
            out->storage->key, ok ? (unsigned long long)last : ~0ull, (unsigned long long)have);
    }
    return tensor_check_view(t, out, bytes, last - out->off_elems, err);
}

/* Converts {'conj': True} and {'neg': True} to sign bits to flip. */
static bool tensor_load_flips(struct zf_torch *t, const struct zf_pv *meta, enum zf_dtype dtype,
                              uint32_t *out, struct zf_err *err)
{
    bool conj = false, neg = false;
    char kind = zf_dtype_info(dtype)->kind;

    if (zf_pv_late(meta))
        return torch_bad(t, err, ZF_E_FORMAT, "the flags of a tensor change after it was made");
    (void)zf_pv_bool(zf_pv_get(meta, "conj"), &conj);
    (void)zf_pv_bool(zf_pv_get(meta, "neg"), &neg);
    *out = (neg ? ZF_TORCH_FLIP_REAL : 0) | (neg != conj ? ZF_TORCH_FLIP_IMAG : 0);
    if ((conj && kind != 'c') || (neg && kind != 'c' && kind != 'f') ||
        (neg && zf_dtype_info(dtype)->bytes == 1)) {
        return torch_bad(t, err, ZF_E_UNSUPPORTED, "a %s view of %s",
                         conj ? "conjugate" : "negative", zf_dtype_info(dtype)->torch);
    }
    return true;
}

/* Converts shape and strides of sub-byte integers, whose rows are whole bytes, from elements to bytes. */
static bool tensor_pack_small(struct zf_torch *t, struct zf_torch_tensor *out, uint64_t *shape,
                              uint64_t *stride, struct zf_err *err)
{
    uint64_t per = out->dtype == ZF_DT_QU4X2 ? 2 : out->dtype == ZF_DT_QU2X4 ? 4 : 1;

    if (per == 1)
        return true;
    if (!tensor_normalize_strides(out->ndim, shape, stride) || out->off_elems) {
        return torch_bad(t, err, ZF_E_UNSUPPORTED, "a view of a tensor of %s",
                         zf_dtype_info(out->dtype)->torch);
    }
    if (out->ndim) {
        uint64_t *row = &shape[out->ndim - 1];

        *row = *row / per + (*row % per != 0);
        zf_packed_strides(out->ndim, shape, stride);
    }
    return true;
}

static bool tensor_load_strided(struct zf_torch *t, const struct torch_pid *pid,
                                struct zf_torch_tensor *out, const struct torch_form *f,
                                struct zf_err *err)
{
    bool v3 = f->id == ZF_FORM_V3;
    uint64_t *shape, *stride, have = pid->numel, first = pid->first;
    uint32_t n_strides, flips = 0, es;
    struct torch_store *store = torch_store_get(t, pid, err);

    if (!store || !torch_dims(t, zf_pv_item(f->args, 2), "shape", &out->ndim, &shape, err) ||
        !torch_dims(t, zf_pv_item(f->args, 3), "stride", &n_strides, &stride, err))
        return false;
    if (n_strides != out->ndim) {
        return torch_bad(t, err, ZF_E_FORMAT, "a tensor of %u dimensions has %u strides", out->ndim,
                         n_strides);
    }
    if (!zf_pv_u64(zf_pv_item(f->args, 1), &out->off_elems)) {
        return torch_bad(t, err, ZF_E_FORMAT,
                         "the offset of a tensor in its storage \"%.80s\" is not a size", pid->key);
    }
    out->dtype = pid->dtype;
    if (v3 && !torch_dtype(t, zf_pv_item(f->args, 6), &out->dtype, err))
        return false;
    if (f->id != ZF_FORM_QUANT &&
        !tensor_load_flips(t, zf_pv_item(f->args, v3 ? 7 : 6), out->dtype, &flips, err))
        return false;
    es = zf_dtype_info(out->dtype)->bytes;
    if (pid->untyped) {
        have = (pid->first + pid->numel) / es - pid->first / es;
        first = pid->first / es;
        if (pid->first % es) {
            return torch_bad(t, err, ZF_E_UNSUPPORTED, "storage \"%.80s\" begins within an element",
                             pid->key);
        }
    } else if (out->dtype != pid->dtype) {
        return torch_bad(t, err, ZF_E_FORMAT, "a tensor of %s on a storage \"%.80s\" of %s",
                         zf_dtype_info(out->dtype)->torch, pid->key,
                         zf_dtype_info(pid->dtype)->torch);
    }
    out->shape = shape;
    out->lent = true;
    out->storage = torch_store_as(t, store, out->dtype, flips, err);
    if (!out->storage || !tensor_pack_small(t, out, shape, stride, err) ||
        !tensor_check_extent(t, out, stride, have, err))
        return false;
    return zf_add(out->off_elems, first, &out->off_elems);
}

static bool tensor_load_meta(struct zf_torch *t, const struct torch_form *f,
                             struct zf_torch_tensor *out, struct zf_err *err)
{
    uint64_t *shape, *stride, bytes;
    uint32_t n;
    struct zf_torch_storage *s = zf_arena_get(t->arena, 1, sizeof *s, err);

    if (!s || !torch_dtype(t, zf_pv_item(f->args, 0), &out->dtype, err) ||
        !torch_dims(t, zf_pv_item(f->args, 1), "shape", &out->ndim, &shape, err) ||
        !torch_dims(t, zf_pv_item(f->args, 2), "stride", &n, &stride, err))
        return false;
    if (n != out->ndim || !zf_dtype_size(out->dtype, out->ndim, shape, &bytes))
        return torch_bad(t, err, ZF_E_FORMAT, "a meta tensor has an impossible shape or strides");
    *s = (struct zf_torch_storage){.key = "", .dtype = out->dtype, .record = ZF_TORCH_NO_RECORD};
    out->storage = s;
    out->shape = shape;
    out->stride = stride;
    out->contiguous = tensor_normalize_strides(out->ndim, shape, stride);
    return true;
}

bool torch_tensor_form(struct zf_torch *t, const struct torch_form *f, struct zf_torch_tensor *out,
                       struct zf_err *err)
{
    struct torch_pid pid;
    enum zf_dtype cast;

    *out = (struct zf_torch_tensor){.ndim = 0};
    switch (f->id) {
    case ZF_FORM_V2:
    case ZF_FORM_V3:
    case ZF_FORM_QUANT:
        if (!torch_pid_load(t, zf_pv_item(f->args, 0), &pid, err) ||
            !tensor_load_strided(t, &pid, out, f, err))
            return false;
        break;
    case ZF_FORM_CHANGED:
        return torch_bad(t, err, ZF_E_FORMAT, "a tensor that %s changes after it was made",
                         f->name);
    case ZF_FORM_META:
        return tensor_load_meta(t, f, out, err);
    case ZF_FORM_ARRAY:
    case ZF_FORM_SCALAR:
    case ZF_FORM_BUFFER:
        if (!torch_numpy_load(t, f, out, err))
            return false;
        break;
    default:
        return torch_bad(t, err, ZF_E_UNSUPPORTED, "not a single tensor: \"%.120s\"",
                         f->name ? f->name : "a value of another kind");
    }
    if (f->cast && (!torch_dtype(t, f->cast, &cast, err)))
        return false;
    return !f->cast || cast == out->dtype ||
           torch_bad(t, err, ZF_E_UNSUPPORTED, "a tensor of %s that is stored as %s",
                     zf_dtype_info(cast)->torch, zf_dtype_info(out->dtype)->torch);
}

bool zf_torch_tensor(struct zf_torch *t, const struct zf_pv *v, struct zf_torch_tensor *out,
                     struct zf_err *err)
{
    struct torch_form f = torch_form_of(t, v);

    f.id = f.id == ZF_FORM_QUANT ? ZF_FORM_OPAQUE
                                 : f.id; /* integers without their scales: no tensor */
    return torch_tensor_form(t, &f, out, err);
}

bool torch_ints(struct zf_torch *t, const struct zf_pv *v, uint64_t max, uint64_t *n_out,
                uint64_t **out, struct zf_err *err)
{
    struct zf_torch_tensor ten;
    uint64_t n;

    if (!zf_torch_tensor(t, v, &ten, err))
        return false;
    uint32_t es = zf_dtype_info(ten.dtype)->bytes;
    bool fits =
        (ten.dtype == ZF_DT_I32 || ten.dtype == ZF_DT_I64) && ten.contiguous && ten.storage->src;

    if (!fits || !zf_elems(ten.ndim, ten.shape, &n) || n > max) {
        return torch_bad(t, err, ZF_E_UNSUPPORTED,
                         "a list of ranks that is not a small, packed tensor of integers");
    }
    uint64_t *p = zf_arena_get(t->arena, n, sizeof *p, err);
    zf_auto(mem) uint8_t *raw = malloc(n ? n * es : 1);

    if (!p || !raw)
        return p ? zf_fail_sys(err, "allocate memory") : false;
    if (!zf_source_pread(ten.storage->src, raw, n * es, ten.off_elems * es, err))
        return false;
    struct zf_bytes b = zf_bytes_of(raw, n * es);

    for (uint64_t i = 0; i < n; i++)
        p[i] = es == 4 ? zf_bytes_le32(&b) : zf_bytes_le64(&b);
    *n_out = n;
    *out = p;
    return true;
}
