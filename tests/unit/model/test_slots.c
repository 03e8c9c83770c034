/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors that are cut over many sources by a rule, against brute force: a plain loop says at which byte of
 * which source each element is. */
#include "support/unit.h"

#include <zf/model/build.h>

#include "support/random.h"

#define LAYOUTS 3000
#define RANKS 9
#define TENSORS 4
#define SOURCE 4096

static struct zf_err err;

/* Vectors of `n` ranks with a few tensors in each, one behind the other. */
struct layout {
    uint32_t n, elem, n_tensors;
    enum zf_dtype dtype;
    struct zf_source *src[RANKS];
    uint64_t off[RANKS]; /* bytes: where each rank's vector begins */
    uint64_t elems[TENSORS], slot[TENSORS], at[TENSORS], vector; /* elements */
};

static const char *const name[TENSORS] = {"a", "b", "c", "d"};

static void make(struct layout *l)
{
    static const enum zf_dtype dtype[] = {ZF_DT_U8, ZF_DT_BF16, ZF_DT_F32, ZF_DT_F64};

    *l = (struct layout){.n = 1 + (uint32_t)random_below(RANKS),
                         .n_tensors = 1 + (uint32_t)random_below(TENSORS),
                         .dtype = dtype[random_below(4)]};
    l->elem = zf_dtype_info(l->dtype)->bytes;
    for (uint32_t t = 0; t < l->n_tensors; t++) {
        l->elems[t] = random_below(60);
        l->slot[t] = (l->elems[t] + l->n - 1) / l->n + (random_below(4) ? 0 : random_below(3));
        l->at[t] = l->vector + (random_below(4) ? 0 : random_below(3));
        l->vector = l->at[t] + l->slot[t];
    }
    for (uint32_t r = 0; r < l->n; r++) {
        /* Two ranks may share a file. */
        l->src[r] =
            r > 0 && random_below(3) == 0 ? zf_source_ref(l->src[r - 1]) : random_source(SOURCE);
        l->off[r] = random_below(SOURCE - l->vector * l->elem + 1);
    }
}

static void forget(struct layout *l)
{
    for (uint32_t r = 0; r < l->n; r++)
        zf_source_unref(&l->src[r]);
}

static struct zf_draft *tensor(struct zf_build *b, const struct layout *l, const char *of,
                               uint64_t n)
{
    struct zf_draft *d =
        zf_build_tensor(b, (struct zf_spot){"", of, 1}, (struct zf_type){l->dtype, 1, &n}, &err);

    assert_ok(d, &err);
    return d;
}

static struct zf_build *fresh(bool degraded)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_build *b = zf_build_new(NULL, &lim, degraded, &err);

    assert_non_null(b);
    return b;
}

static const struct zf_stretches *stretches(struct zf_build *b, const struct layout *l)
{
    struct zf_from from[RANKS];

    for (uint32_t r = 0; r < l->n; r++)
        from[r] = (struct zf_from){.src = l->src[r], .off = l->off[r]};
    const struct zf_stretches *s = zf_build_stretches(b, from, l->n, l->vector * l->elem, &err);
    assert_ok(s, &err);
    return s;
}

/* Bytes of a tensor, element by element. */
static void expect(const struct layout *l, uint32_t t, unsigned char *out)
{
    for (uint64_t x = 0; x < l->elems[t]; x++) {
        uint64_t r = x / l->slot[t], in = x % l->slot[t];

        assert_ok(zf_source_pread(l->src[r], out + x * l->elem, l->elem,
                                  l->off[r] + (l->at[t] + in) * l->elem, &err),
                  &err);
    }
}

static bool add_up(void *ctx, struct zf_source *s, uint64_t off, uint64_t len)
{
    assert_true(off <= s->size && len <= s->size - off);
    *(uint64_t *)ctx += len;
    return true;
}

static bool extent_is(void *ctx, const struct zf_extent *e)
{
    const unsigned char *want = ctx;
    unsigned char got[SOURCE];

    assert_int_equal(e->nd, 1);
    assert_ok(zf_source_pread(e->src, got, e->size[0], e->off, &err), &err);
    assert_memory_equal(got, want + e->start[0], e->size[0]);
    return true;
}

static void check_map(const struct zf_map *m, const unsigned char *want, uint64_t size)
{
    unsigned char got[SOURCE];
    uint64_t sum = 0;

    assert_int_equal(zf_map_size(m), size);
    assert_ok(zf_map_read(m, got, size, 0, &err), &err);
    assert_memory_equal(got, want, size);
    for (uint32_t i = 0; i < 8 && size > 0; i++) {
        uint64_t off = random_below(size), n = random_below(size - off + 1);
        struct zf_run run = zf_map_at(m, off);

        assert_ok(zf_map_read(m, got, n, off, &err), &err);
        assert_memory_equal(got, want + off, n);
        assert_int_equal(run.kind, ZF_RUN_SRC);
        assert_true(run.len > 0 && run.len <= size - off);
        assert_ok(zf_source_pread(run.src, got, run.len, run.off, &err), &err);
        assert_memory_equal(got, want + off, run.len);
    }
    assert_true(zf_map_each_source(m, add_up, &sum));
    assert_int_equal(sum, size);
    assert_true(zf_map_each_extent(m, extent_is, (void *)want));
}

/* What is done to a draft between its slots and the seal must not change its bytes. */
static void disturb(struct zf_build *b, const struct layout *l, struct zf_draft *d, uint32_t t,
                    const unsigned char *want)
{
    unsigned char got[SOURCE];
    uint64_t n = l->elems[t], first = random_below(n);
    const uint64_t zero = 0;
    struct zf_draft *other;

    switch (random_below(5)) {
    case 0:
        assert_ok(zf_draft_read(d, first, n - first, got, &err), &err);
        assert_memory_equal(got, want + first * l->elem, (n - first) * l->elem);
        break;
    case 1: /* withdrawn with all that was tried */
        assert_ok(zf_build_mark(b, &err), &err);
        assert_ok(zf_draft_read(d, first, n - first, got, &err), &err);
        zf_build_undo(b);
        break;
    case 2:
        other = tensor(b, l, "p", n - first);
        assert_ok(zf_draft_part(other, 0, n - first, d, first, &err), &err);
        break;
    case 3:
        other = tensor(b, l, "p", n - first);
        assert_ok(zf_draft_copy(other, &zero, d, &first, &(uint64_t){n - first}, &err), &err);
        break;
    default:
        other = tensor(b, l, "p", n - first);
        assert_ok(zf_draft_unflatten(other, NULL, &(uint64_t){n - first}, d, first, &err), &err);
    }
}

static void test_layouts(void **state)
{
    unsigned char want[TENSORS][SOURCE];
    struct layout l;

    (void)state;
    for (uint32_t i = 0; i < LAYOUTS; i++) {
        struct zf_build *b = fresh(false);
        uint64_t pieces = 0;

        make(&l);
        const struct zf_stretches *s = stretches(b, &l);
        for (uint32_t t = 0; t < l.n_tensors; t++) {
            struct zf_draft *d = tensor(b, &l, name[t], l.elems[t]);

            expect(&l, t, want[t]);
            assert_ok(zf_draft_slots(d, s, l.at[t], l.slot[t], &err), &err);
            pieces += l.slot[t] ? (l.elems[t] + l.slot[t] - 1) / l.slot[t] : 0;
            if (t == 0 && l.elems[0] > 0 && i % 2)
                disturb(b, &l, d, t, want[t]);
        }
        forget(&l); /* the build has references of its own */
        struct zf_checkpoint *c = zf_build_seal(b, "test", NULL, &err);
        assert_ok(c, &err);
        assert_true(i % 2 || c->n_pieces == pieces);
        for (uint32_t t = 0; t < l.n_tensors; t++) {
            const struct zf_tensor *one = &c->set[0].tensor[t];

            assert_int_equal(one->name[0], name[t][0]);
            check_map(one->data, want[t], l.elems[t] * l.elem);
        }
        zf_checkpoint_free(c);
    }
}

/* ---- refusals ---- */

static const uint64_t ten = 10;

static struct zf_draft *ten_floats(struct zf_build *b)
{
    struct zf_draft *d = zf_build_tensor(b, (struct zf_spot){"", "w", 1},
                                         (struct zf_type){ZF_DT_F32, 1, &ten}, &err);

    assert_non_null(d);
    return d;
}

static const struct zf_stretches *two_ranks(struct zf_build *b, uint64_t bytes)
{
    struct zf_source *src = random_source(64);
    struct zf_from from[2] = {{.src = src, .off = 0}, {.src = src, .off = 32}};
    const struct zf_stretches *s = zf_build_stretches(b, from, 2, bytes, &err);

    zf_source_unref(&src);
    return s;
}

static void test_stretch_outside(void **state)
{
    struct zf_build *b = fresh(false);
    struct zf_from none = {.src = NULL};

    (void)state;
    assert_null(two_ranks(b, 33));
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, "33 bytes at byte 32 reach beyond the end");
    assert_string_equal(err.path, "rank0.pt");
    assert_null(zf_build_stretches(b, &none, 1, 0, &err));
    assert_non_null(two_ranks(b, 32));
    zf_build_free(b);
}

static void test_slot_outside(void **state)
{
    struct zf_build *b = fresh(false);
    const struct zf_stretches *s = two_ranks(b, 32);
    struct zf_draft *d = ten_floats(b);

    (void)state;
    assert_false(zf_draft_slots(d, s, 4, 5, &err));
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, "has a slot that reaches beyond the end");
    assert_false(zf_draft_slots(d, s, UINT64_MAX / 2, 5, &err));
    assert_false(zf_draft_slots(d, s, UINT64_MAX / 4, 5, &err));
    assert_false(zf_draft_slots(d, s, 0, UINT64_MAX, &err)); /* ten elements in one slot */
    assert_false(zf_draft_slots(d, s, 0, 0, &err));
    assert_ok(zf_draft_slots(d, s, 3, 5, &err), &err);
    zf_build_free(b);
}

static void test_twice(void **state)
{
    struct zf_build *b = fresh(false);
    const struct zf_stretches *s = two_ranks(b, 32);
    struct zf_draft *d = ten_floats(b);

    (void)state;
    assert_ok(zf_draft_slots(d, s, 0, 5, &err), &err);
    assert_false(zf_draft_slots(d, s, 0, 5, &err));
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, "is cut into slots, but also has pieces");
    assert_false(zf_draft_flat(d, 0, 1, (struct zf_from){0}, &err));
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, "is cut into slots, but also has pieces");
    assert_false(zf_draft_box(d, NULL, &ten, (struct zf_from){0}, &err));
    struct zf_draft *other = zf_build_tensor(b, (struct zf_spot){"", "v", 1},
                                             (struct zf_type){ZF_DT_F32, 1, &ten}, &err);
    assert_ok(zf_draft_flat(other, 0, 1, (struct zf_from){0}, &err), &err);
    assert_false(zf_draft_slots(other, s, 0, 5, &err));
    zf_build_free(b);
}

/* Two slots of four are no ten elements. */
static void test_hole(void **state)
{
    struct zf_build *b = fresh(false);

    (void)state;
    assert_ok(zf_draft_slots(ten_floats(b), two_ranks(b, 32), 0, 4, &err), &err);
    assert_null(zf_build_seal(b, "test", NULL, &err));
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, "elements [8] to [9] are covered by nothing");
}

static void test_hole_degraded(void **state)
{
    struct zf_build *b = fresh(true);
    unsigned char got[40];

    (void)state;
    assert_ok(zf_draft_slots(ten_floats(b), two_ranks(b, 32), 0, 4, &err), &err);
    struct zf_checkpoint *c = zf_build_seal(b, "test", NULL, &err);
    assert_ok(c, &err);
    const struct zf_tensor *w = &c->set[0].tensor[0];
    assert_true(w->lost);
    assert_ok(zf_map_read(w->data, got, 32, 0, &err), &err);
    assert_false(zf_map_read(w->data, got, 1, 32, &err));
    zf_checkpoint_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layouts),      cmocka_unit_test(test_stretch_outside),
        cmocka_unit_test(test_slot_outside), cmocka_unit_test(test_twice),
        cmocka_unit_test(test_hole),         cmocka_unit_test(test_hole_degraded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
