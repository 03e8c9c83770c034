/* SPDX-License-Identifier: Apache-2.0 */
/* `.zarray` and chunks.  What is compressed here is compressed by the libraries themselves; that numcodecs'
 * chunks are read is shown by real checkpoints (tests/unit/format/megatron). */
#include "config.h"

#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>

#include <zlib.h>
#ifdef HAVE_BLOSC
#include <blosc.h>
#endif
#ifdef HAVE_LZ4
#include <lz4.h>
#endif
#ifdef HAVE_ZSTD
#include <zstd.h>
#endif

#include <zf/codec/zarr.h>

/* A `.zarray` with these parts in it; NULL = as usual. */
struct doc {
    const char *shape, *chunks, *dtype, *compressor, *fill, *rest;
};

/* Of all lists that are loaded; one for all tests. */
static struct zf_arena *arena;

static bool load(struct doc d, struct zf_zarr *z, struct zf_err *err)
{
    const struct zf_limits lim = zf_limits_default();
    char text[1200];

    *err = (struct zf_err){.code = ZF_OK};
    int n = snprintf(
        text, sizeof text,
        "{\"shape\": %s, \"chunks\": %s, \"dtype\": %s, \"compressor\": %s, \"fill_value\": %s, "
        "\"filters\": null, \"zarr_format\": 2%s}",
        d.shape ? d.shape : "[4, 6]", d.chunks ? d.chunks : "[2, 4]", d.dtype ? d.dtype : "\"<f4\"",
        d.compressor ? d.compressor : "null", d.fill ? d.fill : "null",
        d.rest ? d.rest : ", \"order\": \"C\"");

    assert_in_range(n, 1, sizeof text - 1);
    return zf_zarr_load(text, (uint64_t)n, &lim, arena, z, err);
}

static void says_what_is_there(void **state)
{
    struct zf_zarr z;
    struct zf_err err;

    (void)state;
    assert_ok(
        load((struct doc){.rest = ", \"order\": \"F\", \"dimension_separator\": \"/\""}, &z, &err),
        &err);
    assert_true(z.order_f && z.separator == '/' && !z.swapped && z.fill == ZF_ZARR_UNDEFINED);
    assert_int_equal(z.dtype, ZF_DT_F32);
    assert_int_equal(z.ndim, 2);
    assert_int_equal(z.grid[0] * 10 + z.grid[1], 22);
    assert_int_equal(z.n_chunks, 4);
    assert_int_equal(z.chunk_bytes, 32);
    assert_int_equal(z.bytes, 96);
    assert_ok(load((struct doc){.shape = "[]", .chunks = "[]"}, &z, &err), &err);
    assert_int_equal(z.n_chunks, 1);
    assert_int_equal(z.separator, '.');
    assert_ok(load((struct doc){.shape = "[0, 7]", .chunks = "[0, 7]"}, &z, &err), &err);
    assert_int_equal(z.n_chunks, 0);
}

static void knows_the_types(void **state)
{
    static const struct {
        const char *said;
        enum zf_dtype dtype;
        bool swapped;
    } known[] = {{"\"bfloat16\"", ZF_DT_BF16, false},
                 {"\"<V2\"", ZF_DT_BF16, false},
                 {"\"|V2\"", ZF_DT_BF16, false},
                 {"\">V2\"", ZF_DT_BF16, true},
                 {"\"<f2\"", ZF_DT_F16, false},
                 {"\">f8\"", ZF_DT_F64, true},
                 {"\"|b1\"", ZF_DT_BOOL, false},
                 {"\"|i1\"", ZF_DT_I8, false},
                 {"\"|u1\"", ZF_DT_U8, false},
                 {"\"<i2\"", ZF_DT_I16, false},
                 {"\">i4\"", ZF_DT_I32, true},
                 {"\"<i8\"", ZF_DT_I64, false},
                 {"\"<u2\"", ZF_DT_U16, false},
                 {"\"<u4\"", ZF_DT_U32, false},
                 {"\">u8\"", ZF_DT_U64, true},
                 {"\"<c8\"", ZF_DT_C64, false},
                 {"\">c16\"", ZF_DT_C128, true},
                 {"\">u1\"", ZF_DT_U8, false},
                 {"\"float8_e4m3fn\"", ZF_DT_F8_E4M3, false}};
    static const char *const unknown[] = {
        "\"<f16\"", "\"<M8\"", "\"|V1\"", "\"|V4\"", "\"|S5\"",     "\"f4\"",
        "\"<\"",    "\"\"",    "\"|f4\"", "\"|O\"",  "\"float8_\"", "[[\"a\", \"<f4\"]]"};
    struct zf_zarr z;
    struct zf_err err;

    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        assert_ok(load((struct doc){.dtype = known[i].said}, &z, &err), &err);
        assert_int_equal(z.dtype, known[i].dtype);
        assert_int_equal(z.swapped, known[i].swapped);
    }
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        assert_false(load((struct doc){.dtype = unknown[i]}, &z, &err));
        assert_err(&err, ZF_E_UNSUPPORTED, ZF_OFF_NONE, "not supported");
    }
    assert_false(load((struct doc){.dtype = "7"}, &z, &err));
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, "dtype is not a string");
}

static void fills_are_zero_or_not(void **state)
{
    static const struct {
        const char *dtype, *fill;
        enum zf_zarr_fill is;
    } known[] = {
        {"\"<f4\"", "null", ZF_ZARR_UNDEFINED},
        {"\"<f4\"", "0", ZF_ZARR_ZERO},
        {"\"<f4\"", "0.0", ZF_ZARR_ZERO},
        {"\"<f4\"", "-0.0", ZF_ZARR_OTHER}, /* its sign bit is set */
        {"\"<f4\"", "1.5", ZF_ZARR_OTHER},
        {"\"<f4\"", "1e-45", ZF_ZARR_OTHER},
        {"\"<f4\"", "\"NaN\"", ZF_ZARR_OTHER},
        {"\"<f4\"", "false", ZF_ZARR_OTHER},
        {"\"<f4\"", "[]", ZF_ZARR_OTHER},
        {"\"|V2\"", "\"AAA=\"", ZF_ZARR_OTHER},
        {"\"|V2\"", "0", ZF_ZARR_ZERO},
        {"\"|b1\"", "false", ZF_ZARR_ZERO},
        {"\"|b1\"", "0", ZF_ZARR_ZERO},
        {"\"|b1\"", "true", ZF_ZARR_OTHER},
        {"\"<i8\"", "-1", ZF_ZARR_OTHER},
        {"\"<c8\"", "[0.0, \"NaN\"]", ZF_ZARR_OTHER},
    };
    struct zf_zarr z;
    struct zf_err err;

    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        assert_ok(load((struct doc){.dtype = known[i].dtype, .fill = known[i].fill}, &z, &err),
                  &err);
        assert_int_equal(z.fill, known[i].is);
    }
    assert_ok(
        load((struct doc){.fill = "\"a text that is longer than any number \u00e4\""}, &z, &err),
        &err);
    assert_string_equal(z.fill_text, "\"a text that is longer than any");
}

static void lies_are_refused(void **state)
{
    static const struct {
        struct doc d;
        enum zf_code code;
        const char *part;
    } bad[] = {
        {{.shape = "[4]"}, ZF_E_FORMAT, "shape has 1 dimensions, chunks has 2"},
        {{.shape = "[4, -6]"}, ZF_E_FORMAT, "shape is not a list of whole numbers"},
        {{.shape = "[4, 6.0]"}, ZF_E_FORMAT, "shape is not a list of whole numbers"},
        {{.shape = "[4, \"6\"]"}, ZF_E_FORMAT, "shape is not a list of whole numbers"},
        {{.shape = "[4, 99999999999999999999]"}, ZF_E_FORMAT, "too big integer"},
        {{.shape = "{}"}, ZF_E_FORMAT, "shape is not a list"},
        {{.chunks = "7"}, ZF_E_FORMAT, "chunks is not a list"},
        {{.chunks = "[2, 0]"}, ZF_E_FORMAT, "the chunk length in dimension 1 is 0"},
        {{.shape = "[4294967296, 4294967296]"}, ZF_E_FORMAT, "more than 2^63 bytes"},
        {{.shape = "[4, 3000000000000000000]"}, ZF_E_FORMAT, "more than 2^63 bytes"},
        {{.chunks = "[4294967296, 4294967296]"}, ZF_E_FORMAT, "a chunk has more than 2^63"},
        {{.shape = "[1048576, 1048576]"}, ZF_E_LIMIT, "limit grid_cells"},
        {{.compressor = "{\"id\": \"bz2\"}"}, ZF_E_UNSUPPORTED, "\"bz2\""},
        {{.compressor = "{\"level\": 1}"}, ZF_E_FORMAT, "compressor is neither"},
        {{.compressor = "\"zlib\""}, ZF_E_FORMAT, "compressor is neither"},
        {{.rest = ""}, ZF_E_FORMAT, "order is missing"},
        {{.rest = ", \"order\": \"K\""}, ZF_E_FORMAT, "order is neither"},
        {{.rest = ", \"order\": \"C\", \"order\": \"F\""}, ZF_E_FORMAT, "duplicate"},
        {{.rest = ", \"order\": \"C\", \"dimension_separator\": \"-\""},
         ZF_E_FORMAT,
         "separator is neither"},
        {{.rest = ", \"order\": \"C\"}, {"}, ZF_E_FORMAT, "JSON"},
    };
    struct zf_zarr z;
    struct zf_err err;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(load(bad[i].d, &z, &err));
        assert_int_equal(err.code, bad[i].code);
        assert_non_null(strstr(err.msg, bad[i].part));
    }
}

static void documents_are_refused(void **state)
{
    static const struct {
        const char *text;
        enum zf_code code;
        const char *part;
    } bad[] = {
        {"", ZF_E_FORMAT, "JSON"},
        {"[]", ZF_E_FORMAT, "not a JSON object"},
        {"{}", ZF_E_FORMAT, "zarr_format is missing"},
        {"{\"zarr_format\": 3, \"shape\": 0, \"chunks\": 0, \"dtype\": 0, \"compressor\": 0, "
         "\"order\": 0, "
         "\"fill_value\": 0}",
         ZF_E_UNSUPPORTED, "zarr_format 3"},
        {"{\"zarr_format\": 2, \"shape\": [1], \"chunks\": [1], \"dtype\": \"<f4\", "
         "\"compressor\": null, "
         "\"order\": \"C\", \"fill_value\": 0, \"filters\": [{\"id\": \"delta\"}]}",
         ZF_E_UNSUPPORTED, "\"delta\""},
    };
    const struct zf_limits lim = zf_limits_default();
    struct zf_zarr z;
    struct zf_err err;
    char deep[600];

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(zf_zarr_load(bad[i].text, strlen(bad[i].text), &lim, arena, &z, &err));
        assert_int_equal(err.code, bad[i].code);
        assert_non_null(strstr(err.msg, bad[i].part));
    }
    memset(deep, '[', sizeof deep);
    assert_false(zf_zarr_load(deep, sizeof deep, &lim, arena, &z, &err));
    assert_err(&err, ZF_E_LIMIT, lim.json_depth, "json_depth");
}

static void no_prefix_is_a_document(void **state)
{
    static const char text[] = "{\"chunks\": [1, 3, 8], \"compressor\": {\"id\": \"zlib\", "
                               "\"level\": 1}, \"dtype\": \"<f4\", "
                               "\"fill_value\": null, \"filters\": null, \"order\": \"C\", "
                               "\"shape\": [4, 6, 8], \"zarr_format\": 2}";
    const struct zf_limits lim = zf_limits_default();
    struct zf_zarr z;
    struct zf_err err;

    (void)state;
    for (size_t n = 0; n < sizeof text - 1; n++)
        assert_false(zf_zarr_load(text, n, &lim, arena, &z, &err));
    assert_ok(zf_zarr_load(text, sizeof text - 1, &lim, arena, &z, &err), &err);
}

static void chunks_have_names(void **state)
{
    struct zf_zarr z;
    struct zf_err err;
    char name[ZF_ZARR_NAME];
    uint64_t number;
    bool outside;

    (void)state;
    assert_ok(load((struct doc){.shape = "[24, 100]"}, &z, &err), &err); /* grid 12 x 25 */
    for (uint64_t i = 0; i < z.n_chunks; i++) {
        char want[20];

        (void)snprintf(want, sizeof want, "%d.%d", (int)(i / 25), (int)(i % 25));
        assert_int_equal(zf_zarr_name(&z, i, name), strlen(want));
        assert_string_equal(name, want);
        assert_true(zf_zarr_number(&z, name, &number, &outside) && number == i && !outside);
    }
    static const char *const none[] = {"", "-1.0", "0.0x", ".zarray", "12.x"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        assert_false(zf_zarr_number(&z, none[i], &number, &outside));
        assert_false(outside);
    }
    /* chunks of other grids, also by the separator or the number of dimensions */
    static const char *const other[] = {
        "12.0", "0.25", "0", "0.", "0.0.0", "00.0", "0.01", "0/0", "0.99999999999999999999"};
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++) {
        assert_false(zf_zarr_number(&z, other[i], &number, &outside));
        assert_true(outside);
    }
    assert_ok(load((struct doc){.shape = "[]", .chunks = "[]"}, &z, &err), &err);
    assert_int_equal(zf_zarr_name(&z, 0, name), 1);
    assert_string_equal(name, "0");
    assert_true(zf_zarr_number(&z, "0", &number, &outside));
    assert_false(zf_zarr_number(&z, "1", &number, &outside));
    assert_true(outside);
    assert_false(zf_zarr_number(&z, "0.0", &number, &outside));
    assert_true(outside);
    assert_false(zf_zarr_number(&z, "", &number, &outside));
    assert_false(outside);
}

/* ---- chunks ------------------------------------------------------------------------------------- */

#define SIDE 96
#define SIZE ((uint64_t)SIDE * SIDE * 4)

struct packed {
    uint8_t p[2 * SIZE];
    size_t n;
};

static void values(float out[SIDE * SIDE])
{
    for (int i = 0; i < SIDE * SIDE; i++)
        out[i] = (float)((i * 37) % 1000) / 8;
}

static void pack_deflate(struct packed *to, const void *p, int window)
{
    z_stream z = {0};

    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (Bytef *)(uintptr_t)p;
    z.avail_in = SIZE;
    z.next_out = to->p;
    z.avail_out = sizeof to->p;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    to->n = z.total_out;
    assert_int_equal(deflateEnd(&z), Z_OK);
}

#ifdef HAVE_BLOSC
static void pack_blosc(struct packed *to, const void *p, const char *inner, int shuffle)
{
    int n = blosc_compress_ctx(5, shuffle, 4, SIZE, p, to->p, sizeof to->p, inner, 0, 1);

    assert_true(n > 0);
    to->n = (size_t)n;
}
#endif

#ifdef HAVE_LZ4
static void pack_lz4(struct packed *to, const void *p)
{
    const uint8_t size[4] = {SIZE & 255, SIZE >> 8 & 255, SIZE >> 16 & 255, 0};
    int n = LZ4_compress_default(p, (char *)to->p + 4, SIZE, sizeof to->p - 4);

    assert_true(n > 0);
    memcpy(to->p, size, 4);
    to->n = (size_t)n + 4;
}
#endif

/* The chunk in p[n] of an array of chunks of side x side floats; NULL as zf_zarr_chunk. */
static struct zf_source *open_chunk(const char *codec, const void *p, size_t n, int side,
                                    uint64_t limit, struct zf_err *err)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_zarr z;
    char shape[40], comp[40];

    (void)snprintf(shape, sizeof shape, "[%d, %d]", side, SIDE);
    (void)snprintf(comp, sizeof comp, codec ? "{\"id\": \"%s\"}" : "null", codec);
    assert_ok(load((struct doc){.shape = shape, .chunks = shape, .compressor = comp}, &z, err),
              err);
    lim.chunk_bytes = limit;
    lim.cache_bytes = SIZE / 2;
    zf_auto(source) struct zf_source *file =
        zf_mem_new("c/0.0", (void *)(uintptr_t)p, n, false, err);
    return zf_zarr_chunk(&z, file, &lim, err);
}

static bool read_chunk(const char *codec, const void *p, size_t n, int side, struct zf_err *err)
{
    static float want[SIDE * SIDE], got[SIDE * SIDE];
    zf_auto(source) struct zf_source *s = open_chunk(codec, p, n, side, SIZE * 2, err);

    if (!s || !zf_source_pread(s, got, SIZE / 2, SIZE / 2, err) ||
        !zf_source_pread(s, got, SIZE, 0, err)) {
        assert_int_not_equal(err->code, ZF_OK);
        return false;
    }
    values(want);
    assert_memory_equal(got, want, SIZE);
    return true;
}

/* Right; then cut anywhere, one byte longer, of another size than the array says, over the limit. */
static void sound_or_refused(const char *codec, const struct packed *c)
{
    struct zf_err err;
    uint8_t *cut = malloc(c->n + 1);

    assert_ok(read_chunk(codec, c->p, c->n, SIDE, &err), &err);
    for (size_t n = 0; n < c->n; n += n < 64 || n + 64 > c->n ? 1 : 97) {
        /* A copy, so that reading beyond the end is seen. */
        uint8_t *exact = memcpy(malloc(n + !n), c->p, n);

        assert_false(read_chunk(codec, exact, n, SIDE, &err));
        assert_string_equal(err.path, "c/0.0");
        free(exact);
    }
    memcpy(cut, c->p, c->n);
    cut[c->n] = 0;
    assert_false(read_chunk(codec, cut, c->n + 1, SIDE, &err));
    zf_auto(source) struct zf_source *s = open_chunk(codec, c->p, c->n, SIDE, SIZE - 1, &err);
    if (codec) {
        assert_null(s);
        assert_err(&err, ZF_E_LIMIT, ZF_OFF_NONE, "chunk_bytes");
    }
    for (int side = SIDE - 1; side <= SIDE + 1; side += 2) {
        static float got[(SIDE + 1) * SIDE];
        zf_auto(source) struct zf_source *other =
            open_chunk(codec, c->p, c->n, side, SIZE * 2, &err);

        assert_false(other &&
                     zf_source_pread(other, got, sizeof(float) * (size_t)(side * SIDE), 0, &err));
        assert_int_equal(err.code, ZF_E_FORMAT);
    }
    free(cut);
}

static void all_codecs_are_read(void **state)
{
    static float plain[SIDE * SIDE];
    static struct packed c;

    (void)state;
    values(plain);
    memcpy(c.p, plain, SIZE);
    c.n = SIZE;
    sound_or_refused(NULL, &c);
    pack_deflate(&c, plain, MAX_WBITS);
    sound_or_refused("zlib", &c);
    pack_deflate(&c, plain, MAX_WBITS + 16);
    sound_or_refused("gzip", &c);
#ifdef HAVE_ZSTD
    c.n = ZSTD_compress(c.p, sizeof c.p, plain, SIZE, 3);
    sound_or_refused("zstd", &c);
#endif
#ifdef HAVE_LZ4
    pack_lz4(&c, plain);
    sound_or_refused("lz4", &c);
#endif
#ifdef HAVE_BLOSC
    static const char *const inner[] = {"blosclz", "lz4", "lz4hc", "zlib", "zstd"};
    for (size_t i = 0; i < sizeof inner / sizeof inner[0]; i++) {
        for (int shuffle = 0; shuffle < 3; shuffle++) {
            pack_blosc(&c, plain, inner[i], shuffle);
            sound_or_refused("blosc", &c);
        }
    }
#endif
}

static void damage_is_seen_or_harmless(void **state)
{
    static float plain[SIDE * SIDE], got[SIDE * SIDE];
    static struct packed c;
    struct zf_err err;

    (void)state;
    values(plain);
    pack_deflate(&c, plain, MAX_WBITS);
    c.p[c.n - 1] ^= 1; /* of the checksum */
    assert_false(read_chunk("zlib", c.p, c.n, SIDE, &err));
    pack_deflate(&c, plain, MAX_WBITS + 16);
    c.p[c.n - 6] ^= 1;
    assert_false(read_chunk("gzip", c.p, c.n, SIDE, &err));
#ifdef HAVE_BLOSC
    /* blosc has no checksum: other values may come out, but nothing is read or written outside. */
    pack_blosc(&c, plain, "lz4", 1);
    for (size_t i = 0; i < c.n; i += i < 80 ? 1 : 53) {
        c.p[i] ^= 0x81;
        uint8_t *exact = memcpy(malloc(c.n), c.p, c.n);
        zf_auto(source) struct zf_source *s = open_chunk("blosc", exact, c.n, SIDE, SIZE * 2, &err);

        assert_true(!s || zf_source_pread(s, got, SIZE, 0, &err) || err.code == ZF_E_FORMAT);
        zf_source_unref(&s);
        free(exact);
        c.p[i] ^= 0x81;
    }
#endif
    (void)got;
}

#ifdef HAVE_BLOSC
static void a_blosc_header_must_fit(void **state)
{
    static const struct {
        int at;
        const char *part;
    } bad[] = {{0, "version"},           {4, "once decompressed"}, {7, "once decompressed"},
               {12, "bytes compressed"}, {15, "bytes compressed"}, {11, "blocks of"},
               {2, "inner codec"}};
    static float plain[SIDE * SIDE];
    static struct packed c;
    struct zf_err err;

    (void)state;
    values(plain);
    pack_blosc(&c, plain, "zstd", 2);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct packed d = c;

        d.p[bad[i].at] ^= 0x60;
        d.p[bad[i].at] |= 0x20;
        zf_auto(source) struct zf_source *s = open_chunk("blosc", d.p, d.n, SIDE, SIZE * 2, &err);
        assert_null(s);
        assert_non_null(strstr(err.msg, bad[i].part));
        assert_string_equal(err.path, "c/0.0");
    }
}
#endif

static void big_endian_is_turned(void **state)
{
    static const uint8_t big[8] = {0x3f, 0x80, 0, 0, 0xc0, 0, 0, 0}; /* 1, -2; 1 - 2j */
    static const float want[2] = {1, -2};
    static const char *const dtype[] = {"\">f4\"", "\">c8\""};
    const struct zf_limits lim = zf_limits_default();
    struct zf_zarr z;
    struct zf_err err;
    float got[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *shape = i ? "[1]" : "[2]";

        assert_ok(load((struct doc){.shape = shape, .chunks = shape, .dtype = dtype[i]}, &z, &err),
                  &err);
        zf_auto(source) struct zf_source *file =
            zf_mem_new("0", (void *)(uintptr_t)big, sizeof big, false, &err);
        zf_auto(source) struct zf_source *s = zf_zarr_chunk(&z, file, &lim, &err);
        assert_ok(s && zf_source_pread(s, got, sizeof got, 0, &err), &err);
        assert_memory_equal(got, want, sizeof want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_what_is_there),         cmocka_unit_test(knows_the_types),
        cmocka_unit_test(fills_are_zero_or_not),      cmocka_unit_test(lies_are_refused),
        cmocka_unit_test(documents_are_refused),      cmocka_unit_test(no_prefix_is_a_document),
        cmocka_unit_test(chunks_have_names),          cmocka_unit_test(all_codecs_are_read),
        cmocka_unit_test(damage_is_seen_or_harmless),
#ifdef HAVE_BLOSC
        cmocka_unit_test(a_blosc_header_must_fit),
#endif
        cmocka_unit_test(big_endian_is_turned),
    };

    struct zf_err err;
    arena = zf_arena_new(1u << 20, &err);
    int failed = arena ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
    zf_arena_free(arena);
    return failed;
}
