/* SPDX-License-Identifier: Apache-2.0 */
/* References outlive their pickle, and many of one file cost little. */
#include <stdio.h>

#include <zf/assemble/tensor_ref.h>
#include <zf/codec/torch_write.h>
#include <zf/codec/zip_write.h>
#include <zf/source/store.h>

#include "support/store_mem.h"
#include "support/unit.h"

enum { TENSORS = 100 };

/* Every tenth tensor has three elements, the others have none; each has a storage of its own. */
static uint64_t extent(uint64_t i)
{
    return i % 10 == 9 ? 3 : 0;
}

static void add_file(struct zf_store *st, const char *path)
{
    zf_auto(out) struct zf_out pickle = {0}, file = {0};
    zf_auto(zip_write) struct zf_zip_write w = {0};
    char name[64];
    struct zf_err err;

    zf_torch_write_begin(&pickle);
    for (uint64_t i = 0; i < TENSORS; i++) {
        const uint64_t n = extent(i);
        int len = snprintf(name, sizeof name, "t%03llu", (unsigned long long)i);

        zf_torch_write_tensor(&pickle, &(struct zf_torch_write){.name = name,
                                                                .name_len = (uint32_t)len,
                                                                .dtype = ZF_DT_U8,
                                                                .ndim = 1,
                                                                .shape = &n,
                                                                .storage = i});
    }
    zf_torch_write_end(&pickle);
    zf_zip_write_member(&w, "archive/data.pkl", pickle.n, 0, &file);
    zf_out_add(&file, pickle.p, pickle.n);
    for (uint64_t i = 0; i < TENSORS; i++) {
        (void)snprintf(name, sizeof name, "archive/data/%llu", (unsigned long long)i);
        zf_zip_write_member(&w, name, extent(i), 0, &file);
        zf_out_fill(&file, (char)i, (size_t)extent(i));
    }
    zf_zip_write_end(&w, &file);
    assert_ok(zf_out_ok(&pickle, &err) && zf_out_ok(&file, &err), &err);
    assert_ok(store_mem_add(st, path, file.p, file.n, &err), &err);
}

static void read_some(struct zf_keeper *k, struct zf_store *st, const char *path, uint64_t first,
                      uint64_t n, struct zf_tensor_ref *ref)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_source *empty = NULL;
    struct zf_err err;
    zf_auto(source) struct zf_source *src = zf_store_open(st, path, &err);
    zf_auto(torch) struct zf_torch *t = src ? zf_torch_open(src, &lim, &err) : NULL;

    assert_ok(t, &err);
    for (uint64_t i = 0; i < n; i++) {
        const struct zf_pv *v = zf_pv_val(zf_torch_root(t), first + i);

        assert_ok(zf_tensor_ref_read_many(k, t, v, &empty, &ref[i], &err), &err);
    }
}

/* Ten sources and one for all that is empty are held of each file. */
static void empty_ones_share_a_source(void **state)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_tensor_ref a[TENSORS], b[TENSORS];
    struct zf_err err;
    zf_auto(store) struct zf_store *st = store_mem_new(&lim, &err);
    zf_auto(arena) struct zf_arena *arena = zf_arena_new(1u << 20, &err);
    struct zf_keeper k = {.arena = arena};

    (void)state;
    assert_ok(st && arena, &err);
    add_file(st, "a.pt");
    add_file(st, "b.pt");
    read_some(&k, st, "a.pt", 0, TENSORS, a);
    read_some(&k, st, "b.pt", 0, TENSORS, b);
    assert_int_equal(k.held.n, 2 * (TENSORS / 10 + 1));
    for (uint64_t i = 0; i < TENSORS; i++) {
        char key[16], byte;

        (void)snprintf(key, sizeof key, "%llu", (unsigned long long)i);
        assert_string_equal(a[i].key, key);
        assert_int_equal(a[i].n, extent(i));
        assert_int_equal(a[i].shape[0], extent(i));
        assert_int_equal(a[i].src == a[0].src, extent(i) == 0);
        assert_non_null(strstr(a[i].src->name, "a.pt"));
        assert_non_null(strstr(b[i].src->name, "b.pt"));
        /* two storages are two, and so are those of two files */
        assert_true(i == 0 || zf_tensor_ref_cmp(&a[i - 1], &a[i]) != 0);
        assert_int_not_equal(zf_tensor_ref_cmp(&a[i], &b[i]), 0);
        assert_int_equal(zf_tensor_ref_cmp(&a[i], &a[i]), 0);
        if (a[i].n > 0) {
            assert_ok(zf_source_pread(a[i].src, &byte, 1, a[i].off, &err), &err);
            assert_int_equal(byte, (char)i);
        }
    }
    zf_keeper_fini(&k);
}

/* References of one shape share it, but not with those that are forgotten before them. */
static void shapes_end_with_their_arena(void **state)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_tensor_ref own[2], other, again;
    struct zf_err err;
    zf_auto(store) struct zf_store *st = store_mem_new(&lim, &err);
    zf_auto(arena) struct zf_arena *arena = zf_arena_new(1u << 20, &err);
    zf_auto(arena) struct zf_arena *brief = zf_arena_new(1u << 20, &err);
    struct zf_keeper k = {.arena = arena};

    (void)state;
    assert_ok(st && arena && brief, &err);
    add_file(st, "a.pt");
    read_some(&k, st, "a.pt", 9, 1, &own[0]);
    read_some(&k, st, "a.pt", 19, 1, &own[1]);
    assert_ptr_equal(own[0].shape, own[1].shape);
    zf_keeper_into(&k, brief);
    read_some(&k, st, "a.pt", 29, 1, &other);
    zf_keeper_into(&k, arena);
    read_some(&k, st, "a.pt", 39, 1, &again);
    assert_ptr_not_equal(other.shape, own[0].shape);
    assert_ptr_not_equal(again.shape, other.shape);
    assert_ptr_not_equal(again.stride, other.stride);
    assert_int_equal(again.shape[0], 3);
    zf_keeper_fini(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_ones_share_a_source),
        cmocka_unit_test(shapes_end_with_their_arena),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
