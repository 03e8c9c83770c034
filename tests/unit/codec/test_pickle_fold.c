/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that are kept folded: that they take less memory, and that nobody sees it, whatever the pickle does with them
 * before and after.  test_pickle.py and the fuzzer compare the same for other pickles (support/folded.h). */
#include "support/unit.h"

#include <stdio.h>

#include <zf/base/out.h>
#include <zf/codec/pvjson.h>

#include "support/folded.h"

static struct zf_limits lim;
static struct zf_err err;

#define add(o, literal) zf_out_add(o, literal, sizeof(literal) - 1)

/* Numbers from 2^20 on in the memo: names. */
#define REBUILD "j\0\0\x10\0"
#define STORAGE "j\1\0\x10\0"
#define FLOATS "j\2\0\x10\0"
#define ORDERED "j\3\0\x10\0"

static void begin(struct zf_out *o)
{
    zf_out_cut(o, 0);
    add(o, "\x80\x02"
           "cm\nrebuild\nr\0\0\x10\0"
           "0X\7\0\0\0storager\1\0\x10\0"
           "0ctorch\nFloats\nr\2\0\x10\0"
           "0"
           "ccollections\nOrderedDict\nr\3\0\x10\0"
           "0");
}

static void add_text(struct zf_out *o, const char *s)
{
    zf_out_u8(o, 'X');
    zf_out_le32(o, (uint32_t)strlen(s));
    zf_out_str(o, s);
}

/* As torch.save writes a tensor, of `number` by 3 elements. */
static void add_tensor(struct zf_out *o, unsigned number)
{
    char key[16];

    (void)snprintf(key, sizeof key, "%u", number);
    add(o, REBUILD "((" STORAGE FLOATS);
    add_text(o, key);
    add(o, "X\3\0\0\0cpu");
    add(o, "J");
    zf_out_le32(o, 3 * number);
    add(o, "tQK\0J");
    zf_out_le32(o, number);
    add(o, "K\3\x86K\3K\1\x86\x89" ORDERED ")RtR");
}

static const struct zf_pv *load(const struct zf_out *o, struct zf_arena *a)
{
    struct zf_bytes in = zf_bytes_of(o->p, o->n);

    return zf_pickle_load(&in, a, &lim, &err);
}

static int setup(void **state)
{
    (void)state;
    lim = zf_limits_default();
    return 0;
}

static void a_map_of_tensors_takes_half_the_memory(void **state)
{
    zf_auto(out) struct zf_out o = {0};
    zf_auto(arena) struct zf_arena *a = zf_arena_new(16u << 20, &err);
    zf_auto(arena) struct zf_arena *b = zf_arena_new(16u << 20, &err);
    char key[40];

    (void)state;
    begin(&o);
    add(&o, "}");
    for (unsigned i = 0; i < 10000; i++) {
        zf_out_str(&o, i % 1000 ? "" : "(");
        (void)snprintf(key, sizeof key, "model.layers.%u", i);
        add_text(&o, key);
        add_tensor(&o, i);
        zf_out_str(&o, i % 1000 == 999 ? "u" : "");
    }
    add(&o, ".");
    const struct zf_pv *plain = load(&o, a);
    assert_ok(plain != NULL, &err);
    const struct zf_pv *v = folded_load(o.p, o.n, b, &lim, &err);
    assert_ok(v != NULL, &err);
    assert_int_equal(zf_pv_len(v), 10000);
    for (unsigned i = 0; i < 10000; i++) {
        assert_true(folded_is(zf_pv_val(v, i)));
        assert_null(zf_pv_args(zf_pv_val(v, i)));
        assert_true(zf_pv_is(zf_pv_val(v, i), "m", "rebuild"));
        assert_true(folded_same(zf_pv_val(plain, i), zf_pv_val(v, i), 10));
    }
    assert_in_range(zf_arena_used(b), 1, zf_arena_used(a) / 2);
}

/* {"a": <call>} and what comes after it; folded or not, as a plain reader reads it. */
static void same(const struct zf_out *o, bool folded)
{
    zf_auto(arena) struct zf_arena *a = zf_arena_new(4u << 20, &err);
    zf_auto(arena) struct zf_arena *b = zf_arena_new(4u << 20, &err);
    const struct zf_pv *plain = load(o, a);

    assert_ok(plain != NULL, &err);
    const struct zf_pv *v = folded_load(o->p, o->n, b, &lim, &err);
    assert_ok(v != NULL, &err);
    assert_true(folded_same(plain, v, 12));
    assert_int_equal(folded_is(zf_pv_get(v, "a")), folded);
    zf_auto(mem) char *one = NULL, *other = NULL;
    uint64_t n, m;
    assert_ok(zf_pv_json(plain, &lim, NULL, &one, &n, &err), &err);
    assert_ok(zf_pv_json(v, &lim, NULL, &other, &m, &err), &err);
    assert_int_equal(n, m);
    assert_memory_equal(one, other, n);
}

#define SAME(folded, ops)                                                                          \
    do {                                                                                           \
        begin(&o);                                                                                 \
        add(&o, ops);                                                                              \
        same(&o, folded);                                                                          \
    } while (0)

#define A "}(X\1\0\0\0a" /* … "u" */

static void what_is_pickled_as_usual_is_folded(void **state)
{
    zf_auto(out) struct zf_out o = {0};

    (void)state;
    begin(&o);
    add(&o, A);
    add_tensor(&o, 0);
    add_text(&o, "b");
    add_tensor(&o, 70000);
    add(&o, "u.");
    same(&o, true);
    SAME(true, A REBUILD ")Ru.");
    SAME(true, "}X\1\0\0\0a" REBUILD ")Rs.");           /* one by one */
    SAME(true, ORDERED ")R(X\1\0\0\0a" REBUILD ")Ru."); /* an object with items */
    SAME(true, A REBUILD "(]}\x88NtRu.");               /* nothing in them, constants */
    SAME(true, A REBUILD "(]q\5}q\6tRu.");              /* of its own */
    SAME(true, A REBUILD
         "(K\xffJ\xff\xff\xff\xff\x8a\x08\0\0\0\0\0\0\0\x80\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"
         "X\0\0\0\0X\1\0\0\0bX\3\0\0\0a\0btRu.");
    SAME(true, A REBUILD "(K\1K\2\x86q\1h\1tRu."); /* one shape for both */
    SAME(true, A REBUILD "(X\3\0\0\0cpuq\1h\1tRu.");
    /* a number that somebody else has, too, whatever is made behind it */
    SAME(true, A REBUILD "(M\xe8\3q\1tRX\1\0\0\0bh\1u(X\1\0\0\0cM\xe9\3X\1\0\0\0dM\xea\3u.");
}

/* What is asked for later, and then changes, is as it would be in a plain reader. */
static void what_may_still_change_is_not_folded(void **state)
{
    zf_auto(out) struct zf_out o = {0};

    (void)state;
    SAME(false, A REBUILD ")Rq\1uh\1}(X\1\0\0\0kK\1ub0.");     /* a state */
    SAME(false, A REBUILD ")Rq\1uh\1(K\1K\2e0.");              /* elements */
    SAME(false, A REBUILD ")Rq\1uh\1(K\1K\2u0.");              /* pairs */
    SAME(false, A REBUILD ORDERED ")Rq\1\x85Ruh\1(K\1K\2u0."); /* its hooks */
    SAME(false, A REBUILD "]q\1\x85Ruh\1K\7a0.");              /* its shape, a list */
    SAME(false, A REBUILD "}q\1\x85Ruh\1(K\1K\2u0.");
    SAME(false, A REBUILD ")Rq\1uX\1\0\0\0zq\1"
                          "0h\1"
                          "0.");                    /* its number is another one's in the end */
    SAME(false, A REBUILD ")R}(X\1\0\0\0kK\1ubu."); /* a state from the beginning */
    SAME(false, A REBUILD "(](K\1etRu.");           /* elements, pairs in it */
    SAME(false, A REBUILD "(}(K\1K\2utRu.");
}

static void what_somebody_else_has_is_not_folded(void **state)
{
    zf_auto(out) struct zf_out o = {0};

    (void)state;
    SAME(false, A REBUILD ")Rq\1X\1\0\0\0bh\1u.");                 /* one call at two keys */
    SAME(false, A REBUILD ")Rq\1X\1\0\0\0b]h\1au.");               /* and in a list */
    SAME(false, A REBUILD "((X\1\0\0\0kK\1tq\1tRX\1\0\0\0bh\1u."); /* a tuple in it */
    SAME(false, A REBUILD "(X\1\0\0\0kQq\1tRX\1\0\0\0bh\1u.");     /* a storage */
    SAME(false, A REBUILD ")R20u.");                               /* doubled */
    SAME(false, A ORDERED ")R)Ru.");                               /* a callee of its own */
    SAME(false, A REBUILD "(G\0\0\0\0\0\0\0\0tRu.");
    SAME(false, A REBUILD "(N(NNttRq\1X\1\0\0\0bh\1u.");
}

/* As often as there is room for what is alike; the rest stays as it is. */
static void there_are_bounds(void **state)
{
    zf_auto(out) struct zf_out o = {0};

    (void)state;
    for (unsigned n = 56; n < 70; n++) { /* values in it: itself, its class, a tuple of n */
        begin(&o);
        add(&o, A REBUILD "(");
        for (unsigned i = 0; i < n; i++)
            add(&o, "K\3");
        add(&o, "tRu.");
        same(&o, n + 3 <= 64);
        begin(&o);
        add(&o, A REBUILD "(X");
        zf_out_le32(&o, n);
        for (unsigned i = 0; i < n; i++)
            add(&o, "x");
        add(&o, "tRu.");
        same(&o, n <= 64);
    }
    for (unsigned n = 20; n < 40; n++) { /* 9 bytes each, but for 32 of 8 */
        begin(&o);
        add(&o, A REBUILD "(");
        for (unsigned i = 0; i < n; i++)
            add(&o, "\x8a\x08xxxxxxx\x3f");
        add(&o, "tRu.");
        same(&o, n * 9 <= 256);
    }
    begin(&o);
    add(&o, A REBUILD "(");
    for (unsigned i = 0; i < 4; i++) { /* 4 x 64 texts leave no room for their lengths */
        add(&o, "X\x40\0\0\0"
                "0123456789012345678901234567890123456789012345678901234567890123");
    }
    add(&o, "tRu.");
    same(&o, false);
}

static void only_so_many_are_told_from_each_other(void **state)
{
    zf_auto(out) struct zf_out o = {0};
    zf_auto(arena) struct zf_arena *a = zf_arena_new(4u << 20, &err);
    zf_auto(arena) struct zf_arena *b = zf_arena_new(4u << 20, &err);

    (void)state;
    begin(&o);
    add(&o, "](");
    for (unsigned i = 0; i < 200;
         i++) { /* seven bits in NONE and True make so many different ones */
        add(&o, A REBUILD "(");
        for (unsigned bit = 0; bit < 7; bit++)
            zf_out_u8(&o, i % 100 >> bit & 1 ? 'N' : 0x88);
        add(&o, "tRu");
    }
    add(&o, "e.");
    const struct zf_pv *plain = load(&o, a), *v = folded_load(o.p, o.n, b, &lim, &err);
    assert_true(plain && v);
    assert_true(folded_same(plain, v, 8));
    for (unsigned i = 0; i < 200; i++)
        assert_int_equal(folded_is(zf_pv_get(zf_pv_item(v, i), "a")), i % 100 < 64);
}

static void it_is_as_deep_as_before(void **state)
{
    zf_auto(out) struct zf_out o = {0};
    unsigned n_sound = 0;

    (void)state;
    begin(&o);
    add(&o, "((" A REBUILD "(K\1\x85\x85tRuK\2tt.");
    for (lim.pickle_depth = 1; lim.pickle_depth < 16; lim.pickle_depth++) {
        zf_auto(arena) struct zf_arena *a = zf_arena_new(4u << 20, &err);
        zf_auto(arena) struct zf_arena *b = zf_arena_new(4u << 20, &err);
        bool sound = load(&o, a) != NULL;

        n_sound += sound;
        assert_int_equal(folded_load(o.p, o.n, b, &lim, &err) != NULL, sound);
    }
    assert_in_range(n_sound, 1, 14);
}

static void what_is_refused_is_refused_alike(void **state)
{
    static const struct {
        const char *p;
        size_t n;
    } row[] = {
#define ROW(ops) {ops, sizeof(ops) - 1}
        ROW(A REBUILD ")RX\1\0\0\0a" REBUILD ")Ru."), /* a key twice */
        ROW(A REBUILD ")RX\1\0\0\0b" REBUILD ")Ru(X\1\0\0\0bK\1u."),
        ROW(A REBUILD ")Ru"),
        ROW(A REBUILD ")Ruh\1."),
        ROW(A REBUILD ")RK\1u."),
        ROW(A REBUILD "\x88Ru."),
    };
    zf_auto(out) struct zf_out o = {0};

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        zf_auto(arena) struct zf_arena *a = zf_arena_new(4u << 20, &err);
        struct zf_err plain;

        begin(&o);
        zf_out_add(&o, row[i].p, row[i].n);
        assert_null(load(&o, a));
        plain = err;
        assert_null(folded_load(o.p, o.n, a, &lim, &err));
        assert_int_equal(plain.code, err.code);
        assert_int_equal(plain.off, err.off);
        assert_string_equal(plain.msg, err.msg);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_map_of_tensors_takes_half_the_memory, setup),
        cmocka_unit_test_setup(what_is_pickled_as_usual_is_folded, setup),
        cmocka_unit_test_setup(what_may_still_change_is_not_folded, setup),
        cmocka_unit_test_setup(what_somebody_else_has_is_not_folded, setup),
        cmocka_unit_test_setup(there_are_bounds, setup),
        cmocka_unit_test_setup(only_so_many_are_told_from_each_other, setup),
        cmocka_unit_test_setup(it_is_as_deep_as_before, setup),
        cmocka_unit_test_setup(what_is_refused_is_refused_alike, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
