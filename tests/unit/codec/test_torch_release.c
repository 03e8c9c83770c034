/* SPDX-License-Identifier: Apache-2.0 */
/* What a tensor needs is given back when it is done with, and is found anew when it is asked for again. */
#include "support/unit.h"

#include <stdio.h>

#include <zf/codec/torch.h>
#include <zf/codec/torch_write.h>
#include <zf/codec/zip_write.h>
#include <zf/source/store.h>

enum { TENSORS = 500 };

static struct zf_limits lim;
static struct zf_err err;

/* An archive of 16-byte storages "0", "1" …, filled with their numbers, and this pickle. */
static struct zf_torch *open_of(struct zf_out *pickle, unsigned n_storages)
{
    zf_auto(zip_write) struct zf_zip_write w = {0};
    zf_auto(out) struct zf_out file = {0};
    char name[32];

    zf_torch_write_end(pickle);
    zf_zip_write_member(&w, "archive/data.pkl", pickle->n, 0, &file);
    zf_out_add(&file, pickle->p, pickle->n);
    for (unsigned i = 0; i < n_storages; i++) {
        (void)snprintf(name, sizeof name, "archive/data/%u", i);
        zf_zip_write_member(&w, name, 16, 0, &file);
        for (unsigned k = 0; k < 4; k++)
            zf_out_le32(&file, i);
    }
    zf_zip_write_end(&w, &file);
    assert_ok(zf_out_ok(pickle, &err) && zf_out_ok(&file, &err), &err);
    void *copy = malloc(file.n);
    assert_non_null(copy);
    memcpy(copy, file.p, file.n);
    zf_auto(source) struct zf_source *src = zf_mem_new("m.pt", copy, file.n, true, &err);
    assert_ok(src != NULL, &err);
    struct zf_torch *t = zf_torch_open(src, &lim, &err);
    assert_ok(t != NULL, &err);
    return t;
}

static void add(struct zf_out *o, const char *name, enum zf_dtype dtype, uint64_t rows,
                uint64_t storage)
{
    const uint64_t shape[] = {rows, 2};

    zf_torch_write_tensor(o, &(struct zf_torch_write){.name = name,
                                                      .name_len = (uint32_t)strlen(name),
                                                      .dtype = dtype,
                                                      .ndim = 2,
                                                      .shape = shape,
                                                      .storage = storage});
}

static bool tensor(struct zf_torch *t, const char *name, struct zf_torch_tensor *out)
{
    const struct zf_pv *v = zf_pv_get(zf_torch_root(t), name);

    assert_int_equal(zf_torch_kind(t, v), ZF_TORCH_DENSE);
    return zf_torch_tensor(t, v, out, &err);
}

/* It is 2 x 2 numbers of the storage `number`. */
static void is_whole(const struct zf_torch_tensor *x, uint32_t number)
{
    char key[16];
    uint8_t byte[16];

    (void)snprintf(key, sizeof key, "%u", number);
    assert_string_equal(x->storage->key, key);
    assert_int_equal(x->storage->bytes, 16);
    assert_int_equal(x->ndim, 2);
    assert_int_equal(x->shape[0], 2);
    assert_int_equal(x->shape[1], 2);
    assert_int_equal(x->stride[0], 2);
    assert_int_equal(x->stride[1], 1);
    assert_true(x->contiguous);
    assert_ok(zf_source_pread(x->storage->src, byte, sizeof byte, 0, &err), &err);
    for (int i = 0; i < 4; i++)
        assert_int_equal(byte[4 * i] | byte[4 * i + 1] << 8, number);
}

static void as_many_as_there_are_take_no_more_than_one(void **state)
{
    zf_auto(out) struct zf_out o = {0};
    char name[16];

    (void)state;
    zf_torch_write_begin(&o);
    for (unsigned i = 0; i < TENSORS; i++) {
        (void)snprintf(name, sizeof name, "t%u", i);
        add(&o, name, ZF_DT_F32, 2, i);
    }
    zf_auto(torch) struct zf_torch *t = open_of(&o, TENSORS);
    struct zf_torch_tensor x;
    uint64_t used = 0, n, unread;

    (void)zf_pv_get(zf_torch_root(t), "t0"); /* makes an index */
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < TENSORS; i++) {
            (void)snprintf(name, sizeof name, "t%u", i);
            assert_ok(tensor(t, name, &x), &err);
            is_whole(&x, i);
            zf_torch_release(t, &x);
            used = used ? used : zf_arena_used(zf_torch_arena(t));
            assert_int_equal(zf_arena_used(zf_torch_arena(t)), used);
            zf_torch_storages(t, &n, &unread);
            assert_int_equal(n, TENSORS);
            assert_int_equal(unread, round ? 0 : TENSORS - 1 - i);
        }
    }
}

/* What was said of a storage counts, whether or not it is still needed. */
static void another_word_about_a_storage_is_refused(void **state)
{
    (void)state;
    for (int released = 0; released < 2; released++) {
        zf_auto(out) struct zf_out o = {0};

        zf_torch_write_begin(&o);
        add(&o, "a", ZF_DT_F32, 2, 0);
        add(&o, "b", ZF_DT_F32, 2, 1);
        add(&o, "other type", ZF_DT_I32, 2, 0);
        add(&o, "other length", ZF_DT_F32, 1, 0);
        add(&o, "same", ZF_DT_F32, 2, 0);
        zf_auto(torch) struct zf_torch *t = open_of(&o, 2);
        struct zf_torch_tensor a, b, x;

        assert_ok(tensor(t, "a", &a), &err);
        if (released)
            zf_torch_release(t, &a);
        assert_ok(tensor(t, "b", &b), &err);
        assert_false(tensor(t, "other type", &x));
        assert_non_null(strstr(err.msg, "storage \"0\" is both 16 bytes of float32 and "
                                        "16 bytes of int32"));
        assert_false(tensor(t, "other length", &x));
        assert_non_null(strstr(err.msg, "and 8 bytes of float32"));
        assert_ok(tensor(t, "same", &x), &err);
        is_whole(&x, 0);
        is_whole(&b, 1);
        if (!released) {
            is_whole(&a, 0);
            assert_ptr_equal(a.storage, x.storage);
        }
    }
}

static int setup(void **state)
{
    (void)state;
    lim = zf_limits_default();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(as_many_as_there_are_take_no_more_than_one, setup),
        cmocka_unit_test_setup(another_word_about_a_storage_is_refused, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
