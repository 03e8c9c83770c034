/* SPDX-License-Identifier: Apache-2.0 */
#include "support/golden.h"
#include "support/in_memory.h"
#include "support/store_mem.h"

#include <stdio.h>
#include <stdlib.h>

static const char header_a[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}";

static void add_text(struct fixture *f, const char *path, const char *text)
{
    assert_ok(store_mem_add(f->st, path, text, strlen(text), &f->err), &f->err);
}

/* A safetensors file whose data are `data`. */
static void add(struct fixture *f, const char *path, const char *header, const char *data)
{
    char buf[4096] = {0};
    size_t n = strlen(header), d = strlen(data);

    assert_true(n + d + 8 < sizeof buf);
    buf[0] = (char)(n & 0xff);
    buf[1] = (char)(n >> 8);
    memcpy(buf + 8, header, n);
    memcpy(buf + 8 + n, data, d);
    assert_ok(store_mem_add(f->st, path, buf, 8 + n + d, &f->err), &f->err);
}

static struct zf_checkpoint *open_ok(struct fixture *f)
{
    struct zf_checkpoint *c = zf_open(f->st, &f->o, &f->err);

    assert_ok(c != NULL, &f->err);
    return c;
}

static void open_bad(struct fixture *f, enum zf_code code, const char *path, const char *part)
{
    zf_auto(checkpoint) struct zf_checkpoint *c = zf_open(f->st, &f->o, &f->err);

    assert_null(c);
    assert_int_equal(f->err.code, code);
    if (!strstr(f->err.msg, part) || !strstr(f->err.path, path))
        fail_msg("\"%s\" in %s, expected \"%s\" in %s", f->err.msg, f->err.path, part, path);
}

static void assert_bytes(const struct zf_checkpoint *c, const char *set, const char *name,
                         const char *want)
{
    const struct zf_set *s = zf_checkpoint_set(c, set);
    const struct zf_tensor *t = s ? zf_set_find(s, name, strlen(name)) : NULL;
    struct zf_err err = {.code = ZF_OK};
    char got[64];

    assert_non_null(t);
    assert_int_equal(zf_map_size(t->data), strlen(want));
    assert_ok(zf_map_read(t->data, got, strlen(want), 0, &err), &err);
    assert_memory_equal(got, want, strlen(want));
}

static void test_real(void **state)
{
    (void)state;
    golden_root("hf/transformers5.23.0_llama_tied_bf16_single");
    golden_root("hf/transformers5.23.0_gpt2_sharded");
    golden_root("dcp/torch2.13/hf_dist_w2");
    golden_root("dcp/torch2.13/hf_dist_consol_w2");
}

static void test_sharded_alone(void **state)
{
    json_t *e = golden_json("dcp/torch2.13/hf_dist_consol_w2/expected.json");
    zf_auto(checkpoint) struct zf_checkpoint *c =
        golden_open("dcp/torch2.13/hf_dist_consol_w2/sharded", NULL);

    (void)state;
    assert_int_equal(golden_tensors(c, "", json_object_get(e, "tensors")), 6);
    assert_true(golden_note(c, "no index that records the number of ranks"));
    json_decref(e);
}

/* The index lists tensors that no file holds: two ranks wrote the same files. */
static void test_index_promises_more(void **state)
{
    json_t *e = golden_json("dcp/torch2.13/hf_full_map_w2/expected.json");
    struct zf_open_opts o = {.degraded = true};
    struct zf_err err;

    (void)state;
    golden_refused("dcp/torch2.13/hf_full_map_w2", NULL, &err);
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, "no file holds it (2 of 7");
    assert_string_equal(err.path, "model.safetensors.index.json");

    zf_auto(checkpoint) struct zf_checkpoint *c = golden_open("dcp/torch2.13/hf_full_map_w2", &o);
    assert_int_equal(golden_tensors(c, "", json_object_get(e, "tensors")), 5);
    assert_true(golden_note(c, "which does not hold it: model.l.0.q.weight"));
    json_decref(e);
}

static void test_side_files(void **state)
{
    zf_auto(checkpoint) struct zf_checkpoint *c =
        golden_open("hf/transformers5.23.0_gpt2_sharded", NULL);

    (void)state;
    assert_string_equal(c->format, "hf");
    assert_non_null(golden_blob(c, "config.json"));
    assert_non_null(golden_blob(c, "generation_config.json"));
    assert_null(golden_blob(c, "expected.json"));
}

static void test_one_file(void **state)
{
    zf_auto(checkpoint) struct zf_checkpoint *c =
        golden_open("hf/transformers5.23.0_gpt2_sharded/model-00003-of-00004.safetensors", NULL);
    zf_auto(checkpoint) struct zf_checkpoint *all =
        golden_open("hf/transformers5.23.0_gpt2_sharded/model.safetensors.index.json", NULL);

    (void)state;
    assert_string_equal(c->format, "safetensors");
    assert_string_equal(all->format, "hf");
    assert_true(c->set[0].n < all->set[0].n);
    assert_true(golden_note(c, "this is file 3 of 4"));
    zf_auto(checkpoint) struct zf_checkpoint *only =
        golden_open("dcp/torch2.13/hf_dist_consol_w2/model-00001-of-00001.safetensors", NULL);
    assert_false(golden_note(only, "this is file"));
}

static void test_index_faults(void **state)
{
    static const char *const bad[] = {
        "{\"weight_map\": {\"a\": \"../x.safetensors\"}}",
        "{\"weight_map\": {\"a\": \"/x.safetensors\"}}",
        "{\"weight_map\": {\"a\": 3}}",
        "{\"weight_map\": []}",
        "{}",
        "{\"weight_map\": {\"a\": \"x\", \"a\": \"y\"}}",
    };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (i)
            setup(state);
        struct fixture *f = *state;
        add_text(f, "model.safetensors.index.json", bad[i]);
        open_bad(f, ZF_E_FORMAT, "model.safetensors.index.json", "");
        if (i + 1 < sizeof bad / sizeof bad[0])
            teardown(state);
    }
}

static void test_missing_file(void **state)
{
    struct fixture *f = *state;

    add(f, "x.safetensors", header_a, "1234");
    add_text(f, "model.safetensors.index.json",
             "{\"metadata\": {\"total_size\": 1.5}, \"weight_map\": {\"a\": \"x.safetensors\", "
             "\"b\": \"y.safetensors\"}}");
    open_bad(f, ZF_E_FORMAT, "model.safetensors.index.json", "\"y.safetensors\", which is missing");

    f->o.degraded = true;
    zf_auto(checkpoint) struct zf_checkpoint *c = open_ok(f);
    assert_bytes(c, "", "a", "1234");
    assert_true(golden_note(c, "y.safetensors is missing; its tensors are lost"));
}

/* The index decides between two files; what it does not name is served all the same. */
static void test_index_decides(void **state)
{
    struct fixture *f = *state;

    add(f, "x.safetensors", header_a, "1234");
    add(f, "y.safetensors",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
        "\"more\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[4,5]},"
        "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[5,6]}}",
        "abcdMb");
    add_text(f, "model.safetensors.index.json",
             "{\"weight_map\": {\"a\": \"x.safetensors\", \"b\": \"y.safetensors\"}}");
    zf_auto(checkpoint) struct zf_checkpoint *c = open_ok(f);
    assert_bytes(c, "", "a", "1234");
    assert_bytes(c, "", "b", "b");
    assert_bytes(c, "", "more", "M");
}

static void test_loose(void **state)
{
    struct fixture *f = *state;

    add(f, "one.safetensors", header_a, "1234");
    add(f, "two.safetensors",
        "{\"__metadata__\":{\"format\":\"pt\",\"note\":\"x\"},"
        "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
        "b");
    zf_auto(checkpoint) struct zf_checkpoint *c = open_ok(f);
    assert_string_equal(c->format, "safetensors");
    assert_bytes(c, "", "a", "1234");
    assert_bytes(c, "", "b", "b");
    assert_non_null(golden_blob(c, "state/two.metadata.json"));
    assert_null(golden_blob(c, "state/one.metadata.json"));
}

static void test_loose_apart(void **state)
{
    struct fixture *f = *state;

    add(f, "model.safetensors", header_a, "1234");
    add(f, "ema.safetensors", header_a, "5678");
    zf_auto(checkpoint) struct zf_checkpoint *c = open_ok(f);
    assert_bytes(c, "", "a", "1234");
    assert_bytes(c, "ema", "a", "5678");
}

static void test_series_with_a_gap(void **state)
{
    struct fixture *f = *state;

    add(f, "model-00001-of-00003.safetensors", header_a, "1234");
    add(f, "model-00003-of-00003.safetensors", "{}", "");
    open_bad(f, ZF_E_FORMAT, "", "file 00002 of 00003 of the series model is missing");
}

static const char box0[] = "{\"__metadata__\":{\"DCP_SHARDING_INFO\":"
                           "\"{\\\"a\\\":{\\\"saved_offsets\\\":[0,0]}}\"},"
                           "\"a\":{\"dtype\":\"U8\",\"shape\":[2,2],\"data_offsets\":[0,4]}}";
static const char box1[] = "{\"__metadata__\":{\"DCP_SHARDING_INFO\":"
                           "\"{\\\"a\\\":{\\\"saved_offsets\\\":[0,2]}}\"},"
                           "\"a\":{\"dtype\":\"U8\",\"shape\":[2,1],\"data_offsets\":[0,2]}}";

static void test_boxes(void **state)
{
    struct fixture *f = *state;

    add(f, "shard-00001-model-00001-of-00001.safetensors", box0, "abde");
    add(f, "shard-00002-model-00001-of-00001.safetensors", box1, "cf");
    zf_auto(checkpoint) struct zf_checkpoint *c = open_ok(f);
    assert_string_equal(c->format, "hf");
    assert_bytes(c, "", "a", "abcdef");
    assert_int_equal(c->n_blobs, 0); /* the boxes are no news of the training */
}

static void test_boxes_overlap(void **state)
{
    struct fixture *f = *state;

    add(f, "shard-00001-model-00001-of-00001.safetensors", box0, "abde");
    add(f, "shard-00002-model-00001-of-00001.safetensors", box0, "abde");
    open_bad(f, ZF_E_FORMAT, "", "a");
}

static void test_boxes_missing_rank(void **state)
{
    struct fixture *f = *state;

    add_text(f, "config.json", "{}"); /* is nobody's */
    add(f, "shard-00002-model-00001-of-00001.safetensors", box1, "cf");
    open_bad(f, ZF_E_FORMAT, "", "rank 1 are missing");

    f->o.degraded = true;
    zf_auto(checkpoint) struct zf_checkpoint *c = open_ok(f);
    assert_int_equal(c->n_sets, 0); /* rank 1 may say that "a" is larger */
    assert_int_equal(c->n_missing, 1);
    assert_string_equal(c->missing[0].name, "a");
    assert_true(golden_note(c, "of rank 1 are missing"));
}

/* A file cut in its data: refused, or the bytes that are left. */
static void test_cut(void **state)
{
    struct fixture *f = *state;
    const struct zf_tensor *t;
    char got[4];

    add(f, "x.safetensors", header_a, "12");
    open_bad(f, ZF_E_FORMAT, "x.safetensors", "found a file of");

    f->o.degraded = true;
    zf_auto(checkpoint) struct zf_checkpoint *c = open_ok(f);
    t = zf_set_find(&c->set[0], "a", 1);
    assert_non_null(t);
    assert_true(t->lost);
    assert_ok(zf_map_read(t->data, got, 2, 0, &f->err), &f->err);
    assert_memory_equal(got, "12", 2);
    assert_false(zf_map_read(t->data, got, 2, 1, &f->err));
    assert_int_equal(f->err.code, ZF_E_IO);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_real),
        cmocka_unit_test(test_sharded_alone),
        cmocka_unit_test(test_index_promises_more),
        cmocka_unit_test(test_side_files),
        cmocka_unit_test(test_one_file),
        TEST(test_index_faults),
        TEST(test_missing_file),
        TEST(test_index_decides),
        TEST(test_loose),
        TEST(test_loose_apart),
        TEST(test_series_with_a_gap),
        TEST(test_boxes),
        TEST(test_boxes_overlap),
        TEST(test_boxes_missing_rank),
        TEST(test_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
