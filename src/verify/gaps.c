/* SPDX-License-Identifier: Apache-2.0 */
#include "gaps.h"

#include <zf/base/search.h>

/* Bytes of strided rows are marked one by one, in windows of this size. */
#define GAPS_WINDOW ((size_t)64 << 10)

struct gaps_span {
    uint64_t off, end;
};

struct gaps_work {
    struct gaps *g;
    const struct zf_source *src;
    const struct places *const *shown;
    size_t n;
    bool rows;                      /* some places are strided rows */
    zf_vec(struct gaps_span) plain; /* the other places, merged, sorted by off */
    uint8_t *mark;                  /* [GAPS_WINDOW] */
    uint64_t base;                  /* file offset of mark[0] */
    const struct extent *of;
    struct zf_err *err;
};

static int gaps_by_off(const void *a, const void *b)
{
    const struct gaps_span *x = a, *y = b;

    return (x->off > y->off) - (x->off < y->off);
}

static bool gaps_load(struct gaps_work *w)
{
    size_t n = 0;

    for (size_t k = 0; k < w->n; k++) {
        const struct place_file *f = places_find(w->shown[k], w->src);

        for (size_t i = 0; f && i < f->at.n; i++) {
            struct gaps_span *to = f->at.at[i].rows ? NULL : zf_vec_push(&w->plain, w->err);

            w->rows |= f->at.at[i].rows != 0;
            if (!f->at.at[i].rows && !to)
                return false;
            if (to)
                *to = (struct gaps_span){f->at.at[i].off, f->at.at[i].end};
        }
    }
    if (w->plain.n > 0)
        qsort(w->plain.at, w->plain.n, sizeof *w->plain.at, gaps_by_off);
    for (size_t i = 0; i < w->plain.n; i++) {
        struct gaps_span *last = n ? &w->plain.at[n - 1] : NULL, now = w->plain.at[i];

        if (last && now.off <= last->end)
            last->end = now.end > last->end ? now.end : last->end;
        else
            w->plain.at[n++] = now;
    }
    w->plain.n = n;
    return true;
}

/* Index of the first span that ends after off. */
static size_t gaps_plain_at(const struct gaps_work *w, uint64_t off)
{
    size_t i;

    ZF_SEARCH(i, w->plain.n, w->plain.at[i].end > off);
    return i;
}

static bool gaps_add(struct gaps_work *w, uint64_t off, uint64_t end)
{
    struct gap *last = w->g->at.n ? &w->g->at.at[w->g->at.n - 1] : NULL;

    if (!last || last->record != w->of->record || last->end != off) {
        last = zf_vec_push(&w->g->at, w->err);
        if (!last)
            return false;
        *last = (struct gap){.off = off, .record = w->of->record};
    }
    last->end = end;
    last->whole = last->off == w->of->off && end == w->of->end;
    return true;
}

static void gaps_note_run(void *ctx, uint64_t off, uint64_t n)
{
    struct gaps_work *w = ctx;

    memset(w->mark + (off - w->base), 1, (size_t)n);
}

/* Adds the gaps in bytes [off, end), at most GAPS_WINDOW, which are in no plain place. */
static bool gaps_add_window(struct gaps_work *w, uint64_t off, uint64_t end)
{
    memset(w->mark, 0, (size_t)(end - off));
    w->base = off;
    for (size_t k = 0; k < w->n; k++) {
        const struct place_file *f = places_find(w->shown[k], w->src);

        for (size_t i = f ? place_begin(f, off) : 0; f && i < f->at.n && f->at.at[i].off < end; i++)
            if (f->at.at[i].rows)
                place_each_run(w->shown[k], &f->at.at[i], off, end, gaps_note_run, w);
    }
    for (uint64_t at = off, next; at < end; at = next) {
        const uint8_t is = w->mark[at - off];
        const uint8_t *other = memchr(w->mark + (at - off), !is, (size_t)(end - at));

        next = other ? off + (uint64_t)(other - w->mark) : end;
        w->g->shown += is ? next - at : 0;
        if (!is && !gaps_add(w, at, next))
            return false;
    }
    return true;
}

static bool gaps_add_rest(struct gaps_work *w, uint64_t off, uint64_t end)
{
    if (!w->rows)
        return gaps_add(w, off, end);
    for (uint64_t at = off, next; at < end; at = next) {
        next = end - at < GAPS_WINDOW ? end : at + GAPS_WINDOW;
        if (!gaps_add_window(w, at, next))
            return false;
    }
    return true;
}

static bool gaps_look(struct gaps_work *w, uint64_t off, uint64_t end)
{
    for (size_t i = gaps_plain_at(w, off); off < end; i++) {
        const uint64_t first =
            i < w->plain.n && w->plain.at[i].off < end ? w->plain.at[i].off : end;
        const uint64_t next = i < w->plain.n && w->plain.at[i].end < end ? w->plain.at[i].end : end;

        if (first > off && !gaps_add_rest(w, off, first))
            return false;
        off = first > off ? first : off;
        w->g->shown += next - off;
        off = next;
    }
    return true;
}

bool gaps_find(struct gaps *g, const struct extents *x, const struct zf_source *src,
               const struct places *const *shown, size_t n, struct zf_err *err)
{
    struct gaps_work w = {.g = g, .src = src, .shown = shown, .n = n, .err = err};
    uint64_t reached = 0;
    bool ok;

    *g = (struct gaps){.shown = 0};
    w.mark = malloc(GAPS_WINDOW);
    ok = w.mark ? gaps_load(&w) : zf_fail_sys(err, "compare tensors with files");
    for (size_t i = 0; ok && i < x->at.n; i++) {
        const uint64_t off = x->at.at[i].off > reached ? x->at.at[i].off : reached;

        w.of = &x->at.at[i];
        ok = off >= w.of->end || gaps_look(&w, off, w.of->end);
        reached = w.of->end > reached ? w.of->end : reached;
    }
    zf_vec_fini(&w.plain);
    free(w.mark);
    return ok;
}

void gaps_fini(struct gaps *g)
{
    zf_vec_fini(&g->at);
}
