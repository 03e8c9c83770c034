/* SPDX-License-Identifier: Apache-2.0 */
/* Reorders the elements of a tensor, without touching its bytes: axes are split, swapped, joined and cut. */
#include "plan.h"

#include <string.h>

#include <zf/base/num.h>

uint64_t axis_size(const struct axis *a)
{
    uint64_t n = 1;

    for (uint32_t i = 0; i < a->n; i++)
        n *= a->size[i];
    return n;
}

uint64_t axes_count(const struct axes *x)
{
    uint64_t n = 1;

    for (uint32_t k = 0; k < x->n; k++)
        n *= axis_size(&x->at[k]);
    return n;
}

bool axes_init(struct axes *x, uint32_t ndim, const uint64_t *shape, struct zf_err *err)
{
    uint64_t stride[MAX_AXES];

    *x = (struct axes){.n = ndim};
    if (ndim > MAX_AXES) {
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "the tensor has %u dimensions, more than %d",
                       ndim, MAX_AXES);
    }
    zf_packed_strides(ndim, shape, stride);
    for (uint32_t k = 0; k < ndim; k++)
        x->at[k] = (struct axis){.n = 1, .size = {shape[k]}, .stride = {stride[k]}};
    return true;
}

/* Adds inner steps to axis a; they are merged with the last ones if contiguous. */
static bool axes_nest(struct axis *a, uint64_t size, uint64_t stride, struct zf_err *err)
{
    if (size == 1)
        return true;
    if (a->n && a->stride[a->n - 1] == size * stride) {
        a->size[a->n - 1] *= size;
        a->stride[a->n - 1] = stride;
        return true;
    }
    if (a->n == MAX_NAMES)
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "an axis consists of too many others");
    a->size[a->n] = size;
    a->stride[a->n++] = stride;
    return true;
}

/* Moves the innermost `want` positions of a to out. */
static bool axes_take(struct axis *a, uint64_t want, struct axis *out, const char *name,
                      struct zf_err *err)
{
    struct axis back = {.n = 0}; /* innermost first */

    while (want > 1) {
        const uint64_t have = a->n ? a->size[a->n - 1] : 1;
        const uint64_t take = have % want == 0 ? want : have;

        if (have <= 1 || want % take != 0 || back.n == MAX_NAMES) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "%.40s of %llu does not divide the axis",
                           name, (unsigned long long)want);
        }
        back.size[back.n] = take;
        back.stride[back.n++] = a->stride[a->n - 1];
        a->stride[a->n - 1] *= take;
        a->size[a->n - 1] /= take;
        a->n -= a->size[a->n - 1] == 1;
        want /= take;
    }
    *out = (struct axis){.n = 0};
    for (uint32_t i = back.n; i-- > 0;)
        if (!axes_nest(out, back.size[i], back.stride[i], err))
            return false;
    return true;
}

/* Splits axis a into the names [lo, hi) of the left side. */
static bool axes_split(const struct axis *a, const struct pattern *p, uint32_t lo, uint32_t hi,
                       uint64_t *size, struct axis *part, struct zf_err *err)
{
    const uint64_t all = axis_size(a);
    struct axis rest = {.n = 0};
    uint64_t known = 1;
    uint32_t open = UINT32_MAX;

    for (uint32_t i = lo; i < hi; i++) {
        const uint32_t k = p->left.name[i];

        if (size[k] == 0 && open != UINT32_MAX) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "\"%.80s\": neither %.40s nor %.40s is a known size", p->text,
                           p->name[open], p->name[k]);
        }
        if (size[k] == 0)
            open = k;
        else if (!zf_mul(known, size[k], &known))
            known = UINT64_MAX;
    }
    if (open != UINT32_MAX && known <= all && all % known == 0) {
        size[open] = all / known;
        known = all;
    }
    if (known != all || all == 0) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "\"%.80s\": by the settings the axis has %llu, but the tensor has %llu",
                       p->text, (unsigned long long)known, (unsigned long long)all);
    }
    for (uint32_t i = 0; i < a->n; i++)
        if (!axes_nest(&rest, a->size[i], a->stride[i], err))
            return false;
    for (uint32_t i = hi; i-- > lo;) {
        const uint32_t k = p->left.name[i];

        if (!axes_take(&rest, size[k], &part[k], p->name[k], err))
            return false;
    }
    return true;
}

bool axes_rearrange(struct axes *x, const struct pattern *p, axes_size_fn *size, void *ctx,
                    struct zf_err *err)
{
    struct axis part[MAX_NAMES] = {{.n = 0}};
    uint64_t known[MAX_NAMES] = {0};

    if (x->n != p->left.n_axes) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "\"%.80s\" is for %u dimensions, but the tensor has %u", p->text,
                       p->left.n_axes, x->n);
    }
    for (uint32_t i = 0; i < p->n_names; i++)
        if (!size(ctx, p->name[i], &known[i], err))
            return false;
    for (uint32_t k = 0; k < x->n; k++)
        if (!axes_split(&x->at[k], p, p->left.begin[k], pattern_end(&p->left, k), known, part, err))
            return false;
    x->n = p->right.n_axes;
    for (uint32_t k = 0; k < x->n; k++) {
        x->at[k] = (struct axis){.n = 0};
        for (uint32_t i = p->right.begin[k]; i < pattern_end(&p->right, k); i++) {
            const struct axis *from = &part[p->right.name[i]];

            for (uint32_t s = 0; s < from->n; s++)
                if (!axes_nest(&x->at[k], from->size[s], from->stride[s], err))
                    return false;
        }
    }
    return true;
}

bool axes_cut(struct axes *x, uint32_t k, uint64_t from, uint64_t to, struct zf_err *err)
{
    struct axis *a = &x->at[k];
    const uint64_t all = axis_size(a);

    if (from > to || to > all) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "positions [%llu:%llu] are outside the axis, which has %llu",
                       (unsigned long long)from, (unsigned long long)to, (unsigned long long)all);
    }
    if (from == 0 && to == all)
        return true;
    if (from == to) {
        *a = (struct axis){.n = 1, .size = {0}, .stride = {1}};
        return true;
    }
    const uint64_t inner = all / a->size[0];
    if (from % inner != 0 || to % inner != 0) {
        return zf_fail(
            err, ZF_E_FORMAT, ZF_OFF_NONE,
            "positions [%llu:%llu] cut an axis after its parts were re-ordered. Cut it before",
            (unsigned long long)from, (unsigned long long)to);
    }
    x->first += from / inner * a->stride[0];
    a->size[0] = (to - from) / inner;
    return true;
}

void axes_drop(struct axes *x, uint32_t k)
{
    memmove(&x->at[k], &x->at[k + 1], (x->n - k - 1) * sizeof *x->at);
    x->n--;
}

bool axes_strided(const struct axes *x, uint32_t elem, struct zf_strided *out, struct zf_err *err)
{
    *out = (struct zf_strided){.elem = elem, .first = x->first};
    for (uint32_t k = 0; k < x->n; k++) {
        for (uint32_t i = 0; i < x->at[k].n; i++) {
            if (x->at[k].size[i] == 1)
                continue;
            if (out->nd == ZF_STRIDED_DIMS)
                return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "the tensor is in too many parts");
            out->size[out->nd] = x->at[k].size[i];
            out->stride[out->nd++] = x->at[k].stride[i];
        }
    }
    return true;
}
