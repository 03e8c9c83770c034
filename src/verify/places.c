/* SPDX-License-Identifier: Apache-2.0 */
#include "places.h"

#include <zf/base/num.h>
#include <zf/base/search.h>
#include <zf/base/table.h>

struct places_index {
    UT_hash_handle hh; /* key: address of the source */
    size_t file;
};

struct places_making {
    struct places *p;
    uint32_t tensor;
    uint32_t elem; /* bytes per element */
    struct zf_err *err;
};

/* ---- making ---------------------------------------------------------------------------------- */

static struct place_file *places_file(struct places *p, struct zf_source *src, struct zf_err *err)
{
    const unsigned before = HASH_COUNT(p->index);
    struct places_index *e = zf_table_make_id(p->index, (uintptr_t)src, err);

    if (e && HASH_COUNT(p->index) > before) {
        struct place_file *f = zf_vec_push(&p->file, err);

        if (!f)
            return NULL;
        f->src = src;
        e->file = p->file.n - 1;
    }
    return e ? &p->file.at[e->file] : NULL;
}

static bool places_add(struct places_making *m, struct zf_source *file, struct place at)
{
    struct place_file *f = places_file(m->p, file, m->err);
    struct place *to = f ? zf_vec_push(&f->at, m->err) : NULL;

    if (to) {
        *to = at;
        to->tensor = m->tensor;
    }
    return to != NULL;
}

static bool places_add_made(struct places_making *m, struct zf_source *src, uint64_t off,
                            uint64_t n)
{
    struct place_made *last = m->p->made.n ? &m->p->made.at[m->p->made.n - 1] : NULL;

    if (last && last->src == src && last->tensor == m->tensor && last->off + last->n == off) {
        last->n += n;
        return true;
    }
    last = zf_vec_push(&m->p->made, m->err);
    if (last)
        *last = (struct place_made){.src = src, .off = off, .n = n, .tensor = m->tensor};
    return last != NULL;
}

/* Adds a compressed stream as one place, however many pieces of it are used. */
static bool places_add_packed(struct places_making *m, const struct zf_trace *t)
{
    const struct place at = {.off = t->off, .end = t->off + t->packed};
    const struct place_file *f = places_file(m->p, t->src, m->err);
    const struct place *last = f && f->at.n ? &f->at.at[f->at.n - 1] : NULL;

    return f &&
           ((last && last->tensor == m->tensor && last->off == at.off && last->end == at.end) ||
            places_add(m, t->src, at));
}

/* Adds n contiguous bytes of a source from off on.  A lost copy may extend beyond its source. */
static bool places_add_run(struct places_making *m, struct zf_source *src, uint64_t off, uint64_t n)
{
    n = off < src->size ? (n < src->size - off ? n : src->size - off) : 0;
    while (n > 0) {
        struct zf_lost how;
        uint64_t until = off + n;
        const bool lost = zf_source_lost(src, off, &until, &how);
        uint64_t step = until - off < n ? until - off : n;
        const struct zf_trace t = zf_source_trace(src, off, step);
        const bool file = t.src->ops->identity != NULL;

        step = !lost && t.len > 0 && t.len < step ? t.len : step;
        if (!lost) {
            const bool raw = file && !t.codec && !t.swap && step % m->elem == 0;
            const struct place at = {.off = t.off, .end = t.off + step, .raw = raw};

            if ((file && !(t.codec ? places_add_packed(m, &t) : places_add(m, t.src, at))) ||
                (!raw && !places_add_made(m, src, off, step)))
                return false;
        }
        off += step;
        n -= step;
    }
    return true;
}

/* Number of bytes from the first to the last one of the rows. */
static uint64_t place_rows_span(const struct place_rows *r)
{
    uint64_t span = r->run;

    for (uint32_t d = 0; d < r->nd; d++)
        span += (r->n[d] - 1) * r->step[d];
    return span;
}

/* Describes the piece as rows, largest strides first; contiguous ones are merged.  False: too many dimensions. */
static bool place_rows_of(const struct zf_extent *e, struct place_rows *out)
{
    *out = (struct place_rows){.run = 1};
    for (uint32_t d = 0; d < e->nd; d++) {
        uint32_t at = out->nd;

        if (e->size[d] == 1 || e->stride[d] == 0)
            continue;
        if (at == PLACE_DIMS)
            return false;
        for (; at > 0 && out->step[at - 1] < e->stride[d]; at--) {
            out->step[at] = out->step[at - 1];
            out->n[at] = out->n[at - 1];
        }
        out->step[at] = e->stride[d];
        out->n[at] = e->size[d];
        out->nd++;
    }
    while (out->nd > 0 && out->step[out->nd - 1] == out->run)
        out->run *= out->n[--out->nd];
    return true;
}

static bool places_add_each_row(struct places_making *m, const struct zf_extent *e,
                                const struct place_rows *r)
{
    uint64_t at[PLACE_DIMS] = {0}, off = e->off;
    uint32_t d;

    do {
        if (!places_add_run(m, e->src, off, r->run))
            return false;
        for (d = r->nd; d-- > 0;) {
            off += r->step[d];
            if (++at[d] < r->n[d])
                break;
            off -= r->n[d] * r->step[d];
            at[d] = 0;
        }
    } while (d < r->nd);
    return true;
}

/* Adds rows: if all are in one file, as one place with strides, else row by row. */
static bool places_add_rows(struct places_making *m, const struct zf_extent *e)
{
    struct place_rows r;

    if (!place_rows_of(e, &r)) {
        return zf_fail(m->err, ZF_E_LIMIT, ZF_OFF_NONE, "a tensor has more than %u dimensions",
                       PLACE_DIMS);
    }
    if (r.nd == 0)
        return places_add_run(m, e->src, e->off, r.run);
    const uint64_t span = place_rows_span(&r);
    const struct zf_trace t = zf_source_trace(e->src, e->off, span);
    struct zf_lost how;
    uint64_t until = 0;

    if (!t.src->ops->identity || t.codec || t.swap || t.len < span || r.run % m->elem != 0 ||
        zf_source_lost(e->src, e->off, &until, &how) || until < e->off + span)
        return places_add_each_row(m, e, &r);
    struct place_rows *to = zf_vec_push(&m->p->rows, m->err);
    if (!to)
        return false;
    *to = r;
    return places_add(
        m, t.src,
        (struct place){
            .off = t.off, .end = t.off + span, .rows = (uint32_t)m->p->rows.n, .raw = true});
}

static bool places_add_extent(void *ctx, const struct zf_extent *e)
{
    struct places_making *m = ctx;
    uint64_t n = 1;

    for (uint32_t d = 0; d < e->nd; d++)
        n *= e->size[d];
    if (!e->src || n == 0)
        return true;
    return e->stride ? places_add_rows(m, e) : places_add_run(m, e->src, e->off, n);
}

/* ---- in order -------------------------------------------------------------------------------- */

static int places_by_name(const void *a, const void *b)
{
    const struct place_file *x = a, *y = b;

    return strcmp(x->src->name, y->src->name);
}

static int places_by_off(const void *a, const void *b)
{
    const struct place *x = a, *y = b;

    return x->off != y->off ? (x->off > y->off) - (x->off < y->off)
                            : (x->tensor > y->tensor) - (x->tensor < y->tensor);
}

static int places_by_source(const void *a, const void *b)
{
    const struct place_made *x = a, *y = b;

    return x->src != y->src ? ((uintptr_t)x->src > (uintptr_t)y->src ? 1 : -1)
                            : (x->off > y->off) - (x->off < y->off);
}

static void places_sort(struct places *p)
{
    if (p->made.n > 0)
        qsort(p->made.at, p->made.n, sizeof *p->made.at, places_by_source);
    if (p->file.n > 0)
        qsort(p->file.at, p->file.n, sizeof *p->file.at, places_by_name);
    for (size_t i = 0; i < p->file.n; i++) {
        struct place_file *f = &p->file.at[i];
        struct places_index *e = zf_table_find_id(p->index, (uintptr_t)f->src);
        uint64_t reach = 0;

        e->file = i;
        qsort(f->at.at, f->at.n, sizeof *f->at.at, places_by_off);
        for (size_t k = 0; k < f->at.n; k++) {
            reach = f->at.at[k].end > reach ? f->at.at[k].end : reach;
            f->at.at[k].reach = reach;
        }
    }
}

bool places_init(struct places *p, const struct zf_verify_tensor *tensor, size_t n,
                 struct zf_err *err)
{
    *p = (struct places){.index = NULL};
    for (size_t i = 0; i < n; i++) {
        struct places_making m = {.p = p,
                                  .tensor = (uint32_t)i,
                                  .elem = zf_dtype_info(tensor[i].tensor->dtype)->bytes,
                                  .err = err};

        if (!zf_map_each_extent(tensor[i].tensor->data, places_add_extent, &m))
            return zf_err_in(err, "%s", tensor[i].path);
    }
    places_sort(p);
    return true;
}

/* The end of the places that contain byte `off` of a file; off: no place does. */
static uint64_t places_end(const struct places *p, const struct zf_source *file, uint64_t off)
{
    const struct place_file *f = places_find(p, file);
    uint64_t end = off;

    for (size_t i = f ? place_begin(f, off) : 0;
         f && i < f->at.n && f->at.at[i].off <= off && end == off; i++)
        end = f->at.at[i].end > end ? f->at.at[i].end : end;
    return end;
}

/* Are all n bytes of a source in a place of p or other?  Bytes between rows, and bytes that are made, count as yes. */
static bool places_cover(const struct places *p, const struct places *other, struct zf_source *src,
                         uint64_t off, uint64_t n)
{
    for (uint64_t step; n > 0; off += step, n -= step) {
        const struct zf_trace t = zf_source_trace(src, off, n);
        uint64_t end = places_end(p, t.src, t.off);

        end = end > t.off ? end : places_end(other, t.src, t.off);
        step = t.len > 0 && t.len < n ? t.len : n;
        if (t.src->ops->identity && !t.codec)
            step = end - t.off < step ? end - t.off : step;
        if (step == 0)
            return false;
    }
    return true;
}

/* Upper bound of the rounds needed for copies of copies: each round uses what the previous one added. */
#define PLACES_ROUNDS 8

bool places_init_copies(struct places *p, const struct places *shown, const struct zf_copy *copy,
                        uint64_t n, struct zf_err *err)
{
    zf_auto(mem) bool *done = calloc(n + 1, sizeof *done);
    bool more = true;

    *p = (struct places){.index = NULL};
    if (!done)
        return zf_fail_sys(err, "compare copies");
    for (int round = 0; round < PLACES_ROUNDS && more; round++) {
        more = false;
        for (uint64_t i = 0; i < n; i++) {
            const struct zf_copy *c = &copy[i];
            struct places_making m = {.p = p, .elem = 1, .err = err};

            if (done[i] || (c->src[0] && !places_cover(shown, p, c->src[0], c->off[0], c->n)))
                continue;
            done[i] = more = true;
            if (!places_add_run(&m, c->src[1], c->off[1], c->n))
                return false;
        }
        places_sort(p);
    }
    return true;
}

void places_fini(struct places *p)
{
    for (size_t i = 0; i < p->file.n; i++)
        zf_vec_fini(&p->file.at[i].at);
    zf_vec_fini(&p->file);
    zf_vec_fini(&p->rows);
    zf_vec_fini(&p->made);
    zf_table_free(p->index);
}

/* ---- asking ---------------------------------------------------------------------------------- */

const struct place_file *places_find(const struct places *p, const struct zf_source *file)
{
    const struct places_index *e = zf_table_find_id(p->index, (uintptr_t)file);

    return e ? &p->file.at[e->file] : NULL;
}

size_t place_begin(const struct place_file *f, uint64_t first)
{
    size_t i;

    ZF_SEARCH(i, f->at.n, f->at.at[i].reach > first);
    return i;
}

/* A walk over rows within [first, end). */
struct rows_walk {
    const struct place_rows *r;
    uint64_t
        inner[PLACE_DIMS + 1]; /* bytes from the first to the last one of dimensions d and up */
    uint64_t first, end;
    place_run_fn *fn;
    void *ctx;
};

static void place_rows_emit(const struct rows_walk *w, uint64_t off)
{
    const uint64_t from = off > w->first ? off : w->first, last = off + w->r->run,
                   to = last < w->end ? last : w->end;

    if (from < to)
        w->fn(w->ctx, from, to - from);
}

/* Visits the rows of dimensions d and up, which start at off.  Recursive: at most PLACE_DIMS deep. */
static void place_rows_walk(const struct rows_walk *w, uint32_t d, uint64_t off)
{
    if (d == w->r->nd) {
        place_rows_emit(w, off);
        return;
    }
    const uint64_t step = w->r->step[d];
    uint64_t i = off + w->inner[d + 1] > w->first ? 0 : (w->first - off - w->inner[d + 1]) / step;

    for (; i < w->r->n[d] && off + i * step < w->end; i++)
        place_rows_walk(w, d + 1, off + i * step);
}

void place_each_run(const struct places *p, const struct place *at, uint64_t first, uint64_t end,
                    place_run_fn *fn, void *ctx)
{
    const uint64_t from = at->off > first ? at->off : first, to = at->end < end ? at->end : end;

    if (!at->rows) {
        if (from < to)
            fn(ctx, from, to - from);
        return;
    }
    struct rows_walk w = {
        .r = &p->rows.at[at->rows - 1], .first = first, .end = end, .fn = fn, .ctx = ctx};

    w.inner[w.r->nd] = w.r->run;
    for (uint32_t d = w.r->nd; d-- > 0;)
        w.inner[d] = w.inner[d + 1] + (w.r->n[d] - 1) * w.r->step[d];
    place_rows_walk(&w, 0, at->off);
}

static void place_note_hit(void *hit, uint64_t off, uint64_t n)
{
    (void)off;
    *(bool *)hit = n > 0;
}

static int place_by_number(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

bool places_tensors(const struct places *p, const struct zf_source *file, uint64_t first,
                    uint64_t end, place_tensors *out, struct zf_err *err)
{
    const struct place_file *f = places_find(p, file);
    const size_t before = out->n;
    size_t n = before;

    for (size_t i = f ? place_begin(f, first) : 0; f && i < f->at.n && f->at.at[i].off < end; i++) {
        const struct place *at = &f->at.at[i];
        bool hit = false;

        place_each_run(p, at, first, end, place_note_hit, &hit);
        uint32_t *to = hit ? zf_vec_push(out, err) : NULL;
        if (hit && !to)
            return false;
        if (to)
            *to = at->tensor;
    }
    if (out->n - before > 1)
        qsort(out->at + before, out->n - before, sizeof *out->at, place_by_number);
    for (size_t i = before; i < out->n; i++)
        if (n == before || out->at[n - 1] != out->at[i])
            out->at[n++] = out->at[i];
    out->n = n;
    return true;
}
