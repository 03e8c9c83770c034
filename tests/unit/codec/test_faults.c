/* SPDX-License-Identifier: Apache-2.0 */
/* Each byte of a file in turn cannot be read: a reader that needs it fails with the reason that it was given, one that
 * does not gives what it gives for the whole file. */
#include "fixture.h"
#include "support/fault.h"

#include <zf/codec/safetensors.h>
#include <zf/codec/torch.h>

#include "codec/torch/file.h"

/* What a reader found, in a few words; false: it failed. */
typedef bool reader_fn(struct zf_source *src, char *out, size_t n, struct zf_err *err);

static bool read_torch(struct zf_source *src, char *out, size_t n, struct zf_err *err)
{
    struct zf_limits lim = zf_limits_default();
    zf_auto(torch) struct zf_torch *t = zf_torch_open(src, &lim, err);
    uint64_t storages, unread;

    if (!t)
        return false;
    zf_torch_storages(t, &storages, &unread);
    (void)snprintf(out, n, "%s, %d, %d values, %d storages", t->ops->name,
                   (int)zf_pv_kind(zf_torch_root(t)), (int)zf_pv_len(zf_torch_root(t)),
                   (int)storages);
    return true;
}

static bool read_safetensors(struct zf_source *src, char *out, size_t n, struct zf_err *err)
{
    struct zf_limits lim = zf_limits_default();
    zf_auto(arena) struct zf_arena *arena = zf_arena_new(1 << 20, err);
    struct zf_st_header head;

    assert_non_null(arena);
    if (!zf_st_load(src, arena, &lim, &head, err))
        return false;
    (void)snprintf(out, n, "%d tensors, first %s", (int)head.n, head.entry[0].name);
    return true;
}

/* Returns how many bytes the reader needs. */
static uint64_t fail_everywhere(const char *path, reader_fn *read)
{
    zf_auto(source) struct zf_source *src = fixture_data(path);
    char whole[200], found[200], text[800];
    uint64_t needed = 0;
    struct zf_err err = {.code = ZF_OK};

    assert_ok(read(src, whole, sizeof whole, &err), &err);
    for (uint64_t off = 0; off < src->size; off++) {
        zf_auto(source) struct zf_source *bad = fault_new(src, off, 1, &err);

        assert_ok(bad, &err);
        zf_err_clear(&err);
        if (read(bad, found, sizeof found, &err)) {
            assert_string_equal(found, whole);
        } else if (err.code != ZF_E_IO) {
            fail_msg("%s without byte %d: %s", path, (int)off,
                     zf_err_text(&err, text, sizeof text));
        } else {
            needed++;
        }
    }
    return needed;
}

static void torch_zip(void **state)
{
    uint64_t needed = fail_everywhere("hf/torchsave_meta_and_empty/m.pt", read_torch);

    (void)state;
    assert_in_range(needed, 1000, 4376); /* not the records of the storages */
}

static void torch_zip_deflated(void **state)
{
    (void)state;
    assert_true(fail_everywhere("hf/torchsave_rezipped_deflate/m.pt", read_torch) > 500);
}

static void torch_stream(void **state)
{
    (void)state;
    assert_true(fail_everywhere("hf/torchsave_legacy_views/pytorch_model.bin", read_torch) > 500);
}

static void safetensors(void **state)
{
    zf_auto(source) struct zf_source *src =
        fixture_data("hf/transformers5.23.0_gpt2_sharded/model-00004-of-00004.safetensors");
    struct zf_err err;
    uint8_t n[2];

    (void)state;
    assert_ok(zf_source_pread(src, n, 2, 0, &err), &err);
    /* the length and the header, and not one byte of the data */
    assert_int_equal(
        fail_everywhere("hf/transformers5.23.0_gpt2_sharded/model-00004-of-00004.safetensors",
                        read_safetensors),
        8 + n[0] + 256 * n[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(torch_zip),
        cmocka_unit_test(torch_zip_deflated),
        cmocka_unit_test(torch_stream),
        cmocka_unit_test(safetensors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
