/* SPDX-License-Identifier: Apache-2.0 */
/* Byte-swapped elements: big-endian storages, served as little-endian. */
#include <zf/source/source.h>

#include <inttypes.h>
#include <string.h>

#include <zf/source/want.h>

#include "kinds.h"

#define WIDTH_MAX 16

struct swap {
    struct zf_derived base;
    uint32_t width;
};

static void swap_turn(uint8_t *p, size_t n, uint32_t width)
{
    for (const uint8_t *end = p + n; p < end; p += width) {
        for (uint32_t i = 0, j = width - 1; i < j; i++, j--) {
            uint8_t b = p[i];

            p[i] = p[j];
            p[j] = b;
        }
    }
}

/* Reads up to n bytes of the element that contains byte `off`; returns their number. */
static size_t swap_read_bit(struct swap *w, void *buf, size_t n, uint64_t off, struct zf_err *err)
{
    uint8_t elem[WIDTH_MAX];
    size_t into = (size_t)(off % w->width), left = w->width - into;

    if (!zf_source_pread(w->base.parent, elem, w->width, off - into, err))
        return 0;
    swap_turn(elem, w->width, w->width);
    n = n < left ? n : left;
    memcpy(buf, elem + into, n);
    return n;
}

static bool swap_pread(struct zf_source *s, void *buf, size_t n, uint64_t off, struct zf_err *err)
{
    struct swap *w = (struct swap *)s;
    uint8_t *to = buf;

    while (n > 0) {
        size_t done = n - n % w->width;

        if (off % w->width != 0 || done == 0)
            done = swap_read_bit(w, to, n, off, err);
        else if (zf_source_pread(w->base.parent, to, done, off, err))
            swap_turn(to, done, w->width);
        else
            done = 0;
        if (done == 0)
            return false;
        to += done;
        off += done;
        n -= done;
    }
    return true;
}

/* Whole elements are at the parent's offset; only their bytes are reversed. */
static bool swap_trace(struct zf_source *s, struct zf_trace *t)
{
    struct swap *w = (struct swap *)s;

    if (t->swap || t->codec || t->off % w->width != 0)
        return false;
    t->swap = w->width;
    t->src = w->base.parent;
    return true;
}

static void swap_want(struct zf_source *s, uint64_t off, uint64_t n, enum zf_prefetch how)
{
    zf_source_want(zf_derived_parent(s), off, n, how);
}

static bool swap_recipe(struct zf_source *s, struct zf_recipe *out)
{
    out->kind = &kind_swap;
    out->parent = zf_derived_parent(s);
    out->n[0] = ((struct swap *)s)->width;
    return true;
}

static struct zf_source *swap_make(struct zf_remake *r, struct zf_err *err)
{
    uint32_t width = r->n[0] <= WIDTH_MAX ? (uint32_t)r->n[0] : 0;

    return kind_has_parent(r, err) ? zf_swap_new(r->parent, width, err) : NULL;
}

const struct zf_source_kind kind_swap = {.name = "swap", .make = swap_make};

static const struct zf_source_ops swap_ops = {
    .kind = "swap",
    .pread = swap_pread,
    .trace = swap_trace,
    .want = swap_want,
    .recipe = swap_recipe,
    .fini = zf_derived_fini,
};

struct zf_source *zf_swap_new(struct zf_source *parent, uint32_t width, struct zf_err *err)
{
    if (width < 2 || width > WIDTH_MAX || (width & (width - 1)) != 0) {
        return zf_null(zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                               "elements of %" PRIu32 " bytes cannot be byte-swapped", width));
    }
    if (parent->size % width != 0) {
        (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                      "%" PRIu64 " bytes are not a whole number of elements of %" PRIu32 " bytes",
                      parent->size, width);
        return zf_null(zf_err_in(err, "%s", parent->name));
    }
    struct swap *w = zf_derived_new(sizeof *w, &swap_ops, parent->name, parent->size, parent, err);
    if (!w)
        return NULL;
    w->width = width;
    return &w->base.src;
}
