/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include <stdio.h>

#include <zf/codec/safetensors.h>

/* A file in memory: length word, header, then n_data bytes. */
static struct zf_source *file_of(const char *header, uint64_t n_data)
{
    struct zf_err err = {.code = ZF_OK};
    size_t n = strlen(header), all = 8 + n + (size_t)n_data;
    char *p = calloc(1, all);

    assert_non_null(p);
    for (int i = 0; i < 8; i++)
        p[i] = (char)(n >> (8 * i) & 0xff);
    memcpy(p + 8, header, n);
    struct zf_source *s = zf_mem_new("f.safetensors", p, all, true, &err);
    assert_non_null(s);
    return s;
}

struct loaded {
    struct zf_arena *arena;
    struct zf_st_header head;
    struct zf_err err;
    bool ok;
};

static void load(struct loaded *l, struct zf_source *s)
{
    struct zf_limits lim = zf_limits_default();

    *l = (struct loaded){.err = {.code = ZF_OK, .off = ZF_OFF_NONE}};
    l->arena = zf_arena_new(1 << 20, &l->err);
    assert_non_null(l->arena);
    l->ok = zf_st_load(s, l->arena, &lim, &l->head, &l->err);
}

static void test_load(void **state)
{
    struct loaded l;
    zf_auto(source) struct zf_source *s =
        file_of(" {\"b\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[2,10],\"more\":1},"
                "\"__metadata__\":{\"format\":\"pt\"},"
                "\"a \\\"q\\\" \\u00e9\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[0,2]},"
                "\"e\":{\"dtype\":\"I64\",\"shape\":[0,7],\"data_offsets\":[2,2]}}  ",
                10);

    (void)state;
    load(&l, s);
    assert_ok(l.ok, &l.err);
    assert_int_equal(l.head.n, 3);
    assert_string_equal(l.head.entry[0].name, "a \"q\" \xc3\xa9");
    assert_int_equal(l.head.entry[0].ndim, 0);
    assert_int_equal(l.head.entry[0].dtype, ZF_DT_BF16);
    assert_string_equal(l.head.entry[1].name, "e");
    assert_string_equal(l.head.entry[2].name, "b");
    assert_int_equal(l.head.entry[2].begin, l.head.data_off + 2);
    assert_int_equal(l.head.entry[2].end, s->size);
    assert_int_equal(l.head.entry[2].shape[0], 2);
    assert_int_equal(l.head.n_meta, 1);
    assert_string_equal(l.head.meta_key[0], "format");
    assert_true(zf_st_sniff(s));
    zf_arena_free(l.arena);
}

static void test_empty(void **state)
{
    struct loaded l;
    zf_auto(source) struct zf_source *s = file_of("{}", 0);

    (void)state;
    assert_true(zf_st_sniff(s)); /* the shortest file there can be */
    load(&l, s);
    assert_ok(l.ok, &l.err);
    assert_int_equal(l.head.n, 0);
    assert_int_equal(l.head.end_off, 10);
    zf_arena_free(l.arena);
}

struct bad_case {
    const char *header;
    uint64_t n_data;
    enum zf_code code;
    const char *part;
};

#define T(dtype, shape, offs)                                                                      \
    "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offs "}"

static void test_refused(void **state)
{
    static const struct bad_case bad[] = {
        {"[]", 0, ZF_E_FORMAT, "not a JSON object"},
        {"{\"a\":3}", 0, ZF_E_FORMAT, "expected an object"},
        {"{\"a\":" T("F33", "[1]", "[0,4]") "}", 4, ZF_E_UNSUPPORTED, "unknown dtype \"F33\""},
        {"{\"a\":" T("F32", "[1]", "[0,8]") "}", 8, ZF_E_FORMAT,
         "has 8 bytes, but its shape and dtype need 4"},
        {"{\"a\":" T("F32", "[-1]", "[0,4]") "}", 4, ZF_E_FORMAT, "not a size"},
        {"{\"a\":" T("F32", "[1.0]", "[0,4]") "}", 4, ZF_E_FORMAT, "not a size"},
        {"{\"a\":" T("F32", "3", "[0,4]") "}", 4, ZF_E_FORMAT, "not a list"},
        {"{\"a\":" T("F32", "[4294967296,4294967296]", "[0,4]") "}", 4, ZF_E_FORMAT, "larger than"},
        {"{\"a\":" T("F32", "[1]", "[4,0]") "}", 4, ZF_E_FORMAT, "not a pair"},
        {"{\"a\":" T("F32", "[1]", "[0]") "}", 4, ZF_E_FORMAT, "not a pair"},
        {"{\"a\":" T("F32", "[1]", "[4,8]") "}", 8, ZF_E_FORMAT, "leave a hole"},
        {"{\"a\":" T("F32", "[1]", "[0,4]") ",\"b\":" T("F32", "[1]", "[0,4]") "}", 4, ZF_E_FORMAT,
         "overlap"},
        {"{\"a\":" T("F32", "[1]", "[0,4]") ",\"a\":" T("F32", "[1]", "[4,8]") "}", 8, ZF_E_FORMAT,
         "not valid JSON"},
        {"{\"a\":" T("F4", "[3]", "[0,1]") "}", 1, ZF_E_FORMAT, "pairs"},
        {"{\"a\":" T("F32", "[1]", "[0,4]") "}", 5, ZF_E_FORMAT, "found a file of"},
        {"{\"a\":" T("F32", "[1]", "[0,4]") "}", 3, ZF_E_FORMAT, "found a file of"},
        {"{\"__metadata__\":{\"a\":1}}", 0, ZF_E_FORMAT, "not text"},
        {"{\"__metadata__\":[]}", 0, ZF_E_FORMAT, "not an object"},
        {"not json", 0, ZF_E_FORMAT, "not valid JSON"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct loaded l;
        zf_auto(source) struct zf_source *s = file_of(bad[i].header, bad[i].n_data);

        load(&l, s);
        assert_false(l.ok);
        assert_int_equal(l.err.code, bad[i].code);
        if (!strstr(l.err.msg, bad[i].part))
            fail_msg("case %zu: \"%s\" is not in \"%s\"", i, bad[i].part, l.err.msg);
        assert_string_equal(l.err.path, "f.safetensors");
        zf_arena_free(l.arena);
    }
}

static void test_length_word(void **state)
{
    static const unsigned char huge[][10] = {
        {0, 0, 0, 0, 0, 0, 0, 0x80, '{', '}'},
        {0x01, 0xe1, 0xf5, 0x05, 0, 0, 0, 0, '{', '}'}, /* 100,000,001 */
        {3, 0, 0, 0, 0, 0, 0, 0, '{', '}'},
        {0, 0, 0, 0, 0, 0, 0, 0, '{', '}'},
    };

    (void)state;
    for (size_t i = 0; i < sizeof huge / sizeof huge[0]; i++) {
        struct zf_err err = {.code = ZF_OK};
        struct loaded l;
        zf_auto(source) struct zf_source *s =
            zf_mem_new("f.safetensors", (void *)(uintptr_t)huge[i], sizeof huge[i], false, &err);

        load(&l, s);
        assert_false(l.ok);
        assert_int_equal(l.err.code, ZF_E_FORMAT);
        assert_true(i == 3 || !zf_st_sniff(s));
        zf_arena_free(l.arena);
    }
}

/* A file cut anywhere is refused, and says where. */
static void test_truncated(void **state)
{
    zf_auto(source) struct zf_source *whole =
        file_of("{\"a\":" T("F32", "[2]", "[0,8]") ",\"b\":" T("U8", "[3]", "[8,11]") "}", 11);

    (void)state;
    for (uint64_t n = 0; n < whole->size; n++) {
        struct zf_err err = {.code = ZF_OK};
        struct loaded l;
        zf_auto(source) struct zf_source *cut = zf_window_new(whole, 0, n, NULL, &err);

        load(&l, cut);
        assert_false(l.ok);
        assert_int_equal(l.err.code, ZF_E_FORMAT);
        assert_true(l.err.off <= n);
        zf_arena_free(l.arena);
    }
}

/* Whatever room there is, it is the header or the limit. */
static void test_memory(void **state)
{
    zf_auto(source) struct zf_source *s = file_of(
        "{\"a\":" T("U8", "[1,1,1,1,1,1,1,1,2]", "[0,2]") ",\"b\":" T("U8", "[3]", "[2,5]") "}", 5);
    struct zf_limits lim = zf_limits_default();
    bool ok = false;

    (void)state;
    for (uint64_t room = 0; !ok; room += 8) {
        struct zf_err err = {.code = ZF_OK};
        struct zf_st_header head;
        zf_auto(arena) struct zf_arena *arena = zf_arena_new(room, &err);

        ok = zf_st_load(s, arena, &lim, &head, &err);
        assert_int_equal(err.code, ok ? ZF_OK : ZF_E_LIMIT);
        assert_true(room < 1 << 16);
    }
}

static void test_round_trip(void **state)
{
    uint64_t shape[] = {3, 2}, pairs[] = {4};
    struct zf_st_entry e[] = {
        {.name = "w\"\\\n\xf0\x9f\x8d\x89",
         .name_len = 8,
         .dtype = ZF_DT_F16,
         .ndim = 2,
         .shape = shape},
        {.name = "raw\xff", .name_len = 4, .dtype = ZF_DT_BOOL},
        {.name = "packed", .name_len = 6, .dtype = ZF_DT_F4, .ndim = 1, .shape = pairs},
    };
    struct zf_err err = {.code = ZF_OK};
    struct loaded l;
    char *head = NULL;
    uint64_t n = 0;

    (void)state;
    assert_ok(zf_st_emit(e, 3, "{\"format\":\"pt\"}", &head, &n, &err), &err);
    assert_int_equal(n % 8, 0);
    assert_int_equal(e[0].begin, n);
    assert_int_equal(e[2].end, n + 12 + 1 + 4);
    assert_non_null(memmem(head, n, "\"shape\":[8]", 11));

    head = realloc(head, n + 17);
    assert_non_null(head);
    memset(head + n, 0, 17);
    zf_auto(source) struct zf_source *s = zf_mem_new("f.safetensors", head, n + 17, true, &err);
    load(&l, s);
    assert_ok(l.ok, &l.err);
    assert_int_equal(l.head.n, 3);
    assert_string_equal(l.head.entry[0].name, e[0].name);
    assert_string_equal(l.head.entry[1].name, "raw%FF");
    assert_int_equal(l.head.entry[2].shape[0], 4);
    assert_string_equal(l.head.meta_val[0], "pt");
    zf_arena_free(l.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_load),      cmocka_unit_test(test_empty),
        cmocka_unit_test(test_refused),   cmocka_unit_test(test_length_word),
        cmocka_unit_test(test_truncated), cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
