/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to pickled values, and the limits.  What opcodes mean is tested by test_pickle.py. */
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>

#include <zf/codec/pickle.h>

static struct zf_arena *arena;
static struct zf_limits lim;
static struct zf_err err;

static int setup(void **state)
{
    (void)state;
    lim = zf_limits_default();
    arena = zf_arena_new(UINT64_MAX, &err);
    return arena ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    zf_arena_free(arena);
    return 0;
}

static const struct zf_pv *load_n(const char *p, uint64_t n)
{
    struct zf_bytes in = zf_bytes_of(p, n);

    return zf_pickle_load(&in, arena, &lim, &err);
}

/* A pickle given as a string literal; must be good. */
#define load(literal) must(load_n(literal, sizeof(literal) - 1))

static const struct zf_pv *must(const struct zf_pv *v)
{
    assert_ok(v != NULL, &err);
    return v;
}

static void nothing_is_asked_of_null(void **state)
{
    uint64_t n = 7;
    int64_t i;

    (void)state;
    assert_int_equal(zf_pv_kind(NULL), ZF_PV_NONE);
    assert_false(zf_pv_int(NULL, &i));
    assert_null(zf_pv_text(NULL, &n));
    assert_int_equal(n, 0);
    assert_int_equal(zf_pv_len(NULL), 0);
    assert_null(zf_pv_get(NULL, "a"));
    assert_null(zf_pv_attr(NULL, "a"));
    assert_null(zf_pv_arg(NULL, 0));
    assert_string_equal(zf_pv_module(NULL), "");
    assert_false(zf_pv_is(NULL, NULL, ""));
}

static void numbers(void **state)
{
    const struct zf_pv *v =
        load("(K\x05J\xff\xff\xff\xff\x88\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"
             "\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\0"
             "\x8a\x09\0\0\0\0\0\0\0\0\1G\x3f\xf8\0\0\0\0\0\0t.");
    int64_t i;
    bool yes;
    uint64_t u;
    double f;

    (void)state;
    assert_true(zf_pv_int(zf_pv_item(v, 0), &i) && i == 5);
    assert_true(zf_pv_u64(zf_pv_item(v, 0), &u) && u == 5);
    assert_true(zf_pv_int(zf_pv_item(v, 1), &i) && i == -1);
    assert_false(zf_pv_u64(zf_pv_item(v, 1), &u));
    assert_true(zf_pv_int(zf_pv_item(v, 2), &i) && i == 1);
    assert_true(zf_pv_bool(zf_pv_item(v, 2), &yes) && yes);
    assert_false(zf_pv_bool(zf_pv_item(v, 0), &yes));
    assert_true(zf_pv_u64(zf_pv_item(v, 3), &u) && u == INT64_MAX);
    assert_false(zf_pv_int(zf_pv_item(v, 4), &i));
    assert_true(zf_pv_u64(zf_pv_item(v, 4), &u) && u == UINT64_MAX);
    assert_false(zf_pv_u64(zf_pv_item(v, 5), &u)); /* 2^64 */
    assert_int_equal(zf_pv_kind(zf_pv_item(v, 5)), ZF_PV_BIGINT);
    assert_true(zf_pv_float(zf_pv_item(v, 6), &f) && f == 1.5);
    assert_null(zf_pv_item(v, 7));
}

static void calls(void **state)
{
    const struct zf_pv *v = load("c__builtin__\nset\n(]K\1atR.");
    const struct zf_pv *member = load("c__builtin__\ngetattr\ncm\nE\nX\1\0\0\0W\x86R.");

    (void)state;
    assert_true(zf_pv_is(v, "builtins", "set"));
    assert_true(zf_pv_is(v, "__builtin__", "set"));
    assert_true(zf_pv_is(v, NULL, "set"));
    assert_false(zf_pv_is(v, "collections", "set"));
    assert_int_equal(zf_pv_len(zf_pv_arg(v, 0)), 1);
    assert_int_equal(zf_pv_len(v), 0);
    assert_false(zf_pv_is_map(v));
    assert_true(zf_pv_is(member, "builtins", "getattr"));
    assert_string_equal(zf_pv_name(zf_pv_arg(member, 0)), "E");
    assert_true(zf_pv_eq(zf_pv_arg(member, 1), "W"));
    v = load("cm\nC\n)}X\1\0\0\0kK\1s\x92.");
    assert_non_null(zf_pv_get(zf_pv_kwargs(v), "k"));
}

/* One text may be module and name, and the name of the global before it. */
static void globals_of_one_text(void **state)
{
    const struct zf_pv *v = load("(\x8c\x01"
                                 "a\x8c\x01"
                                 "b\x94\x93h\0h\0\x93t.");

    (void)state;
    assert_string_equal(zf_pv_module(zf_pv_item(v, 0)), "a");
    assert_string_equal(zf_pv_name(zf_pv_item(v, 0)), "b");
    assert_string_equal(zf_pv_module(zf_pv_item(v, 1)), "b");
    assert_string_equal(zf_pv_name(zf_pv_item(v, 1)), "b");
}

static void attributes(void **state)
{
    /* {'a': 1}, then (None, {'a': 1}), then ({'a': 1}, {'b': 2}) as states */
    const struct zf_pv *plain = load("cm\nC\n)\x81}X\1\0\0\0aK\1sb.");
    const struct zf_pv *slots = load("cm\nC\n)\x81N}X\1\0\0\0aK\1s\x86"
                                     "b.");
    const struct zf_pv *both = load("cm\nC\n)\x81}X\1\0\0\0aK\1s}X\1\0\0\0bK\2s\x86"
                                    "b.");
    int64_t i;

    (void)state;
    assert_true(zf_pv_int(zf_pv_attr(plain, "a"), &i) && i == 1);
    assert_null(zf_pv_attr(plain, "b"));
    assert_true(zf_pv_int(zf_pv_attr(slots, "a"), &i) && i == 1);
    assert_true(zf_pv_int(zf_pv_attr(both, "a"), &i) && i == 1);
    assert_true(zf_pv_int(zf_pv_attr(both, "b"), &i) && i == 2);
}

/* A pickle of {"k0": 0, "k1": 1 …}. */
static uint64_t make_map(char *p, const char *head, unsigned n)
{
    uint64_t at = strlen(head);

    memcpy(p, head, at);
    p[at++] = '(';
    for (unsigned i = 0; i < n; i++) {
        char key[16];
        int len = snprintf(key, sizeof key, "k%u", i);
        uint32_t number = i;
        at += (uint64_t)sprintf(p + at, "U%c%s", len, key);
        p[at++] = 'J';
        memcpy(p + at, &number, sizeof number);
        at += sizeof number;
    }
    p[at++] = 'u';
    p[at++] = '.';
    return at;
}

static void maps_of_all_sizes(void **state)
{
    static const char *const heads[] = {"}", "ccollections\nOrderedDict\n)R"};
    zf_auto(mem) char *p = malloc(1 << 20);
    char key[16];
    int64_t i;

    (void)state;
    assert_non_null(p);
    for (unsigned h = 0; h < 2; h++) {
        for (unsigned n = 1; n < 20000; n = n * 3 + 1) {
            const struct zf_pv *v = must(load_n(p, make_map(p, heads[h], n)));
            assert_true(zf_pv_is_map(v));
            assert_int_equal(zf_pv_len(v), n);
            for (unsigned k = 0; k < n; k++) {
                (void)snprintf(key, sizeof key, "k%u", k);
                assert_true(zf_pv_int(zf_pv_get(v, key), &i) && i == k);
            }
            assert_null(zf_pv_get(v, "k"));
            assert_null(zf_pv_get(v, ""));
        }
    }
}

static void bytes_of_every_protocol(void **state)
{
    const struct zf_pv *v[] = {
        load("C\3a\x80\xff."),
        load("c_codecs\nencode\nX\5\0\0\0a\xc2\x80\xc3\xbfX\6\0\0\0latin1\x86R."),
        load("cbuiltins\nbytearray\nC\3a\x80\xff\x85R."),
        load("c__builtin__\nbytearray\n(X\5\0\0\0a\xc2\x80\xc3\xbfX\7\0\0\0latin-1tR."),
    };
    const char *p;
    uint64_t n;

    (void)state;
    for (size_t i = 0; i < sizeof v / sizeof v[0]; i++) {
        assert_ok(zf_pv_bytes(v[i], arena, &p, &n, &err), &err);
        assert_int_equal(n, 3);
        assert_memory_equal(p, "a\x80\xff", 4);
    }
    assert_ok(zf_pv_bytes(load("c__builtin__\nbytes\n)R."), arena, &p, &n, &err), &err);
    assert_int_equal(n, 0);
    assert_false(zf_pv_bytes(load("K\1."), arena, &p, &n, &err));
    assert_false(zf_pv_bytes(load("c_codecs\nencode\nX\2\0\0\0\xc4\x80X\6\0\0\0latin1\x86R."),
                             arena, &p, &n, &err));
}

static void pickles_in_a_row(void **state)
{
    struct zf_bytes in = zf_bytes_of("xK\1.K\2.K\xffrest", 12);
    int64_t i;

    (void)state;
    in.at = 1;
    in.base = 100;
    assert_true(zf_pv_int(must(zf_pickle_load(&in, arena, &lim, &err)), &i) && i == 1);
    assert_int_equal(in.at, 4);
    assert_true(zf_pv_int(must(zf_pickle_load(&in, arena, &lim, &err)), &i) && i == 2);
    assert_int_equal(in.at, 7);
    assert_null(zf_pickle_load(&in, arena, &lim, &err));
    assert_err(&err, ZF_E_FORMAT, 109, "the pickle ends within opcode LONG_BINPUT");
}

static void limits(void **state)
{
    static const struct {
        const char *set, *pickle;
        uint64_t off;
    } cases[] = {
        {"pickle_bytes=3", "NNNN.", 3},          {"pickle_bytes=3", "NJ\1\1\1\1.", 1},
        {"pickle_bytes=3", "NC\4abcd.", 1},      {"pickle_objects=2", "M\1\1M\1\1M\1\1.", 6},
        {"pickle_depth=2", ")\x85\x85\x85.", 3}, {"pickle_depth=2", "]]]]aaa.", 6},
        {"pickle_memo=2", "Nq\1q\2.", 3},        {"pickle_memory=128", "N.", 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char name[40];
        (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(cases[i].set, "="), cases[i].set);
        lim = zf_limits_default();
        assert_ok(zf_limits_set(&lim, cases[i].set, &err), &err);
        assert_null(load_n(cases[i].pickle, strlen(cases[i].pickle)));
        assert_err(&err, ZF_E_LIMIT, cases[i].off, name);
    }
    lim = zf_limits_default();
}

static void memory_is_bounded(void **state)
{
    /* The dearest ways to spend bytes: each piece repeated makes a pickle. */
    static const struct {
        const char *first, *piece, *last;
    } mixes[] = {
        {"(", "]", "t."},
        {"(", "N", "t."},
        {"N", "\x94", "."},
        {"(", "]\x94", "t."},
        {"(", "]Na", "t."},
        {"]", "Na", "."},
        {"}", "NNs", "."},
        {"(", "}NNs", "t."},
        {"(", "]2", "t."},
        {"(", "N\x85", "t."},
        {"(", "c\n\n", "t."},
        {"(", "K\1q\1", "t."},
        {"(", "}(NNNNNNNNNNu", "t."},
        {"N", ")R", "."},
        {"(", "N)R", "t."},
        {"(", "N)RNb", "t."},
        {"(", "N)RNa", "t."},
        {"(", "NNQ", "t."},
        {"(", "U\1x", "t."},
        {"(", "]NaNaNaNaNa", "t."},
        {"(", "}NNsNNsNNsNNsNNs", "t."},
        {"(", "N)RNaNaNa", "t."},
        {"(", "(NoNa", "t."},
        {"(", "N)}\x92", "t."},
        {"(", "\x97", "t."},
    };
    const uint64_t size = 1 << 20;
    zf_auto(mem) char *p = malloc(size + 64);

    (void)state;
    assert_non_null(p);
    lim.pickle_depth = UINT64_MAX;
    for (size_t i = 0; i < sizeof mixes / sizeof mixes[0]; i++) {
        uint64_t at = strlen(mixes[i].first), step = strlen(mixes[i].piece);
        memcpy(p, mixes[i].first, at);
        for (; at < size; at += step)
            memcpy(p + at, mixes[i].piece, step);
        memcpy(p + at, mixes[i].last, strlen(mixes[i].last));
        zf_auto(arena) struct zf_arena *a = zf_arena_new(UINT64_MAX, &err);
        struct zf_bytes in = zf_bytes_of(p, at + strlen(mixes[i].last));
        const struct zf_pv *v = a ? zf_pickle_load(&in, a, &lim, &err) : NULL;
        if (!v && err.code == ZF_E_FORMAT)
            assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, "twice in one dict");
        else if (!v)
            assert_err(&err, ZF_E_LIMIT, err.off, "pickle_depth");
        if (zf_arena_used(a) > 16 * size + (1 << 20)) {
            fail_msg("\"%s\" makes %.1f bytes a byte", mixes[i].piece,
                     (double)zf_arena_used(a) / (double)size);
        }
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(nothing_is_asked_of_null), TEST(numbers),          TEST(calls),
        TEST(globals_of_one_text),      TEST(attributes),       TEST(maps_of_all_sizes),
        TEST(bytes_of_every_protocol),  TEST(pickles_in_a_row), TEST(limits),
        TEST(memory_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
