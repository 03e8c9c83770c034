/* SPDX-License-Identifier: Apache-2.0 */
/* Reading tensors before they are sealed, against a table of what each element is made of. */
#include "support/unit.h"

#include <stdlib.h>

#include <zf/model/build.h>

#include "support/random.h"

#define SIDE 24
#define ELEMS (SIDE * SIDE * SIDE)
#define BYTES 60000

struct element {
    uint32_t pieces;
    uint16_t value;
};

static struct element want[ELEMS], part_want[ELEMS];
static uint16_t data[BYTES / 2];
static const uint64_t cube[3] = {SIDE, SIDE, SIDE};

/* Elements of a box that begins in the source at element `at`. */
static void note_box(const uint64_t *start, const uint64_t *size, const uint64_t *stride,
                     uint64_t at)
{
    for (uint64_t i = 0; i < size[0] * size[1] * size[2]; i++) {
        uint64_t x[3] = {i / size[2] / size[1], i / size[2] % size[1], i % size[2]};
        uint64_t to = ((start[0] + x[0]) * SIDE + start[1] + x[1]) * SIDE + start[2] + x[2];
        uint64_t from = stride ? x[0] * stride[0] + x[1] * stride[1] + x[2] * stride[2] : i;

        want[to].pieces++;
        want[to].value = data[at + from];
    }
}

static void put_box(struct zf_draft *d, struct zf_source *src)
{
    uint64_t start[3], size[3], at = random_below(100);
    const uint64_t strides[3] = {3, 40, 400};
    const uint64_t *stride = random_below(2) ? strides : NULL;
    struct zf_err err;

    for (int i = 0; i < 3; i++) {
        start[i] = random_below(SIDE);
        size[i] = 1 + random_below(SIDE - start[i] < 6 ? SIDE - start[i] : 6);
    }
    assert_ok(zf_draft_box(d, start, size,
                           (struct zf_from){.src = src, .off = at * 2, .stride = stride}, &err),
              &err);
    note_box(start, size, stride, at);
}

static void put_flat(struct zf_draft *d, struct zf_source *src)
{
    uint64_t first = random_below(ELEMS), at = random_below(100);
    uint64_t n = 1 + random_below(ELEMS - first < 300 ? ELEMS - first : 300);
    struct zf_err err;

    assert_ok(zf_draft_flat(d, first, n, (struct zf_from){.src = src, .off = at * 2}, &err), &err);
    for (uint64_t i = 0; i < n; i++) {
        want[first + i].pieces++;
        want[first + i].value = data[at + i];
    }
}

static void check_stretch(struct zf_draft *d, const struct element *w, uint64_t first, uint64_t n)
{
    static uint16_t got[ELEMS];
    bool whole = true;
    struct zf_err err;

    for (uint64_t i = 0; i < n; i++)
        whole = whole && w[first + i].pieces == 1;
    assert_int_equal(zf_draft_read(d, first, n, got, &err), whole);
    for (uint64_t i = 0; whole && i < n; i++)
        assert_int_equal(got[i], w[first + i].value);
    if (!whole) {
        assert_int_equal(err.code, ZF_E_FORMAT);
        assert_true(strstr(err.msg, "nothing so far") || strstr(err.msg, "more than one piece"));
    }
}

static void check_reads(struct zf_draft *d, const struct element *w)
{
    for (int i = 0; i < 60; i++) {
        uint64_t first = random_below(ELEMS), most = i % 2 ? 9 : 700;
        uint64_t n = random_below(ELEMS - first < most ? ELEMS - first : most);

        check_stretch(d, w, first, n);
    }
}

/* Pieces that may leave holes and may overlap; a part of it; more pieces after a read, and none again. */
static void one_layout(struct zf_source *src, bool boxes, uint32_t n)
{
    struct zf_limits lim = zf_limits_default();
    const struct zf_type type = {ZF_DT_F16, 3, cube};
    struct zf_err err;
    zf_auto(build) struct zf_build *b = zf_build_new(NULL, &lim, false, &err);
    struct zf_draft *d = zf_build_tensor(b, (struct zf_spot){"", "w", 1}, type, &err);
    static struct element before[ELEMS];

    memset(want, 0, sizeof want);
    for (uint32_t i = 0; i < n; i++)
        (boxes && i % 3 ? put_box : put_flat)(d, src);
    check_reads(d, want);
    memcpy(before, want, sizeof want);
    assert_ok(zf_build_mark(b, &err), &err);
    put_flat(d, src);
    put_box(d, src);
    check_reads(d, want);
    zf_build_undo(b);
    memcpy(want, before, sizeof want);
    put_flat(d, src);
    check_reads(d, want);

    struct zf_draft *p = zf_build_tensor(b, (struct zf_spot){"", "p", 1}, type, &err);
    uint64_t first = random_below(ELEMS / 2), of = random_below(ELEMS / 2);
    memset(part_want, 0, sizeof part_want);
    assert_ok(zf_draft_part(p, first, ELEMS / 2, d, of, &err), &err);
    memcpy(part_want + first, want + of, ELEMS / 2 * sizeof *want);
    check_reads(p, part_want);
    assert_false(zf_draft_read(p, ELEMS, 1, data, &err));
    assert_int_equal(err.code, ZF_E_FORMAT);
}

/* Boxes of a tensor that are stretches of a flat one, of many pieces or few. */
static void one_unflattening(struct zf_source *src, uint32_t cuts)
{
    struct zf_limits lim = zf_limits_default();
    const uint64_t n = 3000, shape[3] = {4, 12, 10}, left[3] = {4, 12, 3}, right[3] = {4, 12, 7};
    const uint64_t at[3] = {0, 0, 3};
    uint64_t first = 0, a = random_below(n - 144), b = random_below(n - 336);
    uint16_t flat[3000], got[480], want_box[480];
    struct zf_err err;
    zf_auto(build) struct zf_build *build = zf_build_new(NULL, &lim, false, &err);
    struct zf_draft *of = zf_build_tensor(build, (struct zf_spot){"", "f", 1},
                                          (struct zf_type){ZF_DT_F16, 1, &n}, &err);
    struct zf_draft *d = zf_build_tensor(build, (struct zf_spot){"", "w", 1},
                                         (struct zf_type){ZF_DT_F16, 3, shape}, &err);

    for (uint32_t i = 0; i <= cuts && first < n; i++) {
        uint64_t len = i == cuts ? n - first : random_below(n - first) / 8, off = random_below(90);
        const uint64_t box = len;

        assert_ok(i % 2 ? zf_draft_flat(of, first, len,
                                        (struct zf_from){.src = src, .off = off * 2}, &err)
                        : zf_draft_box(of, &first, &box,
                                       (struct zf_from){.src = src, .off = off * 2}, &err),
                  &err);
        memcpy(flat + first, data + off, len * 2);
        first += len;
    }
    assert_ok(zf_draft_unflatten(d, NULL, left, of, a, &err), &err);
    assert_ok(zf_draft_unflatten(d, at, right, of, b, &err), &err);
    for (uint32_t i = 0; i < 480; i++) {
        want_box[i] =
            i % 10 < 3 ? flat[a + i / 10 * 3 + i % 10] : flat[b + i / 10 * 7 + i % 10 - 3];
    }
    assert_ok(zf_draft_read(d, 0, 480, got, &err), &err);
    assert_memory_equal(got, want_box, sizeof got);
    assert_false(zf_draft_unflatten(d, NULL, left, of, n - 143, &err));
    assert_false(zf_draft_unflatten(d, NULL, left, d, 0, &err));
    assert_int_equal(err.code, ZF_E_FORMAT);
    struct zf_build *sealed = build;
    build = NULL;
    zf_auto(checkpoint) struct zf_checkpoint *c = zf_build_seal(sealed, "test", "", &err);
    assert_ok(c, &err);
    assert_ok(zf_map_read(c->set[0].tensor[1].data, got, sizeof got, 0, &err), &err);
    assert_memory_equal(got, want_box, sizeof got);
}

static void unflattened(void **state)
{
    struct zf_err err;

    (void)state;
    zf_auto(source) struct zf_source *src = zf_mem_new("shard", data, sizeof data, false, &err);
    for (uint32_t i = 0; i < 300; i++)
        one_unflattening(src, (uint32_t[]){0, 3, 12, 60}[i % 4]);
}

static void random_layouts(void **state)
{
    struct zf_err err;

    (void)state;
    for (size_t i = 0; i < BYTES / 2; i++)
        data[i] = (uint16_t)random_below(65536);
    zf_auto(source) struct zf_source *src = zf_mem_new("shard", data, sizeof data, false, &err);
    assert_non_null(src);
    for (uint32_t i = 0; i < 200; i++)
        one_layout(src, i % 2, (uint32_t[]){3, 15, 40, 200}[i / 2 % 4]);
}

/* Strides of extents of 1 say nothing, so that such a piece is packed. */
static void one_element_is_packed(void **state)
{
    struct zf_limits lim = zf_limits_default();
    const uint64_t one[2] = {1, 1};
    const struct zf_type type = {ZF_DT_F16, 1, one};
    struct zf_err err;
    uint16_t got;

    (void)state;
    zf_auto(source) struct zf_source *src = zf_mem_new("shard", data, sizeof data, false, &err);
    zf_auto(build) struct zf_build *b = zf_build_new(NULL, &lim, false, &err);
    struct zf_draft *of = zf_build_tensor(b, (struct zf_spot){"", "of", 2}, type, &err);
    const struct zf_from from = {.src = src, .off = 10, .stride = (uint64_t[]){7}};
    assert_ok(zf_draft_box(of, NULL, one, from, &err), &err);
    struct zf_draft *d =
        zf_build_tensor(b, (struct zf_spot){"", "d", 1}, (struct zf_type){ZF_DT_F16, 2, one}, &err);
    assert_ok(zf_draft_unflatten(d, NULL, one, of, 0, &err), &err);
    assert_ok(zf_draft_read(d, 0, 1, &got, &err), &err);
    assert_int_equal(got, data[5]);
}

/* Lost bytes are errors, filled or not, and those beside them are read. */
static void lost_bytes(void **state)
{
    struct zf_limits lim = zf_limits_default();
    const uint64_t shape[2] = {4, 8}, start[2] = {1, 2}, size[2] = {2, 3}, stride[2] = {1, 2};
    const uint64_t all[2] = {4, 2}, right[2] = {0, 6};
    const struct zf_lost gone = {.file = "r1.pt", .why = "is gone"};
    uint16_t got[32];
    struct zf_err err;

    (void)state;
    for (int fill = 0; fill < 2; fill++) {
        zf_auto(source) struct zf_source *src = zf_mem_new("shard", data, 18, false, &err);
        zf_auto(build) struct zf_build *b = zf_build_new(NULL, &lim, true, &err);
        if (fill)
            zf_build_fill_lost(b);
        struct zf_draft *d = zf_build_tensor(b, (struct zf_spot){"", "w", 1},
                                             (struct zf_type){ZF_DT_F16, 2, shape}, &err);
        /* Its last element in the source, [2, 4], is behind the end. */
        assert_ok(zf_draft_box(d, start, size,
                               (struct zf_from){.src = src, .off = 8, .stride = stride}, &err),
                  &err);
        assert_ok(zf_draft_box(d, right, all, (struct zf_from){.lost = &gone}, &err), &err);
        assert_ok(zf_draft_read(d, 10, 3, got, &err), &err);
        assert_int_equal(got[1], data[6]);
        assert_ok(zf_draft_read(d, 18, 2, got, &err), &err);
        assert_int_equal(got[0], data[5]);
        assert_int_equal(got[1], data[7]);
        assert_false(zf_draft_read(d, 18, 3, got, &err));
        assert_int_equal(err.code, ZF_E_IO);
        assert_string_equal(err.path, "shard");
        assert_false(zf_draft_read(d, 14, 1, got, &err));
        assert_int_equal(err.code, ZF_E_IO);
        assert_string_equal(err.path, "r1.pt");
        assert_string_equal(err.msg, "is gone");
    }
}

/* A hundred thousand boxes, read at both ends of each row: what is read decides what it costs. */
static void many_boxes(void **state)
{
    struct zf_limits lim = zf_limits_default();
    const uint64_t rows = 25000, shape[2] = {rows, 16}, size[2] = {1, 4};
    struct zf_err err;
    uint16_t got[6];

    (void)state;
    zf_auto(source) struct zf_source *src = zf_mem_new("shard", data, sizeof data, false, &err);
    zf_auto(build) struct zf_build *b = zf_build_new(NULL, &lim, false, &err);
    struct zf_draft *d = zf_build_tensor(b, (struct zf_spot){"", "w", 1},
                                         (struct zf_type){ZF_DT_F16, 2, shape}, &err);
    for (uint64_t i = 0; i < rows * 4; i++) {
        const uint64_t start[2] = {i / 4, i % 4 * 4};

        assert_ok(
            zf_draft_box(d, start, size, (struct zf_from){.src = src, .off = i % 1000 * 8}, &err),
            &err);
    }
    for (uint64_t i = 0; i < rows; i++) {
        assert_ok(zf_draft_read(d, i * 16 + 2, 6, got, &err), &err);
        assert_int_equal(got[0], data[i * 4 % 1000 * 4 + 2]);
        assert_int_equal(got[5], data[(i * 4 + 1) % 1000 * 4 + 3]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_layouts),
        cmocka_unit_test(unflattened),
        cmocka_unit_test(one_element_is_packed),
        cmocka_unit_test(lost_bytes),
        cmocka_unit_test(many_boxes),
    };

    return cmocka_run_group_tests_name("draft_read", tests, NULL, NULL);
}
