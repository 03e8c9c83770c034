/* SPDX-License-Identifier: Apache-2.0 */
/* Questions about one file: names of series, what is there in a file's place, Git LFS's pointers. */
#include <stdio.h>

#include <zf/assemble/files.h>

#include "support/unit.h"
#include "support/store_mem.h"

static void series(void **state)
{
    static const struct {
        const char *name;
        size_t stem;
        unsigned long number, of;
        bool padded;
        const char *tail;
    } yes[] = {
        {"model-00002-of-00003.safetensors", 5, 2, 3, true, ".safetensors"},
        {"pytorch_model-1-of-12.bin", 13, 1, 12, false, ".bin"},
        {"a-b-00001-of-00002.x.y", 3, 1, 2, true, ".x.y"},
        {"shard-00001-model-00004-of-00005.safetensors", 17, 4, 5, true, ".safetensors"},
        {"m-0-of-0.", 1, 0, 0, false, "."},
        {"m-00001-of-2.pt", 1, 1, 2, false, ".pt"},
    };
    static const char *const no[] = {"",
                                     "model.safetensors",
                                     "-00001-of-00002.bin",
                                     "-of-",
                                     "m-of-00002.bin",
                                     "m00001-of-00002.bin",
                                     "m-00001-of-.bin",
                                     "m-00001-of-00002",
                                     "m-123456-of-00002.bin",
                                     "m-1-of-123456.bin",
                                     "m- 1-of-2.bin",
                                     "m-+1-of-2.bin",
                                     "m-1-of--2.bin",
                                     "best-of-5.bin"};
    struct zf_series s;

    (void)state;
    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++) {
        if (!zf_series_parse(yes[i].name, &s)) {
            fail_msg("%s is of a series", yes[i].name);
        }
        assert_int_equal(s.stem, yes[i].stem);
        assert_int_equal(s.number, yes[i].number);
        assert_int_equal(s.of, yes[i].of);
        assert_int_equal(s.padded, yes[i].padded);
        assert_string_equal(s.tail, yes[i].tail);
    }
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++) {
        if (zf_series_parse(no[i], &s)) {
            fail_msg("%s is of no series", no[i]);
        }
    }
}

/* Every pair of numbers, as printf writes them. */
static void series_of_printf(void **state)
{
    struct zf_series s;
    char name[64];

    (void)state;
    for (unsigned long of = 1; of < 100000; of = of * 7 + 3) {
        for (unsigned long n = 0; n <= of; n += of / 5 + 1) {
            int stem = snprintf(name, sizeof name, "w");

            (void)snprintf(name + stem, sizeof name - 1, "-%05lu-of-%05lu.bin", n, of);
            assert_true(zf_series_parse(name, &s));
            assert_true(s.number == n && s.of == of && s.padded);
        }
    }
}

static void absent_and_pointers(void **state)
{
    static const char pointer[] = "version https://git-lfs.github.com/spec/v1\noid sha256:0\n";
    struct zf_limits lim = zf_limits_default();
    struct zf_err err;
    zf_auto(store) struct zf_store *st = store_mem_new(&lim, &err);
    char is[ZF_ABSENT_MAX];

    (void)state;
    assert_non_null(st);
    assert_true(store_mem_add(st, "b", pointer, sizeof pointer - 1, &err));
    assert_true(store_mem_add(st, "c", "version 1", 9, &err));
    assert_string_equal(zf_absent(st, "a", is), "is missing");
    assert_string_equal(zf_lfs_find(st, NULL), "b");
    assert_null(zf_lfs_find(st, "c"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(series),
        cmocka_unit_test(series_of_printf),
        cmocka_unit_test(absent_and_pointers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
