/* SPDX-License-Identifier: Apache-2.0 */
/* A pickle read along: what is handed over, what becomes of it, and what is refused.  The fuzzer compares the same for
 * any bytes (fuzz_pickle.c). */
#include "support/unit.h"

#include <stdio.h>

#include <zf/base/out.h>

#include "support/watched.h"

static struct zf_limits lim;
static struct zf_err err;

#define add(o, literal) zf_out_add(o, literal, sizeof(literal) - 1)

static void add_text(struct zf_out *o, const char *s)
{
    zf_out_u8(o, 0x8c);
    zf_out_u8(o, (uint8_t)strlen(s));
    zf_out_str(o, s);
    add(o, "\x94");
}

/* An object as pickle.py writes it; its state has a number and a text. */
static void add_object(struct zf_out *o, uint16_t number)
{
    add(o, "j\0\0\x10\0)\x81\x94}\x94(");
    add_text(o, "number");
    add(o, "M");
    zf_out_le16(o, number);
    add_text(o, "text");
    add_text(o, "of some length, so that it takes memory");
    add(o, "ub");
}

/* The class of the objects has number 2^20, far from those that MEMOIZE gives. */
static void begin(struct zf_out *o)
{
    add(o, "\x80\x04\x63m\nValue\nr\0\0\x10\0\x30\x63m\nMetadata\n)\x81\x94}\x94(");
}

/* `n` pairs of text and object in batches as pickle.py makes them. */
static void add_map(struct zf_out *o, const char *name, unsigned n)
{
    add_text(o, name);
    add(o, "}\x94");
    for (unsigned i = 0; i < n; i++) {
        char key[16];

        zf_out_str(o, i % 1000 ? "" : "(");
        (void)snprintf(key, sizeof key, "key %u", i);
        add_text(o, key);
        add_object(o, (uint16_t)i);
        zf_out_str(o, i % 1000 == 999 || i + 1 == n ? "u" : "");
    }
}

static const struct zf_pv *read_along(struct watched *w, const struct zf_out *o, struct zf_arena *a,
                                      const struct zf_pv *plain)
{
    return watched_load(w, o->p, o->n, a, &lim, plain, &err);
}

static int setup(void **state)
{
    (void)state;
    lim = zf_limits_default();
    return 0;
}

static void pairs_are_handed_over_and_their_memory_serves_again(void **state)
{
    zf_auto(out) struct zf_out o = {0};
    zf_auto(arena) struct zf_arena *a = zf_arena_new(64u << 20, &err);
    zf_auto(arena) struct zf_arena *b = zf_arena_new(96u << 10, &err); /* a value takes 150 bytes */
    struct watched w;

    (void)state;
    begin(&o);
    add_map(&o, "first", 5000);
    add_map(&o, "second", 5000);
    add_map(&o, "not", 3);
    add(&o, "ub.");
    struct zf_bytes in = zf_bytes_of(o.p, o.n);
    const struct zf_pv *plain = zf_pickle_load(&in, a, &lim, &err);
    assert_ok(plain != NULL, &err);
    const struct zf_pv *v = read_along(&w, &o, b, plain);
    assert_ok(v != NULL, &err);
    assert_int_equal(w.n_pairs, 10000);
    assert_int_equal(zf_pv_len(zf_pv_attr(v, "first")), 0);
    assert_int_equal(zf_pv_len(zf_pv_attr(v, "not")), 3);
    assert_true(zf_pv_eq(w.kept, "key 0"));
}

/* Whether a state comes is known at the next key but one: both are handed over then, not at the end of the batch. */
static void an_object_without_state_goes_with_the_next(void **state)
{
    zf_auto(out) struct zf_out o = {0};
    zf_auto(arena) struct zf_arena *b = zf_arena_new(96u << 10, &err);
    struct watched w;

    (void)state;
    begin(&o);
    add_text(&o, "first");
    add(&o, "}\x94(");
    add_text(&o, "bare");
    add(&o, "j\0\0\x10\0)\x81\x94");
    for (uint16_t i = 0; i < 2000; i++) {
        char key[16];

        (void)snprintf(key, sizeof key, "key %u", i);
        add_text(&o, key);
        add_object(&o, i);
    }
    add(&o, "uub.");
    assert_ok(read_along(&w, &o, b, NULL) != NULL, &err);
    assert_int_equal(w.n_pairs, 2001);
}

static void every_truncation_is_refused(void **state)
{
    zf_auto(out) struct zf_out o = {0};

    (void)state;
    begin(&o);
    add_map(&o, "first", 4);
    add(&o, "ub.");
    for (size_t n = 0; n < o.n; n++) {
        zf_auto(arena) struct zf_arena *a = zf_arena_new(1u << 20, &err);
        struct watched w;

        assert_null(watched_load(&w, o.p, n, a, &lim, NULL, &err));
    }
}

static void refuse(struct zf_out *o, const char *why)
{
    zf_auto(arena) struct zf_arena *a = zf_arena_new(1u << 20, &err);
    struct watched w;

    zf_err_clear(&err);
    assert_null(read_along(&w, o, a, NULL));
    assert_non_null(strstr(err.msg, why));
    zf_out_cut(o, 0);
}

static void what_was_read_cannot_be_taken_back(void **state)
{
    static const char ends[][2] = {"1", "t", "l", "d"};
    zf_auto(out) struct zf_out o = {0};

    (void)state;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        begin(&o);
        add_map(&o, "first", 2);
        zf_out_cut(&o, o.n - 1);
        zf_out_str(&o, ends[i]);
        add(&o, "0ub.");
        refuse(&o, "that already belong to a dict");
    }
    begin(&o);
    add_map(&o, "first", 2);
    zf_out_cut(&o, o.n - 1);
    add(&o, "00000ub."); /* POP: the pair that is left, the mark, … */
    refuse(&o, "that already belong to a dict");
}

/* A value that the pickle has a number for gets another state, or a further element, after it was read. */
static void what_was_read_cannot_change(void **state)
{
    zf_auto(out) struct zf_out o = {0};

    (void)state;
    for (unsigned list = 0; list < 2; list++) {
        begin(&o);
        add_text(&o, "first");
        add(&o, "}\x94(");
        add_text(&o, "a");
        add_object(&o, 1);
        add(&o, "q\xfe"); /* number 254 */
        add_text(&o, "b");
        add_object(&o, 2);
        add_text(&o, "c");
        add(&o, "h\xfe");
        zf_out_str(&o, list ? "Na" : "Nb");
        add(&o, "uub.");
        refuse(&o, "part of an earlier dict");
    }
}

static void a_key_twice_in_a_value_is_refused(void **state)
{
    zf_auto(out) struct zf_out o = {0};

    (void)state;
    begin(&o);
    add_text(&o, "first");
    add(&o, "}\x94(");
    add_text(&o, "a");
    add(&o, "cm\nValue\n)\x81}(");
    add_text(&o, "x");
    add(&o, "N");
    add_text(&o, "x");
    add(&o, "Nub");
    add_text(&o, "b");
    add(&o, "Nuub.");
    refuse(&o, "twice in one dict");
}

/* The mapping that was read is dropped, and another becomes the attribute: the caller sees it. */
static void a_mapping_that_is_exchanged_shows(void **state)
{
    zf_auto(out) struct zf_out o = {0};
    zf_auto(arena) struct zf_arena *a = zf_arena_new(1u << 20, &err);
    struct watched w;

    (void)state;
    begin(&o);
    add_map(&o, "first", 2);
    add(&o, "0}ub.");
    const struct zf_pv *v = read_along(&w, &o, a, NULL);
    assert_ok(v != NULL, &err);
    assert_int_equal(w.at[0].n, 2);
    assert_ptr_not_equal(zf_pv_attr(v, "first"), w.at[0].map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(pairs_are_handed_over_and_their_memory_serves_again, setup),
        cmocka_unit_test_setup(an_object_without_state_goes_with_the_next, setup),
        cmocka_unit_test_setup(every_truncation_is_refused, setup),
        cmocka_unit_test_setup(what_was_read_cannot_be_taken_back, setup),
        cmocka_unit_test_setup(what_was_read_cannot_change, setup),
        cmocka_unit_test_setup(a_key_twice_in_a_value_is_refused, setup),
        cmocka_unit_test_setup(a_mapping_that_is_exchanged_shows, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
