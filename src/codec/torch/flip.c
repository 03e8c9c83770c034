/* SPDX-License-Identifier: Apache-2.0 */
/* Conjugate and negative views: torch stores the base's bytes and a flag.  Both only flip sign
 * bits. */
#include <zf/source/recipe.h>

#include "file.h"

struct flip {
    struct zf_derived base;
    uint32_t half;     /* bytes of a real number */
    uint32_t flips[2]; /* the mask for the last byte of even and of odd numbers */
};

static bool flip_pread(struct zf_source *s, void *buf, size_t n, uint64_t off, struct zf_err *err)
{
    const struct flip *f = (const struct flip *)s;
    uint8_t *p = buf;

    if (!zf_source_pread(f->base.parent, buf, n, off, err))
        return false;
    for (size_t i = (size_t)(f->half - 1 - off % f->half); i < n; i += f->half)
        p[i] ^= (uint8_t)f->flips[(off + i) / f->half & 1];
    return true;
}

static const struct zf_source_ops flip_ops;

static struct zf_source *flip_new(struct zf_source *parent, uint32_t half, const uint32_t flips[2],
                                  struct zf_err *err)
{
    struct flip *f = zf_derived_new(sizeof *f, &flip_ops, parent->name, parent->size, parent, err);

    if (!f)
        return NULL;
    f->half = half;
    f->flips[0] = flips[0];
    f->flips[1] = flips[1];
    return &f->base.src;
}

static bool flip_recipe(struct zf_source *s, struct zf_recipe *out)
{
    const struct flip *f = (const struct flip *)s;

    out->kind = &zf_torch_flip_kind;
    out->parent = f->base.parent;
    out->n[0] = f->half;
    out->n[1] = f->flips[0];
    out->n[2] = f->flips[1];
    return true;
}

static struct zf_source *flip_make(struct zf_remake *r, struct zf_err *err)
{
    const uint32_t flips[2] = {r->n[1] ? 0x80 : 0, r->n[2] ? 0x80 : 0};

    if (!r->parent || r->n[0] == 0 || 8 % r->n[0] != 0 || r->parent->size % r->n[0] != 0)
        return zf_null(zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "numbers of no length"));
    return flip_new(r->parent, (uint32_t)r->n[0], flips, err);
}

const struct zf_source_kind zf_torch_flip_kind = {.name = "flip", .make = flip_make};

static const struct zf_source_ops flip_ops = {
    .kind = "flip",
    .pread = flip_pread,
    .recipe = flip_recipe,
    .fini = zf_derived_fini,
};

struct zf_source *torch_flip_new(struct zf_source *parent, enum zf_dtype dtype, uint32_t flips,
                                 struct zf_err *err)
{
    const struct zf_dtype_info *info = zf_dtype_info(dtype);
    const bool pair = info->kind == 'c';
    const uint32_t half = pair ? info->bytes / 2 : info->bytes;
    const uint32_t real = flips & ZF_TORCH_FLIP_REAL ? 0x80 : 0;
    const uint32_t imag = flips & ZF_TORCH_FLIP_IMAG ? 0x80 : 0;

    return flip_new(parent, half, (const uint32_t[2]){real, pair ? imag : real}, err);
}
