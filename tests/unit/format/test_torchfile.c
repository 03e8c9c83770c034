/* SPDX-License-Identifier: Apache-2.0 */
/* Real torch.save files of every shape against the digests that torch made of them. */
#include <stdio.h>
#include <stdlib.h>

#include "support/golden.h"

static void flat_files(void **state)
{
    static const char *const dir[] = {
        "hf/bin_sharded_llama",          "hf/torchsave_big_endian",     "hf/torchsave_legacy_views",
        "hf/torchsave_rezipped_deflate", "hf/torchsave_meta_and_empty", "hf/torchsave_whole_module",
        "hf/torchsave_subclasses",
    };

    (void)state;
    for (size_t i = 0; i < sizeof dir / sizeof dir[0]; i++)
        golden_root(dir[i]);
}

static void one_file_can_be_pointed_at(void **state)
{
    (void)state;
    zf_auto(checkpoint) struct zf_checkpoint *c =
        golden_open("hf/torchsave_big_endian/be.pt", NULL);
    json_t *e = golden_json("hf/torchsave_big_endian/expected.json");

    assert_string_equal(c->format, "torch");
    assert_int_equal(golden_tensors(c, "", json_object_get(e, "tensors")), 20);
    json_decref(e);
}

static void meta_tensors_are_told(void **state)
{
    (void)state;
    zf_auto(checkpoint) struct zf_checkpoint *c = golden_open("hf/torchsave_meta_and_empty", NULL);

    assert_true(golden_note(c, "meta"));
    assert_null(zf_set_find(zf_checkpoint_set(c, ""), "meta", 4));
}

static void quantized_tensors_show_their_integers_and_scales(void **state)
{
    (void)state;
    zf_auto(checkpoint) struct zf_checkpoint *c = golden_open("hf/torchsave_quantized", NULL);
    json_t *e = golden_json("hf/torchsave_quantized/expected.json");
    const struct zf_set *root = zf_checkpoint_set(c, "");

    assert_int_equal(golden_tensors(c, "", json_object_get(e, "tensors")), 4);
    assert_non_null(zf_set_find(root, "qt.scale", 8));
    assert_non_null(zf_set_find(root, "qc.scales", 9));
    assert_non_null(zf_set_find(root, "qc.zero_points", 14));
    json_decref(e);
}

static void sparse_tensors_show_their_parts(void **state)
{
    (void)state;
    zf_auto(checkpoint) struct zf_checkpoint *c = golden_open("hf/torchsave_sparse", NULL);
    json_t *e = golden_json("hf/torchsave_sparse/expected.json");
    const char *name, *part;
    json_t *sparse, *want;
    size_t n = 0;

    json_object_foreach(json_object_get(e, "sparse"), name, sparse)
    {
        json_object_foreach(json_object_get(sparse, "parts"), part, want)
        {
            char full[64];

            (void)snprintf(full, sizeof full, "%s.%s", name, part);
            golden_tensor(c, "", full, want);
            n++;
        }
    }
    assert_int_equal(n, 11);
    assert_int_equal(golden_tensors(c, "", json_object_get(e, "tensors")), 1);
    json_decref(e);
}

static void a_training_checkpoint_is_taken_apart(void **state)
{
    (void)state;
    zf_auto(checkpoint) struct zf_checkpoint *c = golden_open("hf/torchsave_training_ckpt", NULL);
    json_t *e = golden_json("hf/torchsave_training_ckpt/expected.json");
    const char *key;
    json_t *want;

    json_object_foreach(json_object_get(e, "tensors"), key, want)
    {
        char set[64] = "";

        if (strncmp(key, "model.", 6) == 0) {
            golden_tensor(c, "", key + 6, want);
        } else if (strncmp(key, "views.", 6) == 0) {
            golden_tensor(c, "views", key + 6, want);
        } else if (strncmp(key, "optimizer.state.", 16) == 0) {
            char id[2] = {key[16], '\0'};

            (void)snprintf(set, sizeof set, "optim/%s", key + 18);
            golden_tensor(c, set, id, want);
        } else {
            golden_tensor(c, "extra", key, want);
        }
    }
    json_decref(e);
}

static void equal_elements_are_one_tensor_with_two_names(void **state)
{
    (void)state;
    zf_auto(checkpoint) struct zf_checkpoint *c = golden_open("hf/torchsave_whole_module", NULL);
    const struct zf_set *root = zf_checkpoint_set(c, "");
    const struct zf_tensor *emb = zf_set_find(root, "emb.weight", 10);
    const struct zf_tensor *head = zf_set_find(root, "head.weight", 11);

    assert_non_null(emb);
    assert_non_null(head);
    assert_ptr_equal(&root->tensor[emb->alias_of], &root->tensor[head->alias_of]);
    assert_true(emb->alias_of != (uint32_t)(emb - root->tensor) ||
                head->alias_of != (uint32_t)(head - root->tensor));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flat_files),
        cmocka_unit_test(one_file_can_be_pointed_at),
        cmocka_unit_test(meta_tensors_are_told),
        cmocka_unit_test(quantized_tensors_show_their_integers_and_scales),
        cmocka_unit_test(sparse_tensors_show_their_parts),
        cmocka_unit_test(a_training_checkpoint_is_taken_apart),
        cmocka_unit_test(equal_elements_are_one_tensor_with_two_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
