/* SPDX-License-Identifier: Apache-2.0 */
/* The two tables everybody reads: limits and dtypes. */
#include "support/unit.h"

#include <zf/base/dtype.h>
#include <zf/base/limits.h>

static void sets_limits_by_name(void **state)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_err err;

    (void)state;
    assert_ok(zf_limits_set(&lim, "open_files=3", &err), &err);
    assert_int_equal(lim.open_files, 3);
    assert_ok(zf_limits_set(&lim, "json_bytes=2k", &err), &err);
    assert_int_equal(lim.json_bytes, 2048);
    assert_false(zf_limits_set(&lim, "nonsense=1", &err));
    assert_err(&err, ZF_E_USAGE, ZF_OFF_NONE, "\"nonsense\"; there are pickle_bytes");
    assert_false(zf_limits_set(&lim, "open_files=", &err));
    assert_false(zf_limits_set(&lim, "open_files=-1", &err));
    assert_false(zf_limits_set(&lim, "open_files=1x", &err));
    assert_false(zf_limits_set(&lim, "open_files=99999999999T", &err));
    assert_err(&err, ZF_E_USAGE, ZF_OFF_NONE, "needs a number of files");
    assert_null(zf_limit_name(ZF_LIMIT_NONE));
    assert_string_equal(zf_limit_name(ZF_LIMIT_pickle_bytes), "pickle_bytes"); /* the first */
    assert_string_equal(zf_limit_name(ZF_LIMIT_cache_bytes), "cache_bytes");   /* the last */
    assert_false(zf_fail_limit(&err, ZF_LIMIT_tensors, 7, "%d names (limit %s)", 3, "tensors"));
    assert_err(&err, ZF_E_LIMIT, 7, "3 names (limit tensors)");
    assert_int_equal(err.limit, ZF_LIMIT_tensors);
    assert_false(zf_fail(&err, ZF_E_LIMIT, 7, "too many names"));
    assert_int_equal(err.limit, ZF_LIMIT_NONE);
    /* Nothing else has moved. */
    lim.open_files = zf_limits_default().open_files;
    lim.json_bytes = zf_limits_default().json_bytes;
    assert_memory_equal(&lim, &(struct zf_limits[]){zf_limits_default()}, sizeof lim);
}

/* Names and sizes as torch and safetensors give them. */
static void knows_every_spelling(void **state)
{
    enum zf_dtype t;
    uint64_t n;

    (void)state;
    for (int i = 0; i < ZF_DT_COUNT; i++) {
        const struct zf_dtype_info *info = zf_dtype_info((enum zf_dtype)i);

        assert_true(zf_dtype_by_torch(info->torch, strlen(info->torch), &t) &&
                    t == (enum zf_dtype)i);
        if (info->safetensors)
            assert_true(zf_dtype_by_safetensors(info->safetensors, &t) && t == (enum zf_dtype)i);
        if (info->storage) {
            assert_true(zf_dtype_by_storage(info->storage, strlen(info->storage), &t));
            assert_int_equal(t, i);
        }
    }
    assert_true(zf_dtype_by_torch("half", 4, &t) && t == ZF_DT_F16);
    assert_false(zf_dtype_by_safetensors("F6_E2M3", &t));
    assert_true(zf_dtype_size(ZF_DT_BF16, 2, (const uint64_t[]){3, 5}, &n) && n == 30);
    assert_false(zf_dtype_size(ZF_DT_F64, 1, (const uint64_t[]){UINT64_MAX / 4}, &n));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sets_limits_by_name),
        cmocka_unit_test(knows_every_spelling),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
