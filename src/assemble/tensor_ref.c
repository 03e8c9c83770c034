/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/assemble/tensor_ref.h>

#include <stdlib.h>
#include <string.h>

#include <zf/base/num.h>

bool zf_keeper_hold(struct zf_keeper *k, struct zf_source *src, struct zf_err *err)
{
    if (!src || (k->held.n > 0 && k->held.at[k->held.n - 1] == src))
        return true;
    if (!zf_vec_room(&k->held, 1, err))
        return false;
    k->held.at[k->held.n++] = zf_source_ref(src);
    return true;
}

void zf_keeper_into(struct zf_keeper *k, struct zf_arena *a)
{
    k->arena = a;
    k->shape = k->stride = NULL; /* the old ones may be in an arena that is freed first */
}

void zf_keeper_fini(struct zf_keeper *k)
{
    for (size_t i = 0; i < k->held.n; i++)
        zf_source_unref(&k->held.at[i]);
    zf_vec_fini(&k->held);
    *k = (struct zf_keeper){0};
}

bool zf_tensor_ref_of(const struct zf_torch_tensor *t, struct zf_tensor_ref *out,
                      struct zf_err *err)
{
    *out = (struct zf_tensor_ref){
        .src = t->storage->src,
        .key = t->storage->key ? t->storage->key : "",
        .dtype = t->dtype,
        .ndim = t->ndim,
        .shape = t->shape,
        .stride = t->stride,
        .packed = t->contiguous,
    };
    if (!zf_elems(t->ndim, t->shape, &out->n))
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "the product of its sizes exceeds 64 bits");
    return zf_mul(t->off_elems, zf_dtype_info(t->dtype)->bytes, &out->off) ||
           zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "its storage offset is beyond 64 bits");
}

/* Copies x's shape and strides, or shares those of the last reference if they are equal. */
static bool tensor_ref_copy(struct zf_keeper *k, const struct zf_torch_tensor *x,
                            struct zf_err *err)
{
    const size_t n = x->ndim * sizeof *x->shape;

    if (k->shape && k->ndim == x->ndim &&
        (n == 0 || (memcmp(k->shape, x->shape, n) == 0 && memcmp(k->stride, x->stride, n) == 0)))
        return true;
    k->ndim = x->ndim;
    k->stride = zf_arena_copy(k->arena, x->stride, x->ndim, sizeof *x->stride, err);
    k->shape = k->stride ? zf_arena_copy(k->arena, x->shape, x->ndim, sizeof *x->shape, err) : NULL;
    return k->shape != NULL;
}

bool zf_tensor_ref_read_many(struct zf_keeper *k, struct zf_torch *t, const struct zf_pv *v,
                             struct zf_source **empty, struct zf_tensor_ref *out,
                             struct zf_err *err)
{
    struct zf_torch_tensor x;
    struct zf_tensor_ref r;

    if (zf_torch_kind(t, v) != ZF_TORCH_DENSE)
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "it is not a dense tensor");
    if (!zf_torch_tensor(t, v, &x, err) || !zf_tensor_ref_of(&x, &r, err))
        return false;
    r.key = zf_arena_str(k->arena, r.key, strlen(r.key), err);
    if (!r.key || !tensor_ref_copy(k, &x, err))
        return false;
    r.shape = k->shape;
    r.stride = k->stride;
    if (x.storage->bytes == 0 && r.src && *empty) {
        r.src = *empty;
        zf_torch_release(t, &x);
    } else if (!zf_keeper_hold(k, r.src, err)) {
        return false;
    } else if (x.storage->bytes == 0) {
        *empty = r.src;
    }
    *out = r;
    return true;
}

bool zf_tensor_ref_odd(struct zf_torch *t, const struct zf_pv *v, struct zf_err *err)
{
    enum zf_torch_kind kind = zf_torch_kind(t, v);
    struct zf_torch_tensor x;
    struct zf_err why = {.code = ZF_OK};

    if (kind == ZF_TORCH_NOT || kind == ZF_TORCH_NUMPY)
        return false;
    if (zf_torch_tensor(t, v, &x, &why)) {
        return kind == ZF_TORCH_META &&
               !zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE, "saved without data (meta device)");
    }
    if (kind == ZF_TORCH_DENSE && why.code != ZF_E_UNSUPPORTED)
        return false;
    *err = why;
    return true;
}

bool zf_tensor_ref_read(struct zf_keeper *k, struct zf_torch *t, const struct zf_pv *v,
                        struct zf_tensor_ref *out, struct zf_err *err)
{
    struct zf_source *empty = NULL;

    return zf_tensor_ref_read_many(k, t, v, &empty, out, err);
}

static int tensor_ref_order(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

int zf_tensor_ref_cmp(const struct zf_tensor_ref *a, const struct zf_tensor_ref *b)
{
    int c = tensor_ref_order((uintptr_t)a->src, (uintptr_t)b->src);

    c = c ? c : strcmp(a->key, b->key);
    c = c ? c : tensor_ref_order(a->off, b->off);
    c = c ? c : tensor_ref_order(a->dtype, b->dtype);
    c = c ? c : tensor_ref_order(a->ndim, b->ndim);
    c = c ? c : tensor_ref_order(a->packed, b->packed);
    for (uint32_t d = 0; c == 0 && d < a->ndim; d++) {
        c = tensor_ref_order(a->shape[d], b->shape[d]);
        c = c || a->packed ? c : tensor_ref_order(a->stride[d], b->stride[d]);
    }
    return c;
}

struct zf_draft *zf_tensor_ref_draft(struct zf_build *b, struct zf_spot spot,
                                     const struct zf_tensor_ref *r, const char *where,
                                     struct zf_err *err)
{
    struct zf_draft *d =
        zf_build_tensor(b, spot, (struct zf_type){r->dtype, r->ndim, r->shape}, err);
    struct zf_from from = {.src = r->src, .off = r->off};

    if (!d || (where && !zf_draft_where(d, where, err)))
        return NULL;
    if (r->n == 0)
        return d;
    if (r->packed)
        return zf_draft_flat(d, 0, r->n, from, err) ? d : NULL;
    from.stride = r->stride;
    return zf_draft_box(d, NULL, r->shape, from, err) ? d : NULL;
}

bool zf_number_of(const struct zf_pv *v, struct zf_number *out)
{
    int64_t i;
    double f;
    bool integer = zf_pv_int(v, &i);

    *out = (struct zf_number){.dtype = integer ? ZF_DT_I64 : ZF_DT_F64};
    if (integer)
        memcpy(&out->bits, &i, sizeof i);
    else if (zf_pv_float(v, &f))
        memcpy(&out->bits, &f, sizeof f);
    else
        return false;
    return true;
}

bool zf_number_draft(struct zf_build *b, struct zf_spot spot, const struct zf_pv *v,
                     struct zf_err *err)
{
    struct zf_number n;

    return !zf_number_of(v, &n) || zf_build_scalar(b, spot, n.dtype, &n.bits, err);
}
