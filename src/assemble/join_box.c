/* SPDX-License-Identifier: Apache-2.0 */
#include "join_box.h"

#include <zf/assemble/degraded.h>
#include <zf/base/num.h>

/* The part of the local tensor that starts at `local`; NULL: at 0. */
bool join_box_from(const struct zf_tensor_ref *r, const uint64_t *local, struct zf_from *out,
                   struct zf_err *err)
{
    uint64_t at = 0, bytes;

    for (uint32_t k = 0; local && k < r->ndim; k++) {
        if (!zf_mul_add(local[k], r->stride[k], at, &at)) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "a local tensor is larger than 2^64 elements");
        }
    }
    if (!zf_mul_add(at, zf_dtype_info(r->dtype)->bytes, r->off, &bytes))
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "a local tensor is larger than 2^64 bytes");
    *out = (struct zf_from){.src = r->src, .off = bytes, .stride = r->stride};
    return true;
}

/* The elements of a box, which may be strided in its source, as a packed tensor.  *made: the source made for it. */
static bool join_box_packed(struct zf_type type, struct zf_from from, struct zf_tensor_ref *out,
                            struct zf_source **made, struct zf_err *err)
{
    static const uint64_t one = 1;
    uint64_t n;

    if (!zf_elems(type.ndim, type.shape, &n) || !from.src)
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "a box has no bytes");
    *made = zf_strided_new(type, from, err);
    *out = (struct zf_tensor_ref){
        .src = *made, .dtype = type.dtype, .ndim = 1, .stride = &one, .n = n, .packed = true};
    return *made != NULL;
}

bool join_box_differs(const struct join_box *first, struct zf_err *err)
{
    return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "its part should be a copy of the one in \"%.80s\", but differs from it: two "
                   "saves are mixed",
                   first->file);
}

bool join_box_equal(struct zf_build *b, struct zf_copy_check *check, const struct join_box *first,
                    struct zf_type type, struct zf_from from, struct zf_err *err)
{
    zf_auto(source) struct zf_source *one = NULL, *two = NULL;
    struct zf_tensor_ref x, y;
    bool same = true;

    if (!join_box_packed(type, first->from, &x, &one, err) ||
        !join_box_packed(type, from, &y, &two, err))
        return false;
    x.shape = &x.n;
    y.shape = &y.n;
    if (!zf_copy_check_equal(check, &x, &y, &same, err))
        return zf_forgive(b, err);
    return same || join_box_differs(first, err);
}
