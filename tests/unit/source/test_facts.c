/* SPDX-License-Identifier: Apache-2.0 */
/* What was not there when a store was asked: is it still not? */
#include "support/unit.h"

#include <zf/source/facts.h>
#include <zf/source/store_kind.h>

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

/* ---- a place with a pin -------------------------------------------------------------------------- */

static bool pinned_list(void *self, const char *dir, struct zf_listing *l, struct zf_err *e)
{
    (void)self, (void)dir, (void)l;
    return zf_fail(e, ZF_E_IO, ZF_OFF_NONE, "was asked for");
}

static struct zf_source *pinned_open(void *self, const char *path, const char *name,
                                     const struct zf_entry *known, struct zf_err *e)
{
    (void)self, (void)path, (void)known;
    return zf_mem_new(name, "text", 4, false, e);
}

static struct zf_source *pinned_again(void *self, const char *path, const char *name,
                                      struct zf_bytes note, struct zf_source *open,
                                      struct zf_err *e)
{
    (void)note;
    return open ? zf_source_ref(open) : pinned_open(self, path, name, NULL, e);
}

static char *pinned_base(void *self, const char *dir, struct zf_err *e)
{
    (void)self, (void)dir, (void)e;
    return strdup("");
}

static const char *pinned_pin(const void *self)
{
    (void)self;
    return "c0ffee";
}

static void pinned_fini(void *self)
{
    (void)self;
}

/* Nothing there can have changed, so that nothing is asked; but its files are wanted, to be read. */
static void a_place_with_a_pin(void **state)
{
    static const struct zf_store_ops ops = {.list = pinned_list,
                                            .open = pinned_open,
                                            .base = pinned_base,
                                            .again = pinned_again,
                                            .pin = pinned_pin,
                                            .fini = pinned_fini};
    const struct zf_limits lim = zf_limits_default();

    (void)state;
    zf_auto(store) struct zf_store *st =
        zf_store_new(&ops, NULL, (struct zf_store_look){.name = "p", .shown = "p"}, &lim, &err);
    assert_ok(st, &err);
    for (enum zf_fact_kind kind = 0; kind < ZF_FACT_KINDS; kind++) {
        const struct zf_fact f = {.kind = kind, .path = "d/x"};
        zf_auto(source) struct zf_source *src = NULL;

        assert_ok(zf_store_holds(st, &f, &src, &err), &err);
        assert_int_equal(src != NULL, kind == ZF_FACT_FILE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file),
        cmocka_unit_test(a_directory),
        cmocka_unit_test(a_place_with_a_pin),
    };

    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
