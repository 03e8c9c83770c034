/* SPDX-License-Identifier: Apache-2.0 */
/* What was not there when a store was asked: is it still not? */
#include "support/unit.h"

#include <zf/source/facts.h>

#include "scratch.h"

static struct zf_err err;

/* As a store sees it that is asked for the first time; a failure that is no answer fails the test. */
static bool still_none(const char *dir, enum zf_fact_kind kind, const char *path)
{
    const struct zf_limits lim = zf_limits_default();
    const struct zf_fact f = {.kind = kind, .path = path};
    struct zf_source *src = NULL;

    zf_err_clear(&err);
    zf_auto(store) struct zf_store *st = zf_store_dir(dir, &lim, &err);
    assert_ok(st, &err);
    bool yes = zf_store_holds(st, &f, &src, &err);
    assert_null(src);
    if (!yes) {
        assert_err(&err, ZF_E_STALE, ZF_OFF_NONE,
                   kind == ZF_FACT_NO_DIR ? "no such directory" : "no such file");
        assert_non_null(strstr(err.path, path));
    }
    return yes;
}

static void a_file(void **state)
{
    const char *dir = *state;
    char path[4200];

    assert_true(still_none(dir, ZF_FACT_NO_FILE, "d/x")); /* nor the directory */
    scratch_dir(dir, "d/x");
    assert_true(still_none(dir, ZF_FACT_NO_FILE, "d/x")); /* it is no file */
    scratch_path(dir, "d/x", path);
    assert_int_equal(rmdir(path), 0);
    assert_true(still_none(dir, ZF_FACT_NO_FILE, "d/x"));
    scratch_file(dir, "d/x", "");
    assert_false(still_none(dir, ZF_FACT_NO_FILE, "d/x"));
    assert_true(still_none(dir, ZF_FACT_NO_FILE, "top"));
    scratch_file(dir, "top", "");
    assert_false(still_none(dir, ZF_FACT_NO_FILE, "top"));
}

static void a_directory(void **state)
{
    assert_true(still_none(*state, ZF_FACT_NO_DIR, "e"));
    scratch_dir(*state, "e");
    assert_false(still_none(*state, ZF_FACT_NO_DIR, "e"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file),
        cmocka_unit_test(a_directory),
    };

    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
