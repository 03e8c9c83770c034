/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include <pthread.h>
#include <stdlib.h>

#include <zf/source/items.h>

#define ITEMS 1000
#define THREADS 8

/* Item i: a record of 4 bytes, then i % 50 bytes of data; every third is served by a source of its
 * own. */
struct plan {
    uint8_t *file;
    uint64_t size;
    uint64_t rec[ITEMS], addr[ITEMS];
    struct zf_source *src;
    bool broken;
    atomic_uint located, freed;
};

static bool locate(void *ctx, struct zf_source *file, const struct zf_item *item,
                   struct zf_item_at *out, struct zf_err *err)
{
    struct plan *p = ctx;

    atomic_fetch_add(&p->located, 1);
    if (p->broken)
        return zf_fail(err, ZF_E_FORMAT, item->rec_off, "no record here");
    if (item->rec_off % 3 == 0) {
        out->src = zf_window_new(file, item->rec_off + 4, item->len, "own", err);
        return out->src != NULL;
    }
    out->off = item->rec_off + 4;
    return true;
}

static void ctx_free(void *ctx)
{
    struct plan *p = ctx;

    atomic_fetch_add(&p->freed, 1);
}

static struct plan *plan_new(void)
{
    struct zf_err err;
    struct plan *p = calloc(1, sizeof *p);
    uint64_t at = 0;

    p->size = 4 * ITEMS + 50 * ITEMS;
    p->file = malloc(p->size);
    for (uint64_t i = 0; i < p->size; i++)
        p->file[i] = (uint8_t)(i * 2654435761u >> 13);
    zf_auto(source) struct zf_source *file = zf_mem_new("f", p->file, p->size, false, &err);
    p->src = zf_items_new(file, locate, p, ctx_free, &err);
    assert_ok(p->src, &err);
    for (uint64_t i = 0; i < ITEMS; i++) {
        p->rec[i] = at;
        assert_ok(zf_items_add(p->src, at, i % 50, &p->addr[i], &err), &err);
        at += 4 + i % 50;
    }
    zf_items_seal(p->src);
    return p;
}

static void plan_free(struct plan *p)
{
    zf_source_unref(&p->src);
    assert_int_equal(p->freed, 1);
    free(p->file);
    free(p);
}

static bool item_right(const struct plan *p, unsigned i)
{
    struct zf_err err;
    uint8_t buf[50];

    return zf_source_pread(p->src, buf, i % 50, p->addr[i], &err) &&
           memcmp(buf, p->file + p->rec[i] + 4, i % 50) == 0;
}

static void *read_all(void *arg)
{
    const struct plan *p = arg;

    for (unsigned i = 0; i < ITEMS; i++)
        if (!item_right(p, i))
            return arg;
    return NULL;
}

static void many_threads_find_the_same_items(void **state)
{
    pthread_t t[THREADS];
    struct plan *p = plan_new();
    void *bad;

    (void)state;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&t[i], NULL, read_all, p), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(t[i], &bad), 0);
        assert_null(bad);
    }
    unsigned once = p->located;
    assert_null(read_all(p));
    assert_int_equal(p->located, once);
    plan_free(p);
}

static void nothing_is_looked_for_before_it_is_read(void **state)
{
    struct plan *p = plan_new();
    uint64_t off;

    (void)state;
    struct zf_source *file = zf_source_only_file(p->src);
    assert_non_null(file);
    assert_string_equal(file->name, "f");
    assert_null(zf_source_only_file(file));
    assert_int_equal(p->located, 0);
    assert_true(item_right(p, 7));
    assert_true(item_right(p, 7));
    assert_int_equal(p->located, 1);
    off = p->addr[7] + 2;
    assert_string_equal(zf_source_origin(p->src, &off)->name, "f");
    assert_int_equal(off, p->rec[7] + 6);
    plan_free(p);
}

/* Rows that lie in one item, and that lie in several however few bytes each has. */
static void rows_go_on_in_the_next_item(void **state)
{
    static const size_t row[][2] = {{40, 200}, {25, 25}, {5, 26}, {26, 5}, {10, 20}, {0, 31}};
    struct plan *p = plan_new();
    uint8_t a[200], b[200], want[240];
    struct zf_err err;
    size_t n = 0;

    (void)state;
    for (unsigned i = 30; n < sizeof want; i++) {
        size_t len = i % 50 < sizeof want - n ? i % 50 : sizeof want - n;

        memcpy(want + n, p->file + p->rec[i] + 4, len);
        n += len;
    }
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        const struct iovec iov[] = {{a, row[i][0]}, {b, row[i][1]}};

        assert_ok(zf_source_preadv(p->src, iov, 2, p->addr[30], &err), &err);
        assert_memory_equal(a, want, row[i][0]);
        assert_memory_equal(b, want + row[i][0], row[i][1]);
    }
    plan_free(p);
}

static void a_failure_is_not_remembered(void **state)
{
    struct plan *p = plan_new();
    struct zf_err err;
    uint8_t b;

    (void)state;
    p->broken = true;
    assert_false(zf_source_pread(p->src, &b, 1, p->addr[9], &err));
    assert_err(&err, ZF_E_FORMAT, p->rec[9], "no record here");
    assert_string_equal(err.path, "f");
    uint8_t rows[2][20];
    const struct iovec iov[] = {{rows[0], 20}, {rows[1], 20}};
    assert_false(zf_source_preadv(p->src, iov, 2, p->addr[31], &err));
    p->broken = false;
    assert_true(item_right(p, 9));
    assert_true(item_right(p, 30));
    p->broken = true;
    assert_false(
        zf_source_preadv(p->src, iov, 2, p->addr[30], &err)); /* the next one is not known */
    assert_err(&err, ZF_E_FORMAT, p->rec[31], "no record here");
    plan_free(p);
}

static void answers_outside_the_file_are_refused(void **state)
{
    struct plan *p = plan_new();
    struct zf_err err;
    uint64_t addr, last = p->size - 3;
    uint8_t b;

    (void)state;
    last -= last % 3 == 0;
    assert_ok(zf_items_add(p->src, last, 10, &addr, &err), &err);
    assert_false(zf_source_pread(p->src, &b, 1, addr, &err));
    assert_err(&err, ZF_E_FORMAT, last, "outside the file");
    plan_free(p);
}

/* Each item's own source holds the file. */
static void what_items_hold_is_let_go(void **state)
{
    uint8_t bytes[24] = {0};
    struct plan p = {0};
    struct zf_err err;
    zf_auto(source) struct zf_source *file = zf_mem_new("f", bytes, sizeof bytes, false, &err);
    uint64_t addr[2];
    uint8_t b;

    (void)state;
    p.src = zf_items_new(file, locate, &p, ctx_free, &err);
    assert_ok(p.src, &err);
    for (size_t i = 0; i < 2; i++)
        assert_ok(zf_items_add(p.src, 12 * i, 8, &addr[i], &err), &err);
    zf_items_seal(p.src);
    assert_int_equal(atomic_load(&file->refs), 2);
    for (size_t i = 0; i < 2; i++)
        assert_ok(zf_source_pread(p.src, &b, 1, addr[i], &err), &err);
    assert_int_equal(atomic_load(&file->refs), 4);
    zf_source_unref(&p.src);
    assert_int_equal(atomic_load(&file->refs), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_threads_find_the_same_items),
        cmocka_unit_test(nothing_is_looked_for_before_it_is_read),
        cmocka_unit_test(rows_go_on_in_the_next_item),
        cmocka_unit_test(a_failure_is_not_remembered),
        cmocka_unit_test(answers_outside_the_file_are_refused),
        cmocka_unit_test(what_items_hold_is_let_go),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
