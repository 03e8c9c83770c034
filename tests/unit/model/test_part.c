/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors made of parts of other tensors: every byte is compared with that of a plain copy. */
#include "support/unit.h"

#include <stdlib.h>

#include <zf/model/build.h>

#include "support/random.h"

#define ROUNDS 3000
#define TENSORS 6
#define MOST 512 /* elements of one */
#define ELEM 2   /* F16 */

static struct zf_err err;

static struct zf_build *fresh(bool degraded)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_build *b = zf_build_new(NULL, &lim, degraded, &err);

    assert_non_null(b);
    return b;
}

/* A draft and its elements as a plain array says them. */
struct made {
    struct zf_draft *d;
    uint64_t n;
    uint16_t want[MOST];
    bool lost[MOST];
};

static uint16_t at_source(struct zf_source *s, uint64_t elem)
{
    uint16_t v;

    assert_ok(zf_source_pread(s, &v, ELEM, elem * ELEM, &err), &err);
    return v;
}

static struct zf_draft *start(struct zf_build *b, int i, uint32_t nd, const uint64_t *shape)
{
    static const char *const set[] = {"", "optim/exp_avg", "stacked"};
    const struct zf_spot spot = {set[random_below(3)], &"abcdef"[i], 1};
    struct zf_draft *d = zf_build_tensor(b, spot, (struct zf_type){ZF_DT_F16, nd, shape}, &err);

    assert_ok(d, &err);
    return d;
}

/* Two column blocks, the right one strided, or lost. */
static void make_of_boxes(struct zf_build *b, int i, struct made *m, struct zf_source *s, bool lose)
{
    static const struct zf_lost how = {.file = "rank3.pt", .why = "is missing"};
    const uint64_t shape[2] = {1 + random_below(16), 2 + random_below(16)},
                   left = 1 + random_below(shape[1] - 1);
    const uint64_t size[2] = {shape[0], left}, rest[2] = {shape[0], shape[1] - left};
    const uint64_t corner[2] = {0, left}, stride[2] = {1, shape[0]};
    const uint64_t off = random_below(64), other = 1024 + random_below(64);

    m->d = start(b, i, 2, shape);
    m->n = shape[0] * shape[1];
    assert_ok(zf_draft_box(m->d, NULL, size, (struct zf_from){.src = s, .off = off * ELEM}, &err),
              &err);
    assert_ok(lose ? zf_draft_box(m->d, corner, rest, (struct zf_from){.lost = &how}, &err)
                   : zf_draft_box(m->d, corner, rest,
                                  (struct zf_from){.src = s, .off = other * ELEM, .stride = stride},
                                  &err),
              &err);
    for (uint64_t e = 0; e < m->n; e++) {
        uint64_t row = e / shape[1], col = e % shape[1];

        m->lost[e] = lose && col >= left;
        m->want[e] = col < left ? at_source(s, off + row * left + col)
                                : at_source(s, other + row + (col - left) * shape[0]);
    }
}

/* Stretches of the source, of nothing, and of the tensors before. */
static void make_of_parts(struct zf_build *b, int i, struct made *all, struct zf_source *s)
{
    struct made *m = &all[i];
    const struct made *before = i > 0 ? &all[i - 1] : NULL;
    bool whole = before && random_below(3) == 0; /* one part of the tensor just before */

    m->n = 1 + random_below(whole ? before->n : MOST);
    m->d = start(b, i, 1, &m->n);
    for (uint64_t at = 0, n; at < m->n; at += n) {
        uint64_t from = random_below(1024);

        n = whole ? m->n : 1 + random_below(m->n - at < 64 ? m->n - at : 64);
        if (i == 0 || (!whole && random_below(4) == 0)) {
            assert_ok(
                zf_draft_flat(m->d, at, n, (struct zf_from){.src = s, .off = from * ELEM}, &err),
                &err);
            for (uint64_t k = 0; k < n; k++) {
                m->want[at + k] = at_source(s, from + k);
                m->lost[at + k] = false;
            }
        } else if (!whole && random_below(8) == 0) {
            assert_ok(zf_draft_flat(m->d, at, n, (struct zf_from){0}, &err), &err);
            memset(&m->want[at], 0, n * ELEM);
            memset(&m->lost[at], 0, n);
        } else {
            const struct made *of = whole ? before : &all[random_below((uint64_t)i)];

            n = n < of->n ? n : of->n;
            from = random_below(of->n - n + 1);
            assert_ok(zf_draft_part(m->d, at, n, of->d, from, &err), &err);
            memcpy(&m->want[at], &of->want[from], n * ELEM);
            memcpy(&m->lost[at], &of->lost[from], n);
        }
    }
}

static bool count_extent(void *ctx, const struct zf_extent *e)
{
    uint64_t *sum = ctx, n = 1;

    for (uint32_t d = 0; d < e->nd; d++) {
        n *= e->size[d];
        assert_true(e->start[d] + e->size[d] <= e->shape[d]);
    }
    *sum += n;
    return true;
}

/* What is told of sources: *(uint64_t *)ctx bytes. */
static bool count_source(void *ctx, struct zf_source *s, uint64_t off, uint64_t len)
{
    assert_true(off <= s->size && len <= s->size - off);
    *(uint64_t *)ctx += len;
    return true;
}

static bool first_source(void *ctx, struct zf_source *s, uint64_t off, uint64_t len)
{
    (void)s, (void)off, (void)len;
    ++*(int *)ctx;
    return false;
}

static bool note_loss(void *ctx, const struct zf_lost *how)
{
    assert_string_equal(how->file, "rank3.pt");
    *(bool *)ctx = true;
    return true;
}

/* As many bytes of sources are told of as its runs say there are; and what is lost is. */
static void check_sources(const struct zf_map *map, bool lost)
{
    uint64_t told = 0, want = 0;
    bool noted = false;
    int calls = 0;

    for (uint64_t at = 0; at < zf_map_size(map);) {
        const struct zf_run run = zf_map_at(map, at);

        want += run.kind == ZF_RUN_SRC ? run.len : 0;
        at += run.len;
    }
    assert_true(zf_map_each_source(map, count_source, &told));
    assert_int_equal(told, want);
    assert_int_equal(zf_map_each_source(map, first_source, &calls), want == 0);
    assert_int_equal(calls, want > 0);
    assert_true(zf_map_each_loss(map, note_loss, &noted));
    assert_int_equal(noted, lost);
}

static unsigned char told[1 << 14]; /* bytes of the one source */

static bool note_range(void *ctx, struct zf_source *s, uint64_t off, uint64_t len)
{
    (void)ctx;
    assert_true(s->size <= sizeof told && off <= s->size && len <= s->size - off);
    memset(told + off, 1, len);
    return true;
}

/* What a read of these bytes needs is told beforehand; the tensor is of one source, or zeros. */
static void check_ranges(const struct zf_map *map, uint64_t off, uint64_t n)
{
    memset(told, 0, sizeof told);
    assert_true(zf_map_each_range(map, off, n, note_range, NULL));
    for (uint64_t at = off; at < off + n; at++) {
        const struct zf_run run = zf_map_at(map, at);

        assert_true(run.kind != ZF_RUN_SRC || told[run.off]);
    }
}

static void check(const struct made *m, const struct zf_tensor *t)
{
    uint64_t extents = 0, n = 1 + random_below(m->n), from = random_below(m->n - n + 1);
    struct zf_loss loss = {0};
    uint16_t got[MOST];
    bool lost[MOST] = {false}, any = false;

    assert_int_equal(zf_map_size(t->data), m->n * ELEM);
    for (uint64_t e = 0; e < m->n; e++) {
        any = any || m->lost[e];
        assert_int_equal(zf_map_read(t->data, got, ELEM, e * ELEM, &err), !m->lost[e]);
        assert_true(m->lost[e] || got[0] == m->want[e]);
    }
    if (!any) {
        assert_ok(zf_map_read(t->data, got, n * ELEM, from * ELEM, &err), &err);
        assert_memory_equal(got, &m->want[from], n * ELEM);
        check_ranges(t->data, from * ELEM, n * ELEM);
    }
    assert_int_equal(t->lost, any);
    while (zf_map_loss(t->data, loss.end, &loss)) {
        assert_string_equal(loss.how.file, "rank3.pt");
        for (uint64_t e = loss.first / ELEM; e < loss.end / ELEM; e++)
            lost[e] = true;
    }
    assert_memory_equal(lost, m->lost, m->n);
    assert_true(zf_map_each_extent(t->data, count_extent, &extents));
    assert_int_equal(extents, m->n * ELEM);
    check_sources(t->data, any);
}

static const struct zf_tensor *find(const struct zf_checkpoint *c, const char *name)
{
    const struct zf_tensor *t = NULL;

    for (uint32_t i = 0; i < c->n_sets && !t; i++)
        t = zf_set_find(&c->set[i], name, 1);
    assert_non_null(t);
    return t;
}

static void parts_are_the_bytes_of_their_tensors(void **state)
{
    static struct made m[TENSORS];

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        bool lose = round % 2;
        struct zf_build *b = fresh(lose);
        zf_auto(source) struct zf_source *s = random_source(4096);

        for (int i = 0; i < TENSORS; i++)
            if (random_below(3) == 0)
                make_of_boxes(b, i, &m[i], s, lose && random_below(2));
            else
                make_of_parts(b, i, m, s);
        zf_auto(checkpoint) struct zf_checkpoint *c = zf_build_seal(b, "t", "", &err);
        assert_ok(c, &err);
        for (int i = 0; i < TENSORS; i++)
            check(&m[i], find(c, (char[]){"abcdef"[i], '\0'}));
    }
}

static void parts_that_cannot_be_are_refused(void **state)
{
    zf_auto(build) struct zf_build *b = fresh(false);
    zf_auto(source) struct zf_source *s = random_source(4096);
    const uint64_t shape[2] = {4, 4}, half[2] = {4, 2};
    struct zf_from from = {.src = s};
    const char *said = "a part that is not inside an earlier tensor of its type";

    (void)state;
    struct zf_draft *of = start(b, 0, 2, shape), *d = start(b, 1, 2, shape);
    struct zf_draft *bytes = zf_build_tensor(b, (struct zf_spot){"", "u8", 2},
                                             (struct zf_type){ZF_DT_U8, 2, shape}, &err);
    assert_ok(zf_draft_where(d, "meta!b", &err), &err);
    assert_false(zf_draft_part(d, 0, 1, d, 1, &err)); /* itself */
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, said);
    assert_false(zf_draft_part(of, 0, 1, d, 0, &err)); /* a later one: no cycles */
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, said);
    assert_false(zf_draft_part(bytes, 0, 1, of, 0, &err));
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, said);
    assert_false(zf_draft_part(d, 0, 2, of, 15, &err));
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, said);
    assert_false(zf_draft_part(d, 15, 2, of, 0, &err));
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, "has only 16 elements");
    assert_ok(zf_draft_part(d, 16, 0, of, 16, &err), &err);
    assert_ok(zf_draft_box(of, NULL, half, from, &err), &err);
    assert_false(zf_draft_part(of, 0, 1, of, 0, &err));
    assert_ok(zf_draft_part(d, 0, 4, of, 12, &err), &err);
    assert_false(zf_draft_box(d, NULL, half, from, &err));
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, "made both of parts of other tensors and of boxes");
    struct zf_draft *boxes = start(b, 2, 2, shape);
    assert_ok(zf_draft_box(boxes, NULL, half, from, &err), &err);
    assert_false(zf_draft_part(boxes, 0, 1, of, 0, &err));
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, "made both of parts of other tensors and of boxes");
}

/* Holes and overlaps of parts are found like those of pieces. */
static void parts_are_proved(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct zf_build *b = fresh(i >= 2);
        zf_auto(source) struct zf_source *s = random_source(64);
        const uint64_t n = 8;
        uint16_t got;

        struct zf_draft *of = start(b, 0, 1, &n), *d = start(b, 1, 1, &n);
        assert_ok(zf_draft_flat(of, 0, n, (struct zf_from){.src = s}, &err), &err);
        assert_ok(zf_draft_part(d, 4, 4, of, 0, &err), &err);
        assert_ok(zf_draft_part(d, 0, i % 2 ? 5 : 3, of, 3, &err), &err);
        zf_auto(checkpoint) struct zf_checkpoint *c = zf_build_seal(b, "t", "", &err);
        if (i < 2) {
            assert_null(c);
            assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE,
                       i ? "element [4] is covered by more than one piece"
                         : "element [3] is covered by nothing");
            continue;
        }
        assert_ok(c, &err);
        const struct zf_tensor *t = find(c, "b");
        assert_true(t->lost);
        for (uint64_t e = 0; e < n; e++) {
            bool ok = zf_map_read(t->data, &got, ELEM, e * ELEM, &err);

            assert_int_equal(ok, e != (i % 2 ? 4 : 3));
            assert_true(!ok || got == at_source(s, e < 4 ? 3 + e : e - 4));
        }
    }
}

/* Lost elements read as NaN unless the tensor's very shape is a guess; a part is told the same. */
static void parts_are_filled_as_their_tensor(void **state)
{
    const uint64_t n = 4;
    uint16_t got;

    (void)state;
    for (int guess = 0; guess < 2; guess++) {
        const struct zf_lost how = {.why = "is missing", .unshaped = guess != 0};
        struct zf_build *b = fresh(true);
        zf_auto(source) struct zf_source *s = random_source(64);

        zf_build_fill_lost(b);
        struct zf_draft *of = start(b, 0, 1, &n), *d = start(b, 1, 1, &n), *e = start(b, 2, 1, &n);
        assert_ok(zf_draft_flat(of, 0, 2, (struct zf_from){.src = s}, &err), &err);
        assert_ok(zf_draft_flat(of, 2, 2, (struct zf_from){.lost = &how}, &err), &err);
        assert_ok(zf_draft_part(d, 0, 4, of, 0, &err), &err);
        assert_ok(zf_draft_part(e, 0, 2, of, 0, &err), &err);
        assert_ok(zf_draft_part(e, 2, 2, of, 0, &err), &err);
        zf_auto(checkpoint) struct zf_checkpoint *c = zf_build_seal(b, "t", "", &err);
        assert_ok(c, &err);
        assert_true(find(c, "b")->lost);
        assert_int_equal(find(c, "b")->filled, !guess);
        assert_false(find(c, "c")->lost);
        assert_int_equal(zf_map_read(find(c, "b")->data, &got, ELEM, 3 * ELEM, &err), !guess);
    }
}

static void a_value_has_no_pieces(void **state)
{
    zf_auto(build) struct zf_build *b = fresh(false);
    const float value = 1;

    (void)state;
    assert_ok(zf_build_scalar(b, (struct zf_spot){"", "w", 1}, ZF_DT_F32, &value, &err), &err);
    struct zf_draft *d = zf_build_find(b, (struct zf_spot){"", "w", 1});
    assert_non_null(d);
    assert_false(zf_draft_flat(d, 0, 1, (struct zf_from){0}, &err));
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, "is a value, but also has pieces");
    assert_false(zf_draft_box(d, NULL, NULL, (struct zf_from){0}, &err));
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, "is a value, but also has pieces");
}

int main(void)
{
    random_seed = 20240302;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_the_bytes_of_their_tensors),
        cmocka_unit_test(parts_that_cannot_be_are_refused),
        cmocka_unit_test(parts_are_proved),
        cmocka_unit_test(parts_are_filled_as_their_tensor),
        cmocka_unit_test(a_value_has_no_pieces),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
