/* SPDX-License-Identifier: Apache-2.0 */
/* The look back at a store of a kind that can ask for all its files at once. */
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/source/store_kind.h>

#include "support/compares.h"

static unsigned n_files;

static struct zf_source *look_open(void *self, const char *path, const char *name,
                                   const struct zf_entry *known, struct zf_err *err)
{
    (void)self, (void)path, (void)known;
    return zf_mem_new(name, (void *)(uintptr_t) "abc", 3, false, err);
}

static bool look_list(void *self, const char *dir, struct zf_listing *l, struct zf_err *err)
{
    char name[32];

    (void)self, (void)dir;
    for (unsigned i = 0; i < n_files; i++) {
        (void)snprintf(name, sizeof name, "file%05u", i);
        if (!zf_listing_add(
                l, &(struct zf_entry){.name = name, .kind = ZF_ENTRY_FILE, .exact = true}, err))
            return false;
    }
    return true;
}

static char *look_base(void *self, const char *dir, struct zf_err *err)
{
    (void)self, (void)err;
    return strdup(dir);
}

static bool look_unchanged(void *self, struct zf_source *const *file, size_t n, size_t *bad_out,
                           struct zf_err *err)
{
    (void)self, (void)file, (void)n, (void)bad_out, (void)err;
    return true;
}

static void look_fini(void *self)
{
    (void)self;
}

/* A directory of n files that were all opened; looks at texts while they are looked at once more. */
static uint64_t looks_of_files(unsigned n)
{
    static const struct zf_store_ops ops = {.list = look_list,
                                            .open = look_open,
                                            .base = look_base,
                                            .unchanged = look_unchanged,
                                            .fini = look_fini};
    struct zf_limits lim = zf_limits_default();
    struct zf_err err;
    zf_auto(store) struct zf_store *st = zf_store_new(
        &ops, NULL, (struct zf_store_look){.name = "made", .shown = "made"}, &lim, &err);
    const struct zf_entry *e;
    size_t n_entries;

    assert_ok(st, &err);
    n_files = n;
    assert_ok(zf_store_list(st, "", &e, &n_entries, &err), &err);
    assert_int_equal(n_entries, n);
    for (size_t i = 0; i < n_entries; i++) {
        zf_auto(source) struct zf_source *src = zf_store_open(st, e[i].name, &err);

        assert_ok(src, &err);
    }
    uint64_t before = compares_so_far();
    assert_ok(zf_store_unchanged(st, &err), &err);
    return compares_so_far() - before;
}

static void a_directory_is_looked_at_in_linear_time(void **state)
{
    (void)state;
    uint64_t few = looks_of_files(256), many = looks_of_files(2048);

    /* Of eight times as many; the square would be 64 times. */
    assert_in_range(many, few, 16 * few);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_directory_is_looked_at_in_linear_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
