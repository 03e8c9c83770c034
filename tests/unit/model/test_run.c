/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of runs, flat pieces and boxes at once, against brute force: a plain loop says which
 * element every piece covers and where in the source it is. */
#include "support/unit.h"

#include <stdlib.h>

#include <zf/model/build.h>

#include "support/random.h"

#define LAYOUTS 6000
#define MAX_PIECES 96
#define MAX_ELEMS 4096
#define ELEM 2 /* F16 */

static struct zf_err err;

enum how { RUN, BOX, FLAT };
struct piece {
    enum how how;
    uint64_t start[4], size[4]; /* RUN, BOX */
    uint64_t first, n;          /* RUN, FLAT */
    uint64_t off;               /* bytes of the source */
};

struct layout {
    uint32_t nd;
    uint64_t shape[4], elems, used;
    uint32_t n;
    struct piece piece[MAX_PIECES];
    uint64_t place[MAX_ELEMS]; /* byte of the source an element is at */
    uint32_t times[MAX_ELEMS]; /* how many pieces cover it */
};

static uint64_t volume(uint32_t nd, const uint64_t *size)
{
    uint64_t n = 1;

    for (uint32_t d = 0; d < nd; d++)
        n *= size[d];
    return n;
}

/* The element of the tensor that is number i of the box. */
static uint64_t element(const struct layout *l, const struct piece *p, uint64_t i)
{
    uint64_t at = 0, step = 1;

    if (p->how == FLAT)
        return i;
    for (uint32_t d = l->nd; d-- > 0;) {
        at += (p->start[d] + i % p->size[d]) * step;
        i /= p->size[d];
        step *= l->shape[d];
    }
    return at;
}

static void add(struct layout *l, struct piece p)
{
    if (l->n < MAX_PIECES) {
        p.off = l->used + ELEM * random_below(3);
        l->used = p.off + ELEM * p.n;
        l->piece[l->n++] = p;
    }
}

/* Cuts the range [first, first + n) of a box (or of the tensor) into runs. */
static void cut_range(struct layout *l, struct piece p, uint64_t end)
{
    for (uint64_t at = 0; at < end; at += p.n) {
        p.first = at;
        p.n = random_below(3) ? 1 + random_below(end - at) : end - at;
        p.n = l->n + 8 > MAX_PIECES ? end - at : p.n;
        add(l, p);
    }
}

/* Halves the box until chance says that it is a leaf: one box, or runs. */
static void cut_box(struct layout *l, struct piece p, uint32_t depth)
{
    uint32_t d = (uint32_t)random_below(l->nd ? l->nd : 1);

    if (l->nd > 0 && depth < 4 && p.size[d] > 1 && random_below(4)) {
        struct piece q = p;
        uint64_t at = 1 + random_below(p.size[d] - 1);

        p.size[d] = at;
        q.start[d] += at;
        q.size[d] -= at;
        cut_box(l, p, depth + 1);
        cut_box(l, q, depth + 1);
        return;
    }
    p.n = volume(l->nd, p.size);
    p.how = random_below(3) ? RUN : BOX;
    if (p.how == BOX)
        add(l, p);
    else
        cut_range(l, p, p.n);
}

static void count(struct layout *l)
{
    memset(l->times, 0, sizeof l->times);
    for (uint32_t i = 0; i < l->n; i++) {
        const struct piece *p = &l->piece[i];

        for (uint64_t k = 0; k < p->n; k++) {
            uint64_t e = element(l, p, p->first + k);

            l->times[e]++;
            l->place[e] = p->off + k * ELEM;
        }
    }
}

static void make(struct layout *l)
{
    struct piece all = {.how = BOX};

    l->nd = (uint32_t)random_below(5);
    l->n = 0;
    l->used = 0;
    for (uint32_t d = 0; d < 4; d++) {
        l->shape[d] = d < l->nd ? 1 + random_below(l->nd == 1 ? 60 : 8) : 1;
        all.size[d] = l->shape[d];
    }
    l->elems = volume(l->nd, l->shape);
    if (random_below(4) == 0 && l->nd > 0) {
        /* The first rows as flat pieces, the others as anything. */
        all.start[0] = random_below(l->shape[0]);
        all.size[0] -= all.start[0];
        cut_range(l, (struct piece){.how = FLAT}, all.start[0] * (l->elems / l->shape[0]));
    }
    cut_box(l, all, 0);
    for (uint32_t i = l->n; i > 1; i--) {
        uint64_t j = random_below(i);
        struct piece t = l->piece[i - 1];

        l->piece[i - 1] = l->piece[j];
        l->piece[j] = t;
    }
    count(l);
}

static bool put(struct zf_draft *d, const struct piece *p, struct zf_source *src)
{
    struct zf_from from = {.src = src, .off = p->off};

    switch (p->how) {
    case RUN:
        return zf_draft_put(d, (struct zf_where){p->start, p->size, p->first, p->n, false}, from,
                            &err);
    case BOX:
        return zf_draft_box(d, p->start, p->size, from, &err);
    case FLAT:
        return zf_draft_flat(d, p->first, p->n, from, &err);
    }
    return false;
}

static struct zf_build *draft(const struct layout *l, struct zf_source *src, bool degraded,
                              uint32_t lost)
{
    static const struct zf_lost how = {.file = "rank3.pt", .why = "is missing"};
    struct zf_limits lim = zf_limits_default();
    struct zf_build *b = zf_build_new(NULL, &lim, degraded, &err);

    assert_non_null(b);
    struct zf_draft *d = zf_build_tensor(b, (struct zf_spot){"", "w", 1},
                                         (struct zf_type){ZF_DT_F16, l->nd, l->shape}, &err);
    assert_non_null(d);
    for (uint32_t i = 0; i < l->n; i++) {
        const struct piece *p = &l->piece[i];

        if (i != lost) {
            assert_ok(put(d, p, src), &err);
        } else if (p->how == RUN) {
            assert_ok(zf_draft_put(d, (struct zf_where){p->start, p->size, p->first, p->n, false},
                                   (struct zf_from){.lost = &how}, &err),
                      &err);
        } else if (p->how == BOX) {
            assert_ok(zf_draft_box(d, p->start, p->size, (struct zf_from){.lost = &how}, &err),
                      &err);
        } else {
            assert_ok(zf_draft_flat(d, p->first, p->n, (struct zf_from){.lost = &how}, &err), &err);
        }
    }
    return b;
}

static void check_element(const struct layout *l, const struct zf_map *m, struct zf_source *s,
                          uint64_t e)
{
    unsigned char got[ELEM], want[ELEM];

    assert_ok(zf_map_read(m, got, ELEM, e * ELEM, &err), &err);
    assert_ok(zf_source_pread(s, want, ELEM, l->place[e], &err), &err);
    assert_memory_equal(got, want, ELEM);
}

static void every_element_is_where_its_piece_says(void **state)
{
    static struct layout l;
    unsigned char whole[MAX_ELEMS * ELEM], got[ELEM];

    (void)state;
    for (int i = 0; i < LAYOUTS; i++) {
        make(&l);
        zf_auto(source) struct zf_source *s = random_source(l.used);
        zf_auto(checkpoint) struct zf_checkpoint *c =
            zf_build_seal(draft(&l, s, false, UINT32_MAX), "t", "", &err);
        assert_ok(c, &err);
        const struct zf_map *m = c->set[0].tensor[0].data;
        assert_int_equal(zf_map_size(m), l.elems * ELEM);
        assert_ok(zf_map_read(m, whole, (size_t)(l.elems * ELEM), 0, &err), &err);
        for (uint64_t e = 0; e < l.elems; e++) {
            check_element(&l, m, s, e);
            assert_ok(zf_map_read(m, got, ELEM, e * ELEM, &err), &err);
            assert_memory_equal(whole + e * ELEM, got, ELEM);
        }
    }
}

/* One piece goes, or one comes twice: refused; degraded, exactly those elements are lost. */
static void holes_and_overlaps_are_found(void **state)
{
    static struct layout l;
    unsigned char got[ELEM];

    (void)state;
    for (int i = 0; i < LAYOUTS; i++) {
        make(&l);
        zf_auto(source) struct zf_source *s = random_source(l.used);
        uint32_t k = (uint32_t)random_below(l.n);
        bool twice = random_below(2) && l.n < MAX_PIECES;

        if (twice) {
            struct piece *p = &l.piece[l.n];

            *p = l.piece[k];
            if (p->how != BOX) {
                p->first += random_below(p->n);
                p->n = 1;
            }
            l.n++;
        } else {
            l.piece[k] = l.piece[--l.n];
        }
        count(&l);
        assert_null(zf_build_seal(draft(&l, s, false, UINT32_MAX), "t", "", &err));
        assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE,
                   twice ? "covered by more than one piece" : "covered by nothing");
        zf_auto(checkpoint) struct zf_checkpoint *c =
            zf_build_seal(draft(&l, s, true, UINT32_MAX), "t", "", &err);
        assert_ok(c, &err);
        assert_true(c->set[0].tensor[0].lost);
        for (uint64_t e = 0; e < l.elems; e++)
            if (l.times[e] == 1)
                check_element(&l, c->set[0].tensor[0].data, s, e);
            else
                assert_false(zf_map_read(c->set[0].tensor[0].data, got, ELEM, e * ELEM, &err));
    }
}

/* A piece of a missing shard loses its own elements, and the ranges that are told are those. */
static void lost_runs_lose_what_they_cover(void **state)
{
    static struct layout l;
    bool lost[MAX_ELEMS], told[MAX_ELEMS];

    (void)state;
    for (int i = 0; i < LAYOUTS; i++) {
        make(&l);
        zf_auto(source) struct zf_source *s = random_source(l.used);
        uint32_t k = (uint32_t)random_below(l.n);
        zf_auto(checkpoint) struct zf_checkpoint *c =
            zf_build_seal(draft(&l, s, true, k), "t", "", &err);
        assert_ok(c, &err);
        const struct zf_map *m = c->set[0].tensor[0].data;
        struct zf_loss loss = {0};

        memset(lost, 0, sizeof lost);
        memset(told, 0, sizeof told);
        for (uint64_t e = 0; e < l.piece[k].n; e++)
            lost[element(&l, &l.piece[k], l.piece[k].first + e)] = true;
        while (zf_map_loss(m, loss.end, &loss)) {
            assert_string_equal(loss.how.file, "rank3.pt");
            for (uint64_t e = loss.first / ELEM; e < loss.end / ELEM; e++)
                told[e] = true;
        }
        assert_memory_equal(lost, told, (size_t)l.elems);
        for (uint64_t e = 0; e < l.elems; e++)
            if (!lost[e])
                check_element(&l, m, s, e);
    }
}

/* The source of a run ends inside it: the elements before the end are there. */
static void a_run_that_is_cut_short_keeps_its_beginning(void **state)
{
    static struct layout l;
    unsigned char got[ELEM];

    (void)state;
    for (int i = 0; i < LAYOUTS / 4; i++) {
        make(&l);
        uint64_t size = 1 + random_below(l.used);
        zf_auto(source) struct zf_source *s = random_source(size);
        zf_auto(checkpoint) struct zf_checkpoint *c =
            zf_build_seal(draft(&l, s, true, UINT32_MAX), "t", "", &err);
        assert_ok(c, &err);
        for (uint64_t e = 0; e < l.elems; e++)
            if (l.place[e] + ELEM <= size)
                check_element(&l, c->set[0].tensor[0].data, s, e);
            else
                assert_false(zf_map_read(c->set[0].tensor[0].data, got, ELEM, e * ELEM, &err));
    }
}

/* Runs of a column block in the worst order, and as many as a large save has. */
static void a_million_runs_are_cheap(void **state)
{
    enum { ROWS = 100000, COLS = 20 };
    const uint64_t shape[2] = {ROWS, COLS}, left[2] = {0, 0}, right[2] = {0, COLS / 2};
    const uint64_t half[2] = {ROWS, COLS / 2}, step = 2;
    struct zf_limits lim = zf_limits_default();
    struct zf_build *b = zf_build_new(NULL, &lim, false, &err);
    zf_auto(source) struct zf_source *s = random_source((uint64_t)ROWS * COLS);
    unsigned char got[COLS], want[COLS];

    (void)state;
    assert_non_null(b);
    struct zf_draft *d = zf_build_tensor(b, (struct zf_spot){"", "w", 1},
                                         (struct zf_type){ZF_DT_U8, 2, shape}, &err);
    assert_non_null(d);
    for (uint64_t at = (uint64_t)ROWS * COLS / 2; at > 0; at -= step) {
        uint64_t first = at - step;

        assert_ok(zf_draft_put(d, (struct zf_where){left, half, first, step, false},
                               (struct zf_from){.src = s, .off = first}, &err),
                  &err);
    }
    assert_ok(zf_draft_put(d, (struct zf_where){right, half, 0, (uint64_t)ROWS * COLS / 2, false},
                           (struct zf_from){.src = s, .off = (uint64_t)ROWS * COLS / 2}, &err),
              &err);
    zf_auto(checkpoint) struct zf_checkpoint *c = zf_build_seal(b, "t", "", &err);
    assert_ok(c, &err);
    for (uint64_t row = 0; row < ROWS; row += 977) {
        assert_ok(zf_map_read(c->set[0].tensor[0].data, got, COLS, row * COLS, &err), &err);
        assert_ok(zf_source_pread(s, want, COLS / 2, row * COLS / 2, &err), &err);
        assert_ok(
            zf_source_pread(s, want + COLS / 2, COLS / 2, ((uint64_t)ROWS + row) * COLS / 2, &err),
            &err);
        assert_memory_equal(got, want, COLS);
    }
}

static struct zf_draft *tensor(struct zf_build *b, const char *name, struct zf_type type)
{
    struct zf_draft *d = zf_build_tensor(b, (struct zf_spot){"", name, strlen(name)}, type, &err);

    assert_ok(d, &err);
    return d;
}

/* What a tensor cannot be made of, and nothing of it is left behind. */
static void what_is_no_piece_is_refused(void **state)
{
    const uint64_t shape[2] = {2, 3}, zero[2] = {0, 0}, column[2] = {1, 2}, six = 6;
    const double number = 1;
    struct zf_limits lim = zf_limits_default();
    struct zf_build *b = zf_build_new(NULL, &lim, false, &err);
    zf_auto(source) struct zf_source *s = random_source(12);
    const struct zf_from from = {.src = s, .off = 0}, turned = {.src = s, .stride = column};
    unsigned char got[6], want[6];

    (void)state;
    assert_ok(b, &err);
    struct zf_draft *d = tensor(b, "d", (struct zf_type){ZF_DT_U8, 2, shape});
    struct zf_draft *wide = tensor(b, "wide", (struct zf_type){ZF_DT_F16, 2, shape});
    struct zf_draft *flat = tensor(b, "flat", (struct zf_type){ZF_DT_U8, 1, &six});
    const struct zf_spot spot = {"", "one", 3};

    assert_ok(zf_draft_flat(wide, 0, 6, from, &err), &err);
    assert_ok(zf_draft_box(flat, zero, &six,
                           (struct zf_from){.src = s, .off = 0, .stride = (uint64_t[]){2}}, &err),
              &err);
    assert_ok(zf_build_scalar(b, spot, ZF_DT_F64, &number, &err), &err);
    assert_false(zf_draft_put(d, (struct zf_where){NULL, shape, 0, 5, false}, turned, &err));
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE,
               "tensor \"d\" of shape [2, 3] has a flat slice with strides");
    assert_false(zf_draft_copy(d, zero, wide, zero, shape, &err));
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE,
               "tensor \"d\" of shape [2, 3] has a box of a tensor of another type");
    assert_false(zf_draft_copy(d, zero, d, zero, shape, &err));
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE,
               "tensor \"d\" of shape [2, 3] has a box of a tensor of another type");
    struct zf_draft *spaced = tensor(b, "spaced", (struct zf_type){ZF_DT_U8, 2, shape});
    assert_ok(zf_draft_unflatten(spaced, NULL, shape, flat, 0, &err), &err);
    assert_ok(zf_draft_read(spaced, 0, 6, got, &err), &err);
    for (uint64_t i = 0; i < 6; i++) {
        assert_ok(zf_source_pread(s, want, 1, 2 * i, &err), &err);
        assert_int_equal(got[i], want[0]);
    }
    struct zf_draft *one = tensor(b, "two", (struct zf_type){ZF_DT_F64, 0, NULL});
    assert_ok(zf_draft_copy(one, zero, zf_build_find(b, spot), zero, NULL, &err), &err);
    assert_false(zf_draft_copy(one, zero, zf_build_find(b, spot), zero, NULL, &err));
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE,
               "tensor \"two\" of shape [] is a value, but also has pieces");
    struct zf_draft *piece = tensor(b, "piece", (struct zf_type){ZF_DT_F64, 0, NULL});
    assert_ok(zf_draft_flat(piece, 0, 1, from, &err), &err);
    assert_false(zf_draft_copy(piece, zero, zf_build_find(b, spot), zero, NULL, &err));
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE,
               "tensor \"piece\" of shape [] has a piece of a value");
    assert_false(zf_draft_box(
        d, zero, shape,
        (struct zf_from){.src = s, .off = 0, .stride = (uint64_t[]){UINT64_MAX, UINT64_MAX}},
        &err));
    assert_err(
        &err, ZF_E_FORMAT, ZF_OFF_NONE,
        "tensor \"d\" of shape [2, 3] has a piece at byte 0 that reaches beyond the end of its "
        "data (12 bytes)");
    assert_ok(zf_draft_flat(d, 0, 6, from, &err), &err);
    zf_auto(checkpoint) struct zf_checkpoint *c = zf_build_seal(b, "t", "", &err);
    assert_ok(c, &err);
    assert_ok(zf_source_pread(s, want, sizeof want, 0, &err), &err);
    assert_ok(zf_map_read(c->set[0].tensor[0].data, got, sizeof got, 0, &err), &err);
    assert_memory_equal(got, want, sizeof want);
}

int main(void)
{
    random_seed = 20240301;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_element_is_where_its_piece_says),
        cmocka_unit_test(holes_and_overlaps_are_found),
        cmocka_unit_test(lost_runs_lose_what_they_cover),
        cmocka_unit_test(a_run_that_is_cut_short_keeps_its_beginning),
        cmocka_unit_test(a_million_runs_are_cheap),
        cmocka_unit_test(what_is_no_piece_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
