/* SPDX-License-Identifier: Apache-2.0 */
/* Files opened ahead are what they would be, opened one after the other: sound, damaged and missing
 * ones. */
#include <stdio.h>

#include <zf/assemble/torch_ahead.h>
#include <zf/codec/torch_write.h>
#include <zf/codec/zip_write.h>

#include "unit/codec/fixture.h"
#include "support/fault.h"
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

static void add_tensor(struct zf_out *pickle, const char *name)
{
    const uint64_t one = 1;

    zf_torch_write_tensor(pickle, &(struct zf_torch_write){.name = name,
                                                           .name_len = (uint32_t)strlen(name),
                                                           .dtype = ZF_DT_U8,
                                                           .ndim = 1,
                                                           .shape = &one});
}

/* Bytes of the name of a third member, the last thing in the directory. */
enum { TAIL = 20000 };

/* A file of n tensors whose names begin with `word`, and of those of the names in `more`, all of one storage. */
static void add_file_with(struct zf_store *st, const char *path, uint64_t n, char word,
                          const char *const *more)
{
    zf_auto(out) struct zf_out pickle = {0}, file = {0};
    zf_auto(zip_write) struct zf_zip_write w = {0};
    char name[64], tail[TAIL + 1] = "";
    struct zf_err err;

    memset(tail, 't', TAIL);
    zf_torch_write_begin(&pickle);
    for (uint64_t i = 0; i < n; i++) {
        (void)snprintf(name, sizeof name, "%c%060llu", word, (unsigned long long)i);
        add_tensor(&pickle, name);
    }
    for (; *more; more++)
        add_tensor(&pickle, *more);
    zf_torch_write_end(&pickle);
    zf_zip_write_member(&w, "archive/data.pkl", pickle.n, 0, &file);
    zf_out_add(&file, pickle.p, pickle.n);
    zf_zip_write_member(&w, "archive/data/0", 1, 0, &file);
    zf_out_u8(&file, 1);
    zf_zip_write_member(&w, tail, 0, 0, &file);
    zf_zip_write_end(&w, &file);
    assert_ok(zf_out_ok(&pickle, &err) && zf_out_ok(&file, &err), &err);
    assert_ok(store_mem_add(st, path, file.p, file.n, &err), &err);
}

static void add_file(struct zf_store *st, const char *path, uint64_t n, char word)
{
    static const char *const none[] = {NULL};

    add_file_with(st, path, n, word, none);
}

/* What was read once is not parsed again, however long it is; what differs in a letter is. */
static void known_are_told_from_others(void **state)
{
    static const char *const path[] = {"a0.pt", "a1.pt", "b0.pt", "a2.pt"};
    static const uint64_t sizes[] = {10, 20000 /* a pickle of 2.5 MB */};
    struct zf_limits lim = zf_limits_default();
    struct zf_err err;

    (void)state;
    for (size_t k = 0; k < 2; k++) {
        struct zf_store *st = store_mem_new(&lim, &err);

        assert_ok(st, &err);
        for (size_t i = 0; i < 4; i++)
            add_file(st, path[i], sizes[k], path[i][0]);
        struct zf_torch_ahead a = {.st = st, .lim = &lim};
        assert_ok(zf_torch_ahead_begin_alike(&a, NULL, path, 4, &err), &err);
        for (size_t i = 0; i < 4; i++) {
            zf_auto(source) struct zf_source *src = zf_store_open(st, path[i], &err);
            zf_auto(torch) struct zf_torch *t = zf_torch_open_among(src, &lim, a.known, &err);

            assert_ok(t, &err);
            assert_int_equal(zf_torch_is_known(t), i % 2);
            assert_int_equal(zf_torch_root(t) == NULL, i % 2);
            zf_torch_known_add(a.known, t);
        }
        zf_torch_ahead_fini(&a);
        zf_store_unref(&st);
    }
}

enum { LONG = 20000 /* tensors: a pickle of 2.5 MB */ };

/* Is a file with the names b a twin of one with the names a? */
static bool are_twins(uint64_t n, const char *const *a, const char *const *b)
{
    static const char *const path[] = {"a.pt", "b.pt"};
    struct zf_limits lim = zf_limits_default();
    struct zf_err err;
    zf_auto(store) struct zf_store *st = store_mem_new(&lim, &err);
    struct zf_torch_ahead ahead = {.st = st, .lim = &lim};
    uint64_t len;

    assert_ok(st, &err);
    add_file_with(st, path[0], n, 'w', a);
    add_file_with(st, path[1], n, 'w', b);
    zf_auto(torch) struct zf_torch *first = zf_torch_ahead_open_first(&ahead, path[0], &err);
    assert_ok(first, &err);
    /* what is read of it is what it says */
    assert_string_equal(zf_pv_text(zf_pv_key(zf_torch_root(first), n), &len), a[0]);
    zf_torch_known_add(ahead.known, first);
    assert_ok(zf_torch_ahead_begin_alike(&ahead, path[0], &path[1], 1, &err), &err);
    zf_auto(torch) struct zf_torch *t = zf_torch_ahead_open(&ahead, path[1], &err);
    assert_ok(t, &err);
    if (!zf_torch_is_known(t))
        assert_string_equal(zf_pv_text(zf_pv_key(zf_torch_root(t), n), &len), b[0]);
    const bool are = zf_torch_is_known(t);
    zf_torch_ahead_fini(&ahead);
    return are;
}

/* The device's number may differ in a long pickle, the same one everywhere, and nothing else. */
static void a_device_may_be_another(void **state)
{
    static const char *const is[][4] = {
        {"cuda:0", NULL},           {"cuda:1", NULL},           {"cuda:?", NULL},
        {"cuda:x", NULL},           {"cudb:1", NULL},           {"cuda:0", "cuda:1", NULL},
        {"cuda:1", "cuda:0", NULL}, {"cuda:2", "cuda:1", NULL}, {"cuda:0", "cuda:?", NULL},
        {"cuda:1", "cuda:?", NULL}, {"cuda:10", NULL},          {"cuda:11", NULL},
    };
    static const int twins[][2] = {{0, 1}, {5, 7}};
    const int n = sizeof is / sizeof is[0];

    (void)state;
    for (int i = 0; i < n; i++) {
        for (int k = i; k < n; k++) {
            bool want = i == k;

            for (size_t j = 0; j < sizeof twins / sizeof twins[0]; j++)
                want = want || (twins[j][0] == i && twins[j][1] == k);
            assert_int_equal(are_twins(LONG / 2, is[i], is[k]), want);
        }
    }
    assert_false(are_twins(10, is[0], is[1]));
    assert_true(are_twins(10, is[0], is[0]));
}

/* Of a twin, of which nothing is served, no more of the directory is read than the entry of its pickle. */
static void a_twin_is_known_by_its_first_member(void **state)
{
    static const char *const path[] = {"a.pt", "b.pt"};
    struct zf_limits lim = zf_limits_default();
    struct zf_err err;
    zf_auto(store) struct zf_store *st = store_mem_new(&lim, &err);
    struct zf_torch_known *w = zf_torch_known_new(&err);

    (void)state;
    assert_ok(st && w, &err);
    add_file(st, path[0], 10, 'w');
    add_file(st, path[1], 10, 'v');
    for (int k = 0; k < 2; k++) {
        zf_auto(source) struct zf_source *src = zf_store_open(st, path[k], &err);
        zf_auto(source) struct zf_source *bad =
            fault_new(src, src->size - TAIL / 2, TAIL / 4, &err);
        zf_auto(torch) struct zf_torch *first = zf_torch_open_among(src, &lim, w, &err);

        assert_ok(first && bad, &err);
        assert_null(zf_torch_open_among(bad, &lim, w, &err));
        assert_int_equal(err.code, ZF_E_IO);
        zf_torch_known_add(w, first);
        zf_auto(torch) struct zf_torch *t = zf_torch_open_among(bad, &lim, w, &err);
        assert_ok(t, &err);
        assert_true(zf_torch_is_known(t));
        assert_int_equal(zf_torch_pickle_bytes(t), zf_torch_pickle_bytes(first));
    }
    zf_torch_known_free(w);
}

/* Twins of one file are not those of another one. */
static void known_are_of_their_first(void **state)
{
    static const char *const path[] = {"a.pt", "b.pt"};
    struct zf_limits lim = zf_limits_default();
    struct zf_err err;
    zf_auto(store) struct zf_store *st = store_mem_new(&lim, &err);
    struct zf_torch_ahead a = {.st = st, .lim = &lim};

    (void)state;
    assert_ok(st, &err);
    add_file(st, path[0], LONG, 'w');
    add_file(st, path[1], LONG, 'w');
    for (int k = 0; k < 3; k++) {
        zf_auto(torch) struct zf_torch *first = zf_torch_ahead_open_first(&a, path[0], &err);

        assert_ok(first && !zf_torch_is_known(first), &err);
        zf_torch_known_add(a.known, first);
        assert_ok(k > 0 || zf_torch_ahead_begin(&a, &path[1], 1, &err), &err);
        assert_ok(k == 0 ||
                      zf_torch_ahead_begin_alike(&a, k == 1 ? "c.pt" : NULL, &path[1], 1, &err),
                  &err);
        zf_auto(torch) struct zf_torch *t = zf_torch_ahead_open(&a, path[1], &err);
        assert_ok(t && !zf_torch_is_known(t), &err);
    }
    zf_torch_ahead_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_file_is_as_if_it_were_alone),
        cmocka_unit_test(others_may_be_asked_for),
        cmocka_unit_test(known_are_told_from_others),
        cmocka_unit_test(a_device_may_be_another),
        cmocka_unit_test(a_twin_is_known_by_its_first_member),
        cmocka_unit_test(known_are_of_their_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
