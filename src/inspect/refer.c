/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the elements of a box that are in a range of a file: with the axes sorted by stride, the elements are in the
 * order of their offsets, so those in the range are consecutive. */
#include <zf/inspect/refer.h>

#include <stdlib.h>

#include <zf/base/table.h>
#include <zf/model/origins.h>

/* ---- files ------------------------------------------------------------------------------------- */

struct refer_seen {
    UT_hash_handle hh; /* key: the file's address */
};

struct refer_files {
    zf_refer_list *out;
    struct refer_seen *seen; /* uthash: files already in the list */
    struct zf_err *err;
};

static bool refer_add_one(struct refer_files *f, struct zf_source *file)
{
    if (!file->ops->identity || zf_table_find_id(f->seen, (uintptr_t)file))
        return true;
    struct zf_source **one =
        zf_table_make_id(f->seen, (uintptr_t)file, f->err) ? zf_vec_push(f->out, f->err) : NULL;
    if (one)
        *one = file;
    return one != NULL;
}

/* Adds the files of a source, which may consist of several in a row.  It does not locate items within a file, which
 * would read the head of each. */
static bool refer_add_file(void *ctx, struct zf_source *s, uint64_t off, uint64_t len)
{
    struct zf_source *file = zf_source_only_file(s);

    if (file)
        return refer_add_one(ctx, file);
    bool ok = len > 0 || refer_add_one(ctx, s);

    while (ok && len > 0) {
        const struct zf_trace t = zf_source_trace(s, off, len);
        const uint64_t n = t.len > 0 && t.len < len ? t.len : len;

        ok = refer_add_one(ctx, t.src);
        off += n;
        len -= n;
    }
    return ok;
}

bool zf_refer_files(const struct zf_checkpoint *c, zf_refer_list *out, struct zf_err *err)
{
    struct refer_files f = {.out = out, .err = err};
    bool ok = true;

    for (uint32_t i = 0; ok && i < c->n_sets; i++)
        for (uint32_t k = 0; ok && k < c->set[i].n; k++)
            ok = zf_map_each_source(c->set[i].tensor[k].data, refer_add_file, &f);
    zf_table_free(f.seen);
    return ok;
}

/* ---- elements ---------------------------------------------------------------------------------- */

/* An axis of a box with several elements and a stride that is not 0. */
struct refer_axis {
    uint32_t d; /* dimension of the tensor */
    uint64_t n, stride;
};

struct refer {
    const struct zf_source *file;
    uint64_t first, end;
    zf_refer_fn *fn;
    void *ctx;
    bool more;
    struct zf_refer hit; /* its set and tensor */
    uint64_t elem;
    struct zf_origins *origins;
    struct refer_axis *axis; /* [n] by stride, the largest first */
    uint32_t n;
    uint64_t *start, *count;      /* [ndim] of the hit */
    uint64_t *size, *at, *extent; /* [n] of axis */
};

static int refer_cmp_axis(const void *a, const void *b)
{
    const struct refer_axis *x = a, *y = b;

    return x->stride != y->stride ? (x->stride < y->stride ? 1 : -1)
           : x->d < y->d          ? -1
                                  : x->d > y->d;
}

/* Collects the axes of o's box.  False: some of its elements share bytes. */
static bool refer_fill_axes(struct refer *r, const struct zf_origin *o)
{
    uint64_t stride = r->elem, span = r->elem;

    r->n = 0;
    for (uint32_t d = r->hit.tensor->ndim; d-- > 0;) {
        const struct refer_axis one = {d, o->count[d], o->stride ? o->stride[d] : stride};

        stride *= o->count[d];
        if (one.n > 1 && one.stride > 0)
            r->axis[r->n++] = one;
    }
    qsort(r->axis, r->n, sizeof *r->axis, refer_cmp_axis);
    for (uint32_t k = r->n; k-- > 0;) {
        r->size[k] = r->axis[k].n;
        if (r->axis[k].stride < span)
            return false;
        span += (r->axis[k].n - 1) * r->axis[k].stride;
    }
    return true;
}

/* The number of elements of the box that start before byte x, counted from its first byte. */
static uint64_t refer_before(const struct refer *r, uint64_t x)
{
    uint64_t before = 0;

    if (x == 0)
        return 0;
    for (uint32_t k = 0; k < r->n; k++) {
        const struct refer_axis *a = &r->axis[k];
        const uint64_t i = (x - 1) / a->stride < a->n - 1 ? (x - 1) / a->stride : a->n - 1;

        before = before * a->n + i;
        x -= i * a->stride;
    }
    return before + 1;
}

/* Reports a hit.  first, end: the byte range of the box in the file. */
static void refer_report(struct refer *r, uint64_t first, uint64_t end, bool exact)
{
    r->hit.start = r->start;
    r->hit.count = r->count;
    r->hit.first = first < r->first ? r->first : first;
    r->hit.end = end > r->end ? r->end : end;
    r->hit.exact = exact;
    r->more = r->fn(r->ctx, &r->hit);
}

static void refer_stretch(struct refer *r, const struct zf_origin *o, uint64_t k, uint64_t end)
{
    while (r->more && k < end) {
        uint64_t off = o->off, span = r->elem;

        k += zf_box_sub(r->n, r->size, k, end - k, r->at, r->extent);
        for (uint32_t i = 0; i < r->n; i++) {
            const struct refer_axis *a = &r->axis[i];

            r->start[a->d] = o->start[a->d] + r->at[i];
            r->count[a->d] = r->extent[i];
            off += r->at[i] * a->stride;
            span += (r->extent[i] - 1) * a->stride;
        }
        refer_report(r, off, off + span, true);
    }
}

static bool refer_add(void *ctx, const struct zf_origin *o)
{
    struct refer *r = ctx;

    if (o->kind != ZF_ORIGIN_FILE || o->src != r->file || o->off >= r->end ||
        o->off + o->bytes <= r->first)
        return true;
    for (uint32_t d = 0; d < r->hit.tensor->ndim; d++) {
        r->start[d] = o->start[d];
        r->count[d] = o->count[d];
    }
    if (o->codec || !refer_fill_axes(r, o)) {
        refer_report(r, o->off, o->off + o->bytes, false);
        return r->more;
    }
    const uint64_t skip = r->first > o->off ? r->first - o->off : 0;
    refer_stretch(r, o, refer_before(r, skip < r->elem ? 0 : skip - r->elem + 1),
                  refer_before(r, r->end - o->off));
    return r->more;
}

static bool refer_piece(void *ctx, const struct zf_extent *e)
{
    struct refer *r = ctx;

    return zf_origins_of(r->origins, e, refer_add, r);
}

static bool refer_tensor(struct refer *r, struct zf_err *err)
{
    const size_t nd = r->hit.tensor->ndim + 1ul;
    zf_auto(mem) struct zf_origins *origins = zf_origins_new(r->hit.tensor, err);
    zf_auto(mem) struct refer_axis *axis = calloc(nd, sizeof *axis);
    zf_auto(mem) uint64_t *room = calloc(5 * nd, sizeof *room);

    if (!origins || !axis || !room)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    r->elem = zf_dtype_info(r->hit.tensor->dtype)->bytes;
    r->origins = origins;
    r->axis = axis;
    r->start = room;
    r->count = room + nd;
    r->size = room + 2 * nd;
    r->at = room + 3 * nd;
    r->extent = room + 4 * nd;
    (void)zf_map_each_extent(r->hit.tensor->data, refer_piece, r);
    return true;
}

bool zf_refer_each(const struct zf_checkpoint *c, const struct zf_source *file, uint64_t first,
                   uint64_t end, zf_refer_fn *fn, void *ctx, struct zf_err *err)
{
    struct refer r = {.file = file, .first = first, .end = end, .fn = fn, .ctx = ctx, .more = true};

    for (uint32_t i = 0; r.more && i < c->n_sets; i++) {
        for (uint32_t k = 0; r.more && k < c->set[i].n; k++) {
            r.hit = (struct zf_refer){.set = &c->set[i], .tensor = &c->set[i].tensor[k]};
            if (!refer_tensor(&r, err))
                return false;
        }
    }
    return true;
}
