/* SPDX-License-Identifier: Apache-2.0 */
/* Which part of a tensor a tensor-parallel rank of nanotron has, from the header of its file:
 *   unsharded_shape            "(48, 16)"; written with NumPy 2: "(np.int64(48), 16)"
 *   local_global_slices_pairs  "0,8,None|None,None,None#16,24,None|None,None,None;…": start, stop and step of each
 *                              dimension of the rank's tensor # of the whole one; several pairs for a fused qkv
 * Source: nanotron/serialize/metadata.py, TensorMetadata (0.4, CHECKPOINT_VERSION 1.2). */
#include "nanotron.h"

#include <inttypes.h>
#include <stdlib.h>

#include <zf/base/num.h>

enum { SLICES_DIMS = 8, SLICES_DIGITS = 18 };

static const char slices_shape[] = "unsharded_shape", slices_pairs[] = "local_global_slices_pairs";

/* ---- the texts ---- */

/* Skips `word` at the beginning of *p; false if it is not there. */
static bool slices_take(const char **p, const char *word)
{
    size_t n = strlen(word);
    bool is = strncmp(*p, word, n) == 0;

    *p += is ? n : 0;
    return is;
}

static bool slices_number(const char **p, uint64_t *out)
{
    size_t n = strspn(*p, "0123456789");

    *out = strtoull(*p, NULL, 10);
    *p += n;
    return n > 0 && n <= SLICES_DIGITS;
}

/* Parses "(np.int64(48), 16)" or "(48,)". */
static bool slices_read_shape(const char *p, uint32_t *ndim, uint64_t *shape)
{
    *ndim = 0;
    if (!slices_take(&p, "("))
        return false;
    while (!slices_take(&p, ")")) {
        bool wrapped = slices_take(&p, "np.int64(");

        if (*ndim == SLICES_DIMS || !slices_number(&p, &shape[*ndim]) ||
            (wrapped && !slices_take(&p, ")")) || (!slices_take(&p, ",") && *p != ')'))
            return false;
        (void)slices_take(&p, " ");
        ++*ndim;
    }
    return *p == '\0';
}

/* Parses a box of a tensor of this shape: "0,8,None|None,None,None". */
static bool slices_read_box(const char **p, uint32_t ndim, const uint64_t *shape, uint64_t *start,
                            uint64_t *size)
{
    for (uint32_t d = 0; d < ndim; d++) {
        uint64_t stop = shape[d], step = 1;

        start[d] = 0;
        if ((d > 0 && !slices_take(p, "|")) ||
            !(slices_take(p, "None") || slices_number(p, &start[d])) || !slices_take(p, ",") ||
            !(slices_take(p, "None") || slices_number(p, &stop)) || !slices_take(p, ",") ||
            !(slices_take(p, "None") || slices_number(p, &step)) || step != 1 || start[d] > stop ||
            stop > shape[d])
            return false;
        size[d] = stop - start[d];
    }
    return true;
}

/* ---- a part ---- */

/* Sets the offset of a box in the rank's tensor.  Fused tensors are stacked along dimension 0, so a box is one
 * contiguous run of elements; others are refused. */
static bool slices_lay(const struct zf_st_entry *e, const uint64_t *start, const uint64_t *size,
                       struct nanotron_slice *out)
{
    uint64_t row = 1;

    for (uint32_t d = 1; d < e->ndim; d++)
        if (start[d] != 0 || size[d] != e->shape[d] || !zf_mul(row, size[d], &row))
            return false;
    return e->ndim == 0 || (zf_mul(start[0], row, &out->at) && zf_mul(size[0], row, &out->n));
}

static bool slices_refuse(const struct zf_st_entry *e, const char *text, struct zf_err *err)
{
    return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "%s \"%.120s\" are not consecutive slices of its tensor of %" PRIu32
                   " dimensions and of the whole one",
                   slices_pairs, text, e->ndim);
}

static bool slices_read(const char *text, const struct zf_st_entry *e, struct zf_arena *a,
                        const struct zf_type *whole, struct nanotron_part *out, struct zf_err *err)
{
    uint32_t n = 1, ndim = e->ndim;
    const char *p = text;

    for (const char *c = text; (c = strchr(c, ';')); c++)
        n++;
    struct nanotron_slice *slice = zf_arena_get(a, n, sizeof *slice, err);
    uint64_t *box = slice ? zf_arena_get(a, n, 2 * ndim * sizeof *box, err) : NULL;
    if (!box)
        return false;
    *out = (struct nanotron_part){.n = n, .slice = slice};
    for (uint32_t i = 0; i < n; i++, box += 2 * ndim) {
        uint64_t start[SLICES_DIMS], size[SLICES_DIMS];

        slice[i].start = box;
        slice[i].size = box + ndim;
        if ((i > 0 && !slices_take(&p, ";")) || !slices_read_box(&p, ndim, e->shape, start, size) ||
            !slices_take(&p, "#") || !slices_read_box(&p, ndim, whole->shape, box, box + ndim) ||
            memcmp(size, box + ndim, ndim * sizeof *size) != 0 ||
            !slices_lay(e, start, size, &slice[i]) || slice[i].at != out->elems ||
            !zf_add(out->elems, slice[i].n, &out->elems))
            return slices_refuse(e, text, err);
    }
    uint64_t elems;
    return (*p == '\0' && zf_elems(ndim, e->shape, &elems) && elems == out->elems) ||
           slices_refuse(e, text, err);
}

/* Describes a tensor that is not sharded as one slice of itself. */
static bool slices_whole(const struct zf_st_entry *e, struct zf_arena *a, struct zf_type *whole,
                         struct nanotron_part *out, struct zf_err *err)
{
    struct nanotron_slice *slice = zf_arena_get(a, 1, sizeof *slice, err);

    whole->shape = e->shape;
    *out = (struct nanotron_part){.n = 1, .slice = slice};
    if (!slice || !zf_elems(e->ndim, e->shape, &out->elems))
        return slice && zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "its shape overflows");
    slice->start = zf_arena_get(a, e->ndim, sizeof *slice->start, err);
    slice->size = e->shape;
    slice->n = out->elems;
    return slice->start != NULL;
}

bool slices_read_part(const struct zf_st_header *h, struct zf_arena *a, struct zf_type *whole,
                      struct nanotron_part *out, struct zf_err *err)
{
    const char *shape = zf_st_meta(h, slices_shape), *pairs = zf_st_meta(h, slices_pairs);
    const struct zf_st_entry *e = h->entry;
    uint64_t extent[SLICES_DIMS];
    uint32_t ndim;

    if (h->n != 1 || e->ndim > SLICES_DIMS) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "it has %" PRIu64 " tensors, expected one of at most %d dimensions", h->n,
                       SLICES_DIMS);
    }
    *whole = (struct zf_type){.dtype = e->dtype, .ndim = e->ndim};
    if (!shape || !pairs)
        return slices_whole(e, a, whole, out, err);
    if (!slices_read_shape(shape, &ndim, extent) || ndim != e->ndim) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "%s \"%.80s\" is not a shape of %" PRIu32
                       " dimensions, which its tensor has",
                       slices_shape, shape, e->ndim);
    }
    whole->shape = zf_arena_copy(a, extent, ndim, sizeof *extent, err);
    return whole->shape && slices_read(pairs, e, a, whole, out, err);
}

bool slices_put(const struct nanotron_part *p, struct zf_draft *whole, uint64_t first, uint64_t end,
                struct zf_source *src, uint64_t off, struct zf_err *err)
{
    const uint64_t each = zf_dtype_info(zf_draft_type(whole).dtype)->bytes;

    for (uint32_t i = 0; i < p->n; i++) {
        const struct nanotron_slice *s = &p->slice[i];
        uint64_t from = first > s->at ? first : s->at;
        uint64_t to = end < s->at + s->n ? end : s->at + s->n;

        if (from < to &&
            !zf_draft_put(whole,
                          (struct zf_where){s->start, s->size, from - s->at, to - from, false},
                          (struct zf_from){.src = src, .off = off + (from - first) * each}, err))
            return false;
    }
    return true;
}
