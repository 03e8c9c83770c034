/* SPDX-License-Identifier: Apache-2.0 */
/* The walk over flat buffers: against trying everything, and the cases that its rules are for. */
#include "support/unit.h"

#include <stdio.h>

#include "support/bucket_oracle.h"
#include "support/random.h"

/* Every kind of outcome comes up often enough to mean something. */
static void random_buffers(void **state)
{
    static struct oracle o;
    uint32_t seen[4] = {0};
    uint8_t script[160];

    (void)state;
    for (int i = 0; i < 60000; i++) {
        enum walk_kind kind = WALK_MANY;

        for (size_t k = 0; k < sizeof script; k++)
            script[k] = (uint8_t)random_below(256);
        oracle_make(&o, script, sizeof script);
        assert_true(oracle_agrees(&o, &kind));
        seen[kind]++;
    }
    assert_true(seen[WALK_ONE] > 1000 && seen[WALK_NONE] > 1000 && seen[WALK_SEVERAL] > 1000);
    assert_int_equal(seen[WALK_MANY], 0);
}

/* A text a buffer, a letter an element; pieces likewise, a space between units. */
struct letters {
    const char *const *bucket;
    const char *piece[32];
};

static bool letters_same(void *ctx, uint32_t piece, uint32_t bucket, uint64_t first, bool *same,
                         struct zf_err *err)
{
    const struct letters *l = ctx;

    (void)err;
    *same = memcmp(l->bucket[bucket] + first, l->piece[piece], strlen(l->piece[piece])) == 0;
    return true;
}

static struct walk_result walk(const char *pieces, const char *const *bucket, uint64_t align,
                               bool joined, char *where)
{
    struct letters l = {.bucket = bucket};
    struct walk_piece piece[32];
    struct walk_place place[32];
    uint64_t len[8];
    struct walk_in in = {.piece = piece, .len = len, .align = align, .joined = joined};
    struct walk_result r;
    struct zf_err err;
    char *copy = strdup(pieces), *save_unit = NULL, *save;

    for (char *unit = strtok_r(copy, " ", &save_unit); unit;
         unit = strtok_r(NULL, " ", &save_unit)) {
        static uint32_t units;

        units++;
        for (char *p = strtok_r(unit, "+", &save); p; p = strtok_r(NULL, "+", &save)) {
            l.piece[in.n_pieces] = p;
            piece[in.n_pieces++] = (struct walk_piece){strlen(p), units};
        }
    }
    for (; bucket[in.n_buckets]; in.n_buckets++)
        len[in.n_buckets] = strlen(bucket[in.n_buckets]);
    in.same = letters_same;
    in.ctx = &l;
    assert_ok(bucket_walk(&in, place, &r, &err), &err);
    *where = '\0';
    for (uint32_t i = 0; r.kind == WALK_ONE && i < in.n_pieces; i++) {
        where += place[i].there ? sprintf(where, "%s@%u:%u ", l.piece[i], place[i].bucket,
                                          (unsigned)place[i].first)
                                : sprintf(where, "%s- ", l.piece[i]);
    }
    free(copy);
    return r;
}

#define BUCKETS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void rules(void **state)
{
    char where[400];

    (void)state;
    /* padding up to the next multiple, whatever is in it; a layer that is elsewhere */
    assert_int_equal(
        walk("ab lmn+op qrs+tu wxyz", BUCKETS("ab??qrs?tu??wxyz"), 4, false, where).kind, WALK_ONE);
    assert_string_equal(where, "ab@0:0 lmn- op- qrs@0:4 tu@0:8 wxyz@0:12 ");
    /* without padding, as up to core 0.7 */
    assert_int_equal(walk("ab cde", BUCKETS("abcde"), 1, false, where).kind, WALK_ONE);
    /* the layer's norm is as fresh as its neighbour's: bytes of its own say which it is */
    assert_int_equal(walk("11+ab 11+cd 11+ef", BUCKETS("11??cd"), 4, false, where).kind, WALK_ONE);
    assert_string_equal(where, "11- ab- 11@0:0 cd@0:4 11- ef- ");
    /* a lone norm that fits in front of a layer, but leaves no room for it */
    assert_int_equal(walk("00 00+ab", BUCKETS("00??ab"), 4, false, where).kind, WALK_ONE);
    assert_string_equal(where, "00- 00@0:0 ab@0:4 ");
    /* two layers that nothing tells apart */
    assert_int_equal(walk("11+ab 11+ab", BUCKETS("11??ab"), 4, false, where).kind, WALK_SEVERAL);
    assert_int_equal(walk("11+ab 11+ab", BUCKETS("11??ab??11??ab"), 4, false, where).kind,
                     WALK_ONE);
    /* a bucket ends behind a parameter, in the middle of a layer; an empty one changes nothing */
    assert_int_equal(walk("abc+de fg", BUCKETS("abc", "", "de??fg"), 4, false, where).kind,
                     WALK_ONE);
    assert_string_equal(where, "abc@0:0 de@2:0 fg@2:4 ");
    assert_int_equal(walk("abc+de fg", BUCKETS("abc?", "de??fg"), 4, false, where).kind, WALK_NONE);
    assert_int_equal(walk("abc+de fg", BUCKETS("abc", "de??fg?"), 4, false, where).kind, WALK_NONE);
    /* the same buckets joined: alignment counts from where each began */
    assert_int_equal(walk("abc+de fg hi", BUCKETS("abcde??fghi"), 4, true, where).kind, WALK_ONE);
    assert_string_equal(where, "abc@0:0 de@0:3 fg@0:7 hi@0:9 ");
    assert_int_equal(walk("abc+de fg", BUCKETS("abcde??fg"), 4, false, where).kind, WALK_NONE);
    /* half a layer is none, and one letter off is not there */
    assert_int_equal(walk("ab+cd", BUCKETS("ab"), 4, false, where).kind, WALK_NONE);
    struct walk_result r = walk("abcd efgh ijkl", BUCKETS("abcdefgXijkl"), 4, false, where);
    assert_int_equal(r.kind, WALK_NONE);
    assert_true(r.bucket == 0 && r.end == 4);
    /* another order */
    assert_int_equal(walk("cd ab", BUCKETS("ab??cd"), 4, false, where).kind, WALK_NONE);
}

static bool always(void *ctx, uint32_t piece, uint32_t bucket, uint64_t first, bool *same,
                   struct zf_err *err)
{
    (void)piece, (void)bucket, (void)first, (void)err;
    ++*(uint64_t *)ctx;
    *same = true;
    return true;
}

static bool never_read(void *ctx, uint32_t piece, uint32_t bucket, uint64_t first, bool *same,
                       struct zf_err *err)
{
    (void)ctx, (void)piece, (void)bucket, (void)first, (void)same;
    return zf_fail(err, ZF_E_IO, 7, "cannot read");
}

/* Nothing but zeros: the work has an end, and a buffer of all layers is still the only way. */
static void equal_layers(void **state)
{
    static struct walk_piece piece[20000];
    static struct walk_place place[20000];
    uint64_t len = 0, calls = 0;
    struct walk_result r;
    struct zf_err err;

    (void)state;
    for (uint32_t i = 0; i < 20000; i++)
        piece[i] = (struct walk_piece){64, i / 10};
    struct walk_in in = {.piece = piece,
                         .n_pieces = 3000,
                         .len = &len,
                         .n_buckets = 1,
                         .align = 64,
                         .same = always,
                         .ctx = &calls};
    len = 3000 * 64;
    assert_ok(bucket_walk(&in, place, &r, &err), &err);
    assert_int_equal(r.kind, WALK_ONE);
    len = 2000 * 64;
    assert_ok(bucket_walk(&in, place, &r, &err), &err);
    assert_int_equal(r.kind, WALK_SEVERAL);
    calls = 0;
    in.n_pieces = 20000;
    len = 19000 * 64;
    assert_ok(bucket_walk(&in, place, &r, &err), &err);
    assert_int_equal(r.kind, WALK_MANY);
    assert_true(calls < 1u << 24);
    in.same = never_read;
    assert_false(bucket_walk(&in, place, &r, &err));
    assert_err(&err, ZF_E_IO, 7, "cannot read");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_buffers),
        cmocka_unit_test(rules),
        cmocka_unit_test(equal_layers),
    };

    return cmocka_run_group_tests_name("bucket_walk", tests, NULL, NULL);
}
