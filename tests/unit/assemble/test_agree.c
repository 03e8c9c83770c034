/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of what files repeat: when two agree, and of which name a sentence is when they do not. */
#include <stdio.h>
#include <stdlib.h>

#include <zf/assemble/agree.h>
#include <zf/codec/zip_write.h>
#include <zf/source/store.h>

#include "support/store_mem.h"
#include "support/unit.h"

/* What stands in the letters of protocol 0, in the opcodes that protocol 2 has for it. */
static void put_letters(const char *p, struct zf_out *out)
{
    for (; *p; p++) {
        const size_t n = strcspn(p, "\n");
        uint64_t bits;
        double f;

        switch (*p) {
        case 'S': /* S'text' */
            zf_out_u8(out, 'U');
            zf_out_u8(out, (uint8_t)(n - 3));
            zf_out_add(out, p + 2, n - 3);
            break;
        case 'F':
            f = strtod(p + 1, NULL);
            memcpy(&bits, &f, sizeof bits);
            zf_out_u8(out, 'G');
            for (int k = 56; k >= 0; k -= 8)
                zf_out_u8(out, (uint8_t)(bits >> k));
            break;
        case 'I':
            zf_out_u8(out, p[1] == '0' ? 0x88 : 'J');
            if (p[1] != '0')
                zf_out_le32(out, (uint32_t)atoi(p + 1));
            break;
        case 'c':
            zf_out_add(out, p, n + 1 + strcspn(p + n + 1, "\n") + 1);
            p += n + 1;
            p += strcspn(p, "\n");
            continue;
        default:
            zf_out_u8(out, (uint8_t)*p);
            continue;
        }
        p += n;
    }
}

/* A list of the values at the top of a mapping, which is given in the letters of protocol 0. */
static struct zf_agree *list_of(const char *file, const char *pickle, bool needed, uint64_t budget,
                                struct zf_err *err)
{
    struct zf_limits lim = zf_limits_default();
    zf_auto(store) struct zf_store *st = store_mem_new(&lim, err);
    zf_auto(zip_write) struct zf_zip_write w = {0};
    zf_auto(out) struct zf_out zip = {0};
    zf_auto(out) struct zf_out text = {0};

    assert_ok(st, err);
    put_letters(pickle, &text);
    zf_zip_write_member(&w, "archive/data.pkl", text.n, 0, &zip);
    zf_out_add(&zip, text.p, text.n);
    zf_zip_write_end(&w, &zip);
    assert_ok(zf_out_ok(&zip, err) && store_mem_add(st, file, zip.p, zip.n, err), err);
    zf_auto(source) struct zf_source *src = zf_store_open(st, file, err);
    zf_auto(torch) struct zf_torch *t = src ? zf_torch_open(src, &lim, err) : NULL;
    assert_ok(t, err);
    zf_auto(agree) struct zf_agree *g = zf_agree_new(file, budget, err);
    assert_ok(g, err);
    for (uint64_t i = 0, n; i < zf_pv_len(zf_torch_root(t)); i++) {
        const char *key = zf_pv_text(zf_pv_key(zf_torch_root(t), i), &n);

        if (!zf_agree_add(g, t, key, zf_pv_val(zf_torch_root(t), i), NULL, needed, err))
            return NULL;
    }
    return zf_give(g);
}

/* What is said about the second of them; "" = they agree. */
static void assert_says(const char *a, const char *b, bool needed, bool shared, const char *want)
{
    struct zf_err err = {.code = ZF_OK};
    zf_auto(agree) struct zf_agree *first = list_of("first", a, needed, UINT64_MAX, &err);
    zf_auto(agree) struct zf_agree *g = list_of("g", b, needed, UINT64_MAX, &err);

    assert_ok(first && g, &err);
    assert_int_equal(zf_agree_compare(g, first, shared, &err), !*want);
    if (*want) {
        assert_int_equal(err.code, ZF_E_FORMAT);
        assert_string_equal(err.msg, want);
        assert_string_equal(err.path, "g");
    }
}

#define SHAPES "(dS'shapes'\n(dS'a.w'\n(I7\nI5\ntsS'a.x'\n(I3\ntssS'step'\nI10\ns."

static void equal_values_agree(void **state)
{
    (void)state;
    for (int k = 0; k < 4; k++) {
        assert_says(SHAPES, SHAPES, k & 1, k & 2, "");
        /* in another order, at the top and inside */
        assert_says(SHAPES, "(dS'step'\nI10\nsS'shapes'\n(dS'a.x'\n(I3\ntsS'a.w'\n(I7\nI5\ntss.",
                    k & 1, k & 2, "");
        assert_says("(d.", "(d.", k & 1, k & 2, "");
    }
    assert_says("(dS'v'\n(lF0.1\naNaI01\naS'x'\naI-9\naccopy\ncopy\nas.",
                "(dS'v'\n(lF0.1\naNaI01\naS'x'\naI-9\naccopy\ncopy\nas.", true, false, "");
    /* a NaN is one value, whatever its sign and payload */
    assert_says("(dS'v'\nFnan\ns.", "(dS'v'\nF-nan\ns.", true, false, "");
    assert_says("(dS'v'\nFnan\ns.", "(dS'v'\nF1\ns.", true, false,
                "v is 1, but nan in \"first\": two saves are mixed");
    assert_says("(dS'v'\nFinf\ns.", "(dS'v'\nF-inf\ns.", true, false,
                "v is -inf, but inf in \"first\": two saves are mixed");
}

/* The sentence is about the first name in order, wherever the files have it. */
static void the_first_name_that_differs_is_told(void **state)
{
    (void)state;
    assert_says(SHAPES, "(dS'shapes'\n(dS'a.w'\n(I7\nI6\ntsS'a.x'\n(I4\ntssS'step'\nI11\ns.", true,
                false, "shapes.a.w[1] is 6, but 5 in \"first\": two saves are mixed");
    assert_says(SHAPES, "(dS'step'\nI11\nsS'shapes'\n(dS'a.x'\n(I4\ntsS'a.w'\n(I7\nI5\ntss.", true,
                false, "shapes.a.x[0] is 4, but 3 in \"first\": two saves are mixed");
    assert_says("(dS'v'\n(lF0.1\nas.", "(dS'v'\n(lF0.25\nas.", true, false,
                "v[0] is 0.25, but 0.1 in \"first\": two saves are mixed");
    assert_says("(dS'v'\n(lNaI-1\nas.", "(dS'v'\n(lccopy\ncopy\naI-12\nas.", true, true,
                "v[0] is copy.copy, but None in \"first\": two saves are mixed");
    assert_says("(dS'v'\n(dI-4\nS'x'\nss.", "(dS'v'\n(dI-4\nS'y'\nss.", true, true,
                "v[-4] is 'y', but 'x' in \"first\": two saves are mixed");
}

static void what_one_lacks_is_told_where_it_is_needed(void **state)
{
    static const char less[] = "(dS'shapes'\n(dS'a.w'\n(I7\nI5\ntssS'step'\nI10\ns.";
    static const char step[] = "(dS'step'\nI10\ns.";

    (void)state;
    assert_says(SHAPES, less, true, false,
                "shapes.a.x[0] is missing, but 3 in \"first\": two saves are mixed");
    assert_says(less, SHAPES, true, false,
                "shapes.a.x[0] is 3, but is not in \"first\": two saves are mixed");
    assert_says(SHAPES, step, true, false,
                "shapes.a.w[0] is missing, but 7 in \"first\": two saves are mixed");
    for (int k = 0; k < 2; k++) {
        assert_says(SHAPES, less, k, true, "");
        assert_says(less, SHAPES, k, true, "");
        assert_says(SHAPES, step, k, true, "");
        assert_says(SHAPES, less, false, k, "");
        assert_says(step, SHAPES, false, k, "");
    }
    /* what both have is compared all the same */
    assert_says(SHAPES, "(dS'shapes'\n(dS'a.w'\n(I8\nI5\ntssS'step'\nI10\ns.", false, true,
                "shapes.a.w[0] is 8, but 7 in \"first\": two saves are mixed");
}

static void assert_device(const char *pickle, bool want)
{
    struct zf_err err;
    zf_auto(agree) struct zf_agree *g = list_of("g", pickle, false, UINT64_MAX, &err);

    assert_ok(g, &err);
    assert_int_equal(zf_agree_has_device(g), want);
}

/* In a text, in a key, in a name whose beginning is that of the one before. */
static void devices_are_seen(void **state)
{
    (void)state;
    assert_device(SHAPES, false);
    assert_device("(dS'v'\n(lS'cuda'\naS'0'\naS'cpu:0'\nas.", false);
    assert_device("(dS'v'\n(lS'x'\naS'on cuda:0'\nas.", true);
    assert_device("(dS'v'\n(lcuda:0\nrandom\nas.", true);
    assert_device("(dS'cuda:1'\nI1\ns.", true);
    assert_device("(dS'cuda:1'\n(dS'v'\nI1\nss.", true);
    assert_device("(dS'v'\n(dS'cuda:0'\nI1\nss.", true);
    assert_device("(dS'v'\n(dS'cuda'\nI1\nsS'cuda:'\nI1\nss.", true);
    assert_device("(dS'v'\n(dS'cud'\nI1\nsS'cuda:'\nI1\nss.", true);
    assert_device("(dS'v'\n(dS'cu'\nI1\nsS'cuda:'\nI1\nss.", true);
    assert_device("(dS'v'\n(dS'c'\nI1\nsS'cuda:'\nI1\nss.", true);
}

enum { PARAMS = 2000 };

/* The shapes of many parameters, of which the last has `end` rows. */
static void many_shapes(struct zf_out *o, unsigned end)
{
    char one[120];

    zf_out_str(o, "(dS'param_shapes'\n(d");
    for (unsigned i = 0; i < PARAMS; i++) {
        (void)snprintf(one, sizeof one, "S'model.layers.%u.self_attn.q_proj.weight'\n(I%u\nI64\nts",
                       i, i + 1 == PARAMS ? end : 128);
        zf_out_str(o, one);
    }
    zf_out_str(o, "s.");
}

/* Names that follow each other have much in common: 100 bytes a value would take 400,000. */
static void a_long_list_is_small(void **state)
{
    enum { BUDGET = 28 * 2 * PARAMS };
    zf_auto(out) struct zf_out a = {0}, b = {0};
    struct zf_err err;

    (void)state;
    many_shapes(&a, 128);
    many_shapes(&b, 127);
    zf_auto(agree) struct zf_agree *first = list_of("first", a.p, true, BUDGET, &err);
    assert_ok(first, &err);
    assert_null(list_of("g", a.p, true, 2 * PARAMS, &err));
    assert_err(&err, ZF_E_LIMIT, ZF_OFF_NONE, "more than 4000 bytes of memory are needed");
    assert_says(a.p, a.p, true, false, "");
    assert_says(a.p, b.p, true, false,
                "param_shapes.model.layers.1999.self_attn.q_proj.weight[0] is 127, but 128 in "
                "\"first\": two saves are mixed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_values_agree),
        cmocka_unit_test(the_first_name_that_differs_is_told),
        cmocka_unit_test(what_one_lacks_is_told_where_it_is_needed),
        cmocka_unit_test(devices_are_seen),
        cmocka_unit_test(a_long_list_is_small),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
