/* SPDX-License-Identifier: Apache-2.0 */
/* Files opened ahead are what they would be, opened one after the other: sound, damaged and missing
 * ones. */
#include <stdio.h>

#include <zf/assemble/torch_ahead.h>

#include "unit/codec/fixture.h"
#include "support/store_mem.h"

#define SAMPLE                                                                                     \
    "deepspeed/ds0_18_9_zero2_zenflow_step0_w2/global_step0/"                                      \
    "bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt"

enum { FILES = 60 };

struct fixture {
    struct zf_limits lim;
    struct zf_store *st;
    const char *path[FILES];
    char name[FILES][16];
};

/* Every seventh file is missing, every fifth cut short, each one elsewhere. */
static void setup(struct fixture *f)
{
    zf_auto(source) struct zf_source *sample = fixture_data(SAMPLE);
    zf_auto(mem) char *bytes = malloc(sample->size);
    struct zf_err err;

    assert_non_null(bytes);
    assert_ok(zf_source_pread(sample, bytes, sample->size, 0, &err), &err);
    f->lim = zf_limits_default();
    f->st = store_mem_new(&f->lim, &err);
    assert_ok(f->st, &err);
    for (int i = 0; i < FILES; i++) {
        uint64_t n = i % 5 == 3 ? sample->size * (uint64_t)i / FILES : sample->size;

        (void)snprintf(f->name[i], sizeof f->name[i], "rank%d.pt", i);
        f->path[i] = f->name[i];
        assert_ok(i % 7 == 4 || store_mem_add(f->st, f->path[i], bytes, n, &err), &err);
    }
}

/* As the reader of one file would. */
static void assert_same(const struct fixture *f, const char *path, struct zf_torch *got,
                        const struct zf_err *got_err)
{
    struct zf_err err;
    char want[800], is[800];
    zf_auto(source) struct zf_source *src = zf_store_open(f->st, path, &err);
    zf_auto(torch) struct zf_torch *t = src ? zf_torch_open(src, &f->lim, &err) : NULL;

    assert_int_equal(got != NULL, t != NULL);
    if (t) {
        assert_string_equal(zf_torch_name(got), path);
        assert_int_equal(zf_torch_pickle_bytes(got), zf_torch_pickle_bytes(t));
        assert_int_equal(zf_pv_len(zf_torch_root(got)), zf_pv_len(zf_torch_root(t)));
        return;
    }
    assert_string_equal(zf_err_text(got_err, is, sizeof is), zf_err_text(&err, want, sizeof want));
}

static void each_file_is_as_if_it_were_alone(void **state)
{
    struct fixture f;
    struct zf_err err, first;
    int failed = 0;

    (void)state;
    setup(&f);
    struct zf_torch_ahead a = {.st = f.st, .lim = &f.lim};
    assert_ok(zf_torch_ahead_begin(&a, f.path, FILES, &err), &err);
    for (int i = 0; i < FILES; i++) {
        zf_auto(torch) struct zf_torch *t = zf_torch_ahead_open(&a, f.path[i], &first);

        failed += !t;
        assert_same(&f, f.path[i], t, &first);
    }
    assert_int_equal(failed, 18);
    zf_torch_ahead_fini(&a);
    zf_store_unref(&f.st);
}

/* What was not said, or is asked for in another order, is opened all the same; so is what comes
 * after it. */
static void others_may_be_asked_for(void **state)
{
    struct fixture f;
    struct zf_err err;

    (void)state;
    setup(&f);
    struct zf_torch_ahead a = {.st = f.st, .lim = &f.lim};
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < FILES; i++) {
            int k = round == 0 ? i : i * 7 % FILES;
            zf_auto(torch) struct zf_torch *t = zf_torch_ahead_open(&a, f.path[k], &err);

            assert_same(&f, f.path[k], t, &err);
        }
        assert_ok(zf_torch_ahead_begin(&a, f.path, round ? 5 : FILES, &err), &err);
    }
    zf_torch_ahead_fini(&a);
    zf_store_unref(&f.st);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_file_is_as_if_it_were_alone),
        cmocka_unit_test(others_may_be_asked_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
