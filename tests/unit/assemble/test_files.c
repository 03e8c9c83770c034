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
        int width;
        const char *tail;
    } yes[] = {
        {"model-00002-of-00003.safetensors", 5, 2, 3, 5, ".safetensors"},
        {"pytorch_model-1-of-12.bin", 13, 1, 12, 1, ".bin"},
        {"a-b-00001-of-00002.x.y", 3, 1, 2, 5, ".x.y"},
        {"shard-00001-model-00004-of-00005.safetensors", 17, 4, 5, 5, ".safetensors"},
        {"m-0-of-0.", 1, 0, 0, 1, "."},
        {"m-00001-of-2.pt", 1, 1, 2, 5, ".pt"},
        {"mixture-of-experts-00001-of-00002.safetensors", 18, 1, 2, 5, ".safetensors"},
        {"m-000001-of-000002.bin", 1, 1, 2, 6, ".bin"},
        {"m_00001_of_00002.bin", 1, 1, 2, 5, ".bin"},
        {"m.00001-of-00002.bin", 1, 1, 2, 5, ".bin"},
        {"m-00001_of_00002.fp16.safetensors", 1, 1, 2, 5, ".fp16.safetensors"},
        {"best-3-of-5.x-00002-of-00003.bin", 13, 2, 3, 5, ".bin"},
        {"m-00001-of-00002.best-of-all.bin", 1, 1, 2, 5, ".best-of-all.bin"},
    };
    static const char *const no[] = {"",
                                     "model.safetensors",
                                     "-00001-of-00002.bin",
                                     "-of-",
                                     "m-of-00002.bin",
                                     "m00001-of-00002.bin",
                                     "m-00001-of-.bin",
                                     "m-00001-of-00002",
                                     "m-12345678-of-00002.bin",
                                     "m-1-of-12345678.bin",
                                     "m- 1-of-2.bin",
                                     "m-+1-of-2.bin",
                                     "m-1-of--2.bin",
                                     "best-of-5.bin",
                                     "epoch_3_of_10.bin",
                                     "m.1-of-2.bin",
                                     "m_1-of-00002.bin",
                                     "m-00001-of_00002.bin",
                                     "of",
                                     "_of_"};
    struct zf_series s;

    (void)state;
    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++) {
        if (!zf_series_parse(yes[i].name, &s))
            fail_msg("%s is of a series", yes[i].name);
        assert_int_equal(s.stem, yes[i].stem);
        assert_int_equal(s.number, yes[i].number);
        assert_int_equal(s.of, yes[i].of);
        assert_int_equal(s.width, yes[i].width);
        assert_string_equal(s.tail, yes[i].tail);
    }
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++)
        if (zf_series_parse(no[i], &s))
            fail_msg("%s is of no series", no[i]);
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
            assert_true(s.number == n && s.of == of && s.width == 5);
        }
    }
}

static bool is_bin(const char *name)
{
    return strstr(name, ".bin") != NULL;
}

/* Whose files lack which number. */
static void series_of_a_directory(void **state)
{
    static const char *const name[] = {
        "a-00001-of-00003.bin", "a-00002-of-00002.bin", "a-00003-of-00003.bin", "a-of-b-1-of-1.bin",
        "b-0-of-2.bin",         "b-00001-of-00002.bin", "c-1-of-3.bin",         "c-2-of-3.bin",
        "d-0-of-3.bin",         "d-1-of-3.bin",         "e-1-of-2.pt",          "f.bin"};
    static const struct {
        const char *name;
        unsigned long lacks;
    } want[] = {{name[0], 2}, {name[1], 1}, {name[2], 2}, {name[3], 0},
                {name[4], 0}, {name[5], 0}, {name[7], 3}, {name[9], 2}};
    struct zf_entry e[sizeof name / sizeof name[0]] = {0};
    struct zf_series_list list = {0};
    struct zf_err err = {.code = ZF_OK};

    (void)state;
    for (size_t i = 0; i < sizeof name / sizeof name[0]; i++)
        e[i].name = name[i];
    assert_null(zf_series_find(&list, name[0]));
    assert_true(zf_series_list(e, sizeof name / sizeof name[0], is_bin, &list, &err));
    assert_int_equal(list.of.n, 6);
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        const struct zf_series_files *s = zf_series_find(&list, want[i].name);

        assert_non_null(s);
        assert_int_equal(s->lacks, want[i].lacks);
    }
    assert_null(zf_series_find(&list, "e-1-of-2.pt"));
    assert_null(zf_series_find(&list, "f.bin"));
    assert_false(zf_series_fail(zf_series_find(&list, name[0]), &err));
    assert_int_equal(err.code, ZF_E_FORMAT);
    assert_string_equal(err.msg, "file 00002 of 00003 of the series a is missing");
    zf_vec_fini(&list.of);
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
        cmocka_unit_test(series_of_a_directory),
        cmocka_unit_test(absent_and_pointers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
