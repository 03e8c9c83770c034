/* SPDX-License-Identifier: Apache-2.0 */
/* What a kept model says of an object: whole, or of no use. */
#include "support/unit.h"

#include <stdlib.h>

#include "remote/object.h"

static struct zf_err err;

static bool at(struct place *p, const char *path, struct place_at *out, struct zf_err *e)
{
    (void)p;
    *out = (struct place_at){.url = strdup(path)};
    return out->url || zf_fail(e, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
}

static const struct place_ops ops = {.at = at};
static struct zf_remote_opts opts;
static struct place place = {.ops = &ops, .etag_is_content_hash = true};
static struct object_shared shared = {.place = &place};
static const struct http_object was = {
    .size = 300, .etag = "\"0123\"", .version = "v7", .mtime = {.tv_sec = 1700000000}};

#define URL "http://127.0.0.1/rank0.pt"
/* 16 bytes of the place, two of the size, then the seconds, which a strong ETag makes needless. */
#define SECONDS_AT 18
#define SECONDS_END 23

static struct zf_source *src;
static struct zf_out note;

static int setup(void **state)
{
    (void)state;
    atomic_init(&shared.refs, 1);
    place.http = http_new(&opts, &err);
    assert_ok(place.http, &err);
    shared.cache = blockcache_new(BLOCK_SIZE, &err);
    assert_ok(shared.cache, &err);
    src = object_open(&shared, URL, "rank0.pt", &was, true, false, &err);
    assert_ok(src, &err);
    assert_ok(object_note_put(src, &note, &err), &err);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    zf_source_unref(&src);
    http_free(place.http);
    blockcache_free(shared.cache);
    free(note.p);
    return 0;
}

/* The object of the first n bytes, which are copied so that a read beyond them is seen by tools. */
static struct zf_source *opened(const char *p, size_t n, const char *url)
{
    char *copy = malloc(n ? n : 1);

    assert_non_null(copy);
    memcpy(copy, p, n);
    zf_err_clear(&err);
    struct zf_source *s =
        object_note_open(&shared, url, "rank0.pt", zf_bytes_of(copy, n), NULL, &err);
    free(copy);
    return s;
}

static void whole(void **state)
{
    struct zf_out again = {0};

    (void)state;
    struct zf_source *s = opened(note.p, note.n, URL);
    assert_ok(s, &err);
    assert_int_equal(s->size, was.size);
    assert_ok(object_note_put(s, &again, &err), &err);
    assert_int_equal(again.n, note.n);
    assert_memory_equal(again.p, note.p, note.n);
    free(again.p);
    zf_source_unref(&s);
    s = object_note_same(src, zf_bytes_of(note.p, note.n), &err);
    assert_ptr_equal(s, src);
    zf_source_unref(&s);
    assert_null(opened(note.p, note.n, URL "x"));
    assert_int_equal(err.code, ZF_E_STALE);
}

static void cut_at_every_byte(void **state)
{
    (void)state;
    for (size_t n = 0; n < note.n; n++) {
        assert_null(opened(note.p, n, URL));
        assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, "truncated");
    }
    zf_out_str(&note, "x");
    assert_null(opened(note.p, note.n, URL));
    assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, "truncated");
    note.n--;
}

static void flipped_at_every_bit(void **state)
{
    (void)state;
    for (size_t i = 0; i < note.n * 8; i++) {
        note.p[i / 8] ^= (char)(1 << i % 8);
        struct zf_source *s = opened(note.p, note.n, URL);
        zf_source_unref(&s);
        zf_err_clear(&err);
        s = object_note_same(src, zf_bytes_of(note.p, note.n), &err);
        if (s)
            assert_in_range(i / 8, SECONDS_AT, SECONDS_END - 1);
        else
            assert_true(err.code == ZF_E_FORMAT || err.code == ZF_E_STALE);
        zf_source_unref(&s);
        note.p[i / 8] ^= (char)(1 << i % 8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole),
        cmocka_unit_test(cut_at_every_byte),
        cmocka_unit_test(flipped_at_every_bit),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
