/* SPDX-License-Identifier: Apache-2.0 */
/* Which names fit a pattern with numbers, and which file of a series is missing. */
#include <stdio.h>

#include "support/unit.h"

#include <zf/assemble/numbered.h>
#include "support/store_mem.h"

static void numbers_as_printf_writes_them(void **state)
{
    static const struct {
        const char *name;
        int rank; /* -1: it is none */
    } row[] = {
        {"rank0.pt", 0},         {"rank1.pt", 1},     {"rank7.pt", 7},
        {"rank10.pt", 10},       {"rank100.pt", 100}, {"rank1234567.pt", 1234567},
        {"rank12345678.pt", -1}, {"rank01.pt", -1},   {"rank00.pt", -1},
        {"rank001.pt", -1},      {"rank.pt", -1},     {"rank-1.pt", -1},
        {"rank1.ptx", -1},       {"rank1", -1},       {"rank1.pt.tmp", -1},
        {"rank1x.pt", -1},       {"ranks1.pt", -1},   {"1.pt", -1},
        {"rank01.ptx", -1},      {"rank 1.pt", -1},   {"rank123456789012.pt", -1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct zf_numbered_file f;
        bool ok = zf_numbered_fits("rank%r.pt", row[i].name, &f);

        if (ok != (row[i].rank >= 0) || (ok && f.number[0] != (uint32_t)row[i].rank))
            fail_msg("%s: %s, rank %u", row[i].name, ok ? "taken" : "left", f.number[0]);
    }
}

/* Every number of a padded pattern, as printf itself writes it; one digit more or less is another name. */
static void padded_as_printf_writes_them(void **state)
{
    struct zf_numbered_file f;
    char name[64];

    (void)state;
    for (unsigned n = 0; n < 2000; n++) {
        (void)snprintf(name, sizeof name, "c.%02u.pth", n);
        assert_true(zf_numbered_fits("c.%02t.pth", name, &f));
        assert_int_equal(f.number[0], n);
        (void)snprintf(name, sizeof name, "c.%03u.pth", n);
        assert_int_equal(zf_numbered_fits("c.%02t.pth", name, &f), n >= 100);
        (void)snprintf(name, sizeof name, "c.%u.pth", n);
        assert_int_equal(zf_numbered_fits("c.%02t.pth", name, &f), n >= 10);
    }
}

static void brackets_and_stems(void **state)
{
    static const char opt[] = "opt_pp-%p-of-%P[_dp-%d-of-%D]_tp-%t-of-%T.pt";
    struct zf_numbered_file f;

    (void)state;
    assert_true(zf_numbered_fits(opt, "opt_pp-1-of-2_dp-3-of-4_tp-5-of-6.pt", &f));
    assert_int_equal(zf_numbered_get(opt, &f, 'p'), 1);
    assert_int_equal(zf_numbered_get(opt, &f, 'P'), 2);
    assert_int_equal(zf_numbered_get(opt, &f, 'D'), 4);
    assert_int_equal(zf_numbered_get(opt, &f, 't'), 5);
    assert_true(zf_numbered_fits(opt, "opt_pp-1-of-2_tp-5-of-6.pt", &f));
    assert_int_equal(zf_numbered_get(opt, &f, 'd'), ZF_NO_NUMBER);
    assert_int_equal(zf_numbered_get(opt, &f, 'D'), ZF_NO_NUMBER);
    assert_int_equal(zf_numbered_get(opt, &f, 'T'), 6);
    assert_int_equal(zf_numbered_get(opt, &f, 'x'), ZF_NO_NUMBER);
    assert_false(zf_numbered_fits(opt, "opt_pp-1-of-2_dp-3-of_tp-5-of-6.pt", &f));
    assert_false(zf_numbered_fits(opt, "opt_pp-1-of-2_tp-5-of-6.pt2", &f));

    assert_true(zf_numbered_fits("*_%r.pt", "model_2_13.pt", &f));
    assert_int_equal(f.number[0], 13);
    assert_int_equal(f.stem_len, 7);
    assert_memory_equal(f.name + f.stem, "model_2", 7);
    assert_false(zf_numbered_fits("*_%r.pt", "_13.pt", &f));
}

/* What zf_numbered_complete says of a directory of these files. */
static const char *missing(const char *pattern, const char *const *file, struct zf_err *err)
{
    const struct zf_limits lim = zf_limits_default();

    struct zf_store *st = store_mem_new(&lim, err);

    assert_non_null(st);
    for (size_t i = 0; file[i]; i++)
        assert_true(store_mem_add(st, file[i], "", 0, err));
    struct zf_numbered l;

    assert_true(zf_numbered_list(st, "d", pattern, &l, err));
    zf_err_clear(err);
    size_t end = l.file.n ? zf_numbered_run(&l, 0) : 0;
    bool ok = zf_numbered_complete(&l, 0, end, err);
    zf_auto_numbered(&l);
    zf_store_unref(&st);
    return ok ? "" : err->path;
}

static void the_missing_file_is_named(void **state)
{
    static const char two[] = "t-%t-of-%T_d-%d.pt";
    struct zf_err err;

    (void)state;
#define FILES(...) ((const char *const[]){__VA_ARGS__, NULL})
    assert_string_equal(missing("r%r.pt", FILES("d/r1.pt", "d/r0.pt", "d/x"), &err), "");
    assert_string_equal(missing("r%r.pt", FILES("d/r1.pt", "d/r10.pt", "d/r0.pt"), &err),
                        "d/r2.pt");
    assert_string_equal(missing("r%02r.pt", FILES("d/r01.pt"), &err), "d/r00.pt");
    assert_string_equal(missing("r%r.pt", FILES("d/x"), &err), "");
    assert_string_equal(missing(two, FILES("d/t-0-of-2_d-0.pt", "d/t-1-of-2_d-0.pt"), &err), "");
    assert_string_equal(missing(two, FILES("d/t-0-of-2_d-0.pt"), &err), "d/t-1-of-2_d-0.pt");
    assert_string_equal(
        missing(two, FILES("d/t-0-of-2_d-0.pt", "d/t-0-of-2_d-1.pt", "d/t-1-of-2_d-1.pt"), &err),
        "d/t-1-of-2_d-0.pt");
    assert_string_equal(missing("*_%r.pt", FILES("d/a_0.pt", "d/a_2.pt", "d/b_0.pt"), &err),
                        "d/a_1.pt");
    assert_string_equal(missing("o[_d-%d]_t-%t.pt", FILES("d/o_t-0.pt", "d/o_t-2.pt"), &err),
                        "d/o_t-1.pt");

    /* Of two saves: other sizes, with and without brackets, a place beyond the size. */
    assert_string_equal(missing(two, FILES("d/t-0-of-2_d-0.pt", "d/t-1-of-3_d-0.pt"), &err), "d");
    assert_non_null(strstr(err.msg, "two saves"));
    assert_string_equal(missing("o[_d-%d]_t-%t.pt", FILES("d/o_t-0.pt", "d/o_d-0_t-1.pt"), &err),
                        "d");
    assert_string_equal(missing(two, FILES("d/t-2-of-2_d-0.pt"), &err), "d");
    assert_non_null(strstr(err.msg, "the number 2, but there are only 2"));
    assert_string_equal(missing("a%a_b%b.pt", FILES("d/a9999_b9999.pt"), &err), "d");
    assert_int_equal(err.code, ZF_E_LIMIT);
}

/* A name that is taken apart and put together again is the same, and another's where a number is. */
static void names_are_printed(void **state)
{
    static const char pattern[] = "zero_pp_rank_%d_mp_rank_%02m.pt[-%w.%n]";
    static const char *const names[] = {"zero_pp_rank_0_mp_rank_00.pt",
                                        "zero_pp_rank_12_mp_rank_345.pt-6.7"};
    struct zf_numbered_file f;
    char name[60];

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_true(zf_numbered_fits(pattern, names[i], &f));
        zf_numbered_print(pattern, &f, name, sizeof name);
        assert_string_equal(name, names[i]);
    }
    zf_numbered_set(pattern, &f, 'm', 8);
    zf_numbered_set(pattern, &f, 'w', ZF_NO_NUMBER);
    zf_numbered_set(pattern, &f, 'x', 9); /* it has none */
    zf_numbered_print(pattern, &f, name, sizeof name);
    assert_string_equal(name, "zero_pp_rank_12_mp_rank_08.pt");
    zf_numbered_print(pattern, &f, name, 15);
    assert_string_equal(name, "zero_pp_rank_1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_as_printf_writes_them),
        cmocka_unit_test(padded_as_printf_writes_them),
        cmocka_unit_test(brackets_and_stems),
        cmocka_unit_test(the_missing_file_is_named),
        cmocka_unit_test(names_are_printed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
