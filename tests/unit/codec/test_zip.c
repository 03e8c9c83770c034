/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/codec/zip.h>

#include <stdio.h>
#include <time.h>

#include <zf/source/want.h>

#include "support/far.h"
#include "support/fault.h"
#include "unit/codec/fixture.h"

static char dir[64];
static struct zf_limits lim;

static struct zf_zip *open_zip(const char *name, struct zf_err *err)
{
    zf_auto(source) struct zf_source *src = fixture_open(dir, name);

    return zf_zip_open(src, &lim, err);
}

/* Reads the member and compares it with the pattern that zips.py wrote. */
static void check_pattern(struct zf_zip *z, const char *name)
{
    struct zf_err err;
    uint64_t i;
    uint8_t got[5000];

    assert_true(zf_zip_find(z, name, &i));
    zf_auto(source) struct zf_source *src = zf_zip_source(z, i, &err);
    assert_ok(src != NULL, &err);
    assert_int_equal(src->size, sizeof got);
    assert_ok(zf_source_pread(src, got, sizeof got, 0, &err), &err);
    for (unsigned k = 0; k < sizeof got; k++)
        assert_int_equal(got[k], k * 7 % 251);
}

static void reads_whole_archives(void **state)
{
    static const char *const names[] = {"good.zip",  "comment.zip", "zip64.zip",
                                        "end64.zip", "suffix.zip",  "wide64.zip"};

    (void)state;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        struct zf_err err;
        zf_auto(zip) struct zf_zip *z = open_zip(names[k], &err);
        uint64_t i;

        assert_ok(z != NULL, &err);
        assert_int_equal(zf_zip_count(z), 4);
        check_pattern(z, "a/data/0");
        check_pattern(z, "a/deep");
        assert_true(zf_zip_find(z, "a/empty", &i));
        zf_auto(source) struct zf_source *empty = zf_zip_source(z, i, &err);
        assert_ok(empty != NULL, &err);
        assert_int_equal(empty->size, 0);
        assert_false(zf_zip_find(z, "a/dat", &i));
        assert_false(zf_zip_find(z, "A/DATA.PKL", &i));
        assert_ok(zf_zip_check_overlap(z, &err), &err);
    }
}

static void reads_an_archive_without_members(void **state)
{
    struct zf_err err;
    zf_auto(zip) struct zf_zip *z = open_zip("none.zip", &err);

    (void)state;
    assert_ok(z != NULL, &err);
    assert_int_equal(zf_zip_count(z), 0);
}

/* The archive with a comment of n bytes. */
static struct zf_zip *open_commented(struct zf_source *src, uint16_t n, struct zf_err *err)
{
    uint8_t *p = calloc(1, src->size + n);

    assert_non_null(p);
    assert_ok(zf_source_pread(src, p, src->size, 0, err), err);
    p[src->size - 2] = (uint8_t)n;
    p[src->size - 1] = (uint8_t)(n >> 8);
    zf_auto(source) struct zf_source *mem = zf_mem_new("commented", p, src->size + n, true, err);
    assert_ok(mem != NULL, err);
    return zf_zip_open(mem, &lim, err);
}

/* However much of the end is read at once: where that begins amid the records, too. */
static void reads_comments_of_every_length(void **state)
{
    static const char *const names[] = {"good.zip", "end64.zip", "none.zip"};

    (void)state;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        zf_auto(source) struct zf_source *src = fixture_open(dir, names[k]);

        for (uint32_t n = 0; n <= 65535; n += n < 1200 || n > 65400 ? 1 : 997) {
            struct zf_err err;
            zf_auto(zip) struct zf_zip *z = open_commented(src, (uint16_t)n, &err);

            assert_ok(z != NULL, &err);
            assert_int_equal(zf_zip_count(z), k < 2 ? 4 : 0);
        }
    }
}

static void names_the_place_of_a_member(void **state)
{
    struct zf_err err;
    zf_auto(zip) struct zf_zip *z = open_zip("good.zip", &err);
    uint64_t i, off;

    (void)state;
    assert_ok(z != NULL, &err);
    assert_true(zf_zip_find(z, "a/data.pkl", &i));
    assert_ok(zf_zip_data_off(z, i, &off, &err), &err);
    assert_int_equal(off, 30 + strlen("a/data.pkl"));
}

/* More than libzip gets at once: member "i" is i. */
static void reads_many_members(void **state)
{
    struct zf_err err;
    zf_auto(zip) struct zf_zip *z = open_zip("1500.zip", &err);

    (void)state;
    assert_ok(z != NULL, &err);
    assert_int_equal(zf_zip_count(z), 1500);
    for (unsigned i = 0; i < 1500; i++) {
        char name[16], got[16] = "";
        uint64_t at;

        (void)snprintf(name, sizeof name, "%u", i);
        assert_true(zf_zip_find(z, name, &at));
        assert_int_equal(at, i);
        zf_auto(source) struct zf_source *src = zf_zip_source(z, at, &err);
        assert_ok(src && zf_source_pread(src, got, src->size, 0, &err), &err);
        assert_string_equal(got, name);
    }
    assert_ok(zf_zip_check_overlap(z, &err), &err);
}

/* libzip's table of names has no key: 200,000 that have one hash in it would take it a minute. */
static void names_made_to_collide_cost_nothing(void **state)
{
    struct zf_err err;
    const clock_t begun = clock();
    zf_auto(zip) struct zf_zip *z = open_zip("collide.zip", &err);

    (void)state;
    assert_ok(z != NULL, &err);
    assert_int_equal(zf_zip_count(z), 200000);
    assert_true((clock() - begun) / CLOCKS_PER_SEC < 20);
}

/* An end record and a directory in the comment of an entry, which libzip would try: what counts is what the end record
 * names. */
static void reads_no_directory_within_another(void **state)
{
    struct zf_err err;
    zf_auto(zip) struct zf_zip *z = open_zip("within.zip", &err);
    uint64_t i;

    (void)state;
    assert_ok(z != NULL, &err);
    assert_int_equal(zf_zip_count(z), 4);
    assert_true(zf_zip_find(z, "a/data.pkl", &i));
    assert_int_equal(zf_zip_member(z, i).size, 5);
    check_pattern(z, "a/data/0");
}

/* The first member is known without the entries behind it. */
static void opens_the_first_member_alone(void **state)
{
    zf_auto(source) struct zf_source *src = fixture_open(dir, "1500.zip");
    const uint64_t last = src->size - 22 - 40; /* in the last entry */
    struct zf_err err;
    char got[2] = "";

    (void)state;
    zf_auto(source) struct zf_source *bad = fault_new(src, last - 30000, 30000 - 1000, &err);
    assert_ok(bad != NULL, &err);
    assert_null(zf_zip_open(bad, &lim, &err));
    assert_int_equal(err.code, ZF_E_IO);
    zf_auto(zip) struct zf_zip *z = zf_zip_open_first(bad, &lim, &err);
    assert_ok(z != NULL, &err);
    assert_int_equal(zf_zip_count(z), 1);
    zf_auto(source) struct zf_source *first = zf_zip_source(z, 0, &err);
    assert_ok(first && zf_source_pread(first, got, 1, 0, &err), &err);
    assert_string_equal(got, "0");
    zf_auto(zip) struct zf_zip *none = NULL;
    zf_auto(source) struct zf_source *empty = fixture_open(dir, "none.zip");
    none = zf_zip_open_first(empty, &lim, &err);
    assert_ok(none != NULL, &err);
    assert_int_equal(zf_zip_count(none), 0);
}

static void reads_beyond_4_gib(void **state)
{
    struct zf_err err;
    zf_auto(zip) struct zf_zip *z = open_zip("big.zip", &err);
    uint64_t i;
    char got[6] = "";

    (void)state;
    assert_ok(z != NULL, &err);
    assert_true(zf_zip_find(z, "a/big", &i));
    zf_auto(source) struct zf_source *big = zf_zip_source(z, i, &err);
    assert_ok(big != NULL, &err);
    assert_int_equal(big->size, (5ull << 30) + 3);
    assert_ok(zf_source_pread(big, got, 4, big->size - 4, &err), &err);
    assert_string_equal(got, "tail");
    assert_true(zf_zip_find(z, "a/small", &i));
    zf_auto(source) struct zf_source *small = zf_zip_source(z, i, &err);
    assert_ok(small != NULL, &err);
    assert_ok(zf_source_pread(small, got, 5, 0, &err), &err);
    assert_string_equal(got, "small");
    assert_true(zf_zip_find(z, "a/none", &i));
    zf_auto(source) struct zf_source *none = zf_zip_source(z, i, &err);
    assert_ok(none != NULL, &err);
    assert_ok(zf_zip_check_overlap(z, &err), &err);
}

static void refuses_at_open(void **state)
{
    static const struct {
        const char *name;
        enum zf_code code;
        const char *part;
    } row[] = {
        {"prefix.zip", ZF_E_FORMAT, "bytes put in front"},
        {"two.zip", ZF_E_FORMAT, "archives in one file"},
        {"twins.zip", ZF_E_FORMAT, "archives in one file"},
        {"duplicate.zip", ZF_E_FORMAT, "duplicate member \"a/data.pkl\""},
        {"encrypted.zip", ZF_E_UNSUPPORTED, "encrypted"},
        {"method.zip", ZF_E_UNSUPPORTED, "method 93"},
        {"sizes.zip", ZF_E_FORMAT, "5 and 6"},
        {"huge.zip", ZF_E_FORMAT, "2147483647"},
        {"disks.zip", ZF_E_UNSUPPORTED, "several disks"},
        {"count.zip", ZF_E_FORMAT, "goes on after the last of its 3 members"},
        {"more.zip", ZF_E_FORMAT, "too short for 5 members"},
        {"many.zip", ZF_E_FORMAT, "ends within entry 3 of 4"},
        {"halves.zip", ZF_E_UNSUPPORTED, "several disks"},
        {"disk64.zip", ZF_E_UNSUPPORTED, "several disks"},
        {"disks64.zip", ZF_E_UNSUPPORTED, "several disks"},
        {"of64.zip", ZF_E_UNSUPPORTED, "several disks"},
        {"other64.zip", ZF_E_FORMAT, "has 4 members"},
        {"place64.zip", ZF_E_FORMAT, "and a directory at byte"},
        {"wide.zip", ZF_E_FORMAT, "of the directory"},
        {"short64.zip", ZF_E_FORMAT, "entry 1 of the directory"},
        {"lacks64.zip", ZF_E_FORMAT, "entry 1 of the directory"},
        {"beyond64.zip", ZF_E_FORMAT, "the directory begins at byte"},
        {"farhead.zip", ZF_E_FORMAT, "the directory begins at byte"},
        {"disk.zip", ZF_E_UNSUPPORTED, "on disk 1"},
        {"nul.zip", ZF_E_FORMAT, "has a NUL"},
        {"reach.zip", ZF_E_FORMAT, "reaches beyond the directory"},
        {"text.zip", ZF_E_FORMAT, "190 bytes"},
        {"nested.zip", ZF_E_FORMAT, ""},
    };

    (void)state;
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        struct zf_err err;
        zf_auto(zip) struct zf_zip *z = open_zip(row[k].name, &err);

        if (z || err.code != row[k].code || !strstr(err.msg, row[k].part))
            fail_msg("%s: %s", row[k].name, z ? "was opened" : err.msg);
        assert_non_null(strstr(err.path, row[k].name));
    }
}

/* Lies that only show when a member is located. */
static void refuses_at_the_member(void **state)
{
    static const char *const names[] = {"localname.zip", "localsig.zip", "localmethod.zip",
                                        "length.zip",    "shared.zip",   "outside.zip",
                                        "farhead.zip"};

    (void)state;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        struct zf_err err;
        zf_auto(zip) struct zf_zip *z = open_zip(names[k], &err);
        uint64_t i, off;

        if (!z) {
            assert_int_equal(err.code, ZF_E_FORMAT);
            continue;
        }
        assert_true(zf_zip_find(z, "a/data/0", &i));
        if (zf_zip_data_off(z, i, &off, &err) || err.code != ZF_E_FORMAT)
            fail_msg("%s was believed", names[k]);
    }
}

static void refuses_overlapping_members(void **state)
{
    struct zf_err err;
    zf_auto(zip) struct zf_zip *z = open_zip("overlap.zip", &err);

    (void)state;
    assert_ok(z != NULL, &err);
    assert_false(zf_zip_check_overlap(z, &err));
    assert_err(&err, ZF_E_FORMAT, 33, "overlap");
}

static void keeps_to_its_limits(void **state)
{
    struct zf_err err;
    uint64_t i;

    (void)state;
    lim.zip_entries = 3;
    assert_null(open_zip("good.zip", &err));
    assert_err(&err, ZF_E_LIMIT, ZF_OFF_NONE, "zip_entries=3");
    assert_null(open_zip("suffix.zip", &err));
    assert_int_equal(err.code, ZF_E_LIMIT);
    lim = zf_limits_default();
    lim.zip_directory = 100;
    assert_null(open_zip("good.zip", &err));
    assert_err(&err, ZF_E_LIMIT, ZF_OFF_NONE, "zip_directory=100");
    lim = zf_limits_default();
    lim.inflate_bytes = 4999;
    zf_auto(zip) struct zf_zip *z = open_zip("good.zip", &err);
    assert_ok(z != NULL, &err);
    assert_true(zf_zip_find(z, "a/deep", &i));
    assert_null(zf_zip_source(z, i, &err));
    assert_int_equal(err.code, ZF_E_LIMIT);
    lim = zf_limits_default();
}

static void refuses_every_truncation(void **state)
{
    zf_auto(source) struct zf_source *src = fixture_open(dir, "good.zip");

    (void)state;
    for (uint64_t n = 0; n < src->size; n++) {
        struct zf_err err;
        zf_auto(source) struct zf_source *cut = fixture_cut(src, n);
        zf_auto(zip) struct zf_zip *z = zf_zip_open(cut, &lim, &err);

        assert_null(z);
        assert_int_equal(err.code, ZF_E_FORMAT);
    }
}

/* Every byte in turn is turned over: any answer will do, but an answer. */
static void survives_every_flip(void **state)
{
    zf_auto(source) struct zf_source *src = fixture_open(dir, "good.zip");
    uint8_t *p = malloc(src->size);
    struct zf_err err;

    (void)state;
    assert_non_null(p);
    assert_ok(zf_source_pread(src, p, src->size, 0, &err), &err);
    for (uint64_t at = 0; at < src->size; at++) {
        if (at == 200)
            at = 5100; /* the middle is data */
        p[at] ^= 0xff;
        zf_auto(source) struct zf_source *mem = zf_mem_new("flipped", p, src->size, false, &err);
        assert_ok(mem != NULL, &err);
        zf_auto(zip) struct zf_zip *z = zf_zip_open(mem, &lim, &err);
        for (uint64_t i = 0; z && i < zf_zip_count(z); i++) {
            zf_auto(source) struct zf_source *member = zf_zip_source(z, i, &err);

            assert_true(member || err.msg[0]);
        }
        p[at] ^= 0xff;
    }
    free(p);
}

static void passes_on_failing_reads(void **state)
{
    zf_auto(source) struct zf_source *src = fixture_open(dir, "good.zip");

    (void)state;
    for (uint64_t off = 0; off < src->size; off++) {
        struct zf_err err;
        zf_auto(source) struct zf_source *bad = fault_new(src, off, 1, &err);

        assert_ok(bad != NULL, &err);
        zf_auto(zip) struct zf_zip *z = zf_zip_open(bad, &lim, &err);
        bool ok = z != NULL;
        for (uint64_t i = 0; ok && i < zf_zip_count(z); i++) {
            uint64_t at;

            ok = zf_zip_data_off(z, i, &at, &err);
        }
        if (!ok)
            assert_int_equal(err.code, ZF_E_IO);
    }
}

/* Sizes that follow the data are looked at: that they cannot be read is no answer. */
static void passes_on_sizes_that_cannot_be_read(void **state)
{
    zf_auto(source) struct zf_source *src = fixture_open(dir, "described.zip");
    zf_auto(zip) struct zf_zip *whole = NULL;
    struct zf_err err;
    uint64_t at;

    (void)state;
    whole = zf_zip_open(src, &lim, &err);
    assert_ok(whole && zf_zip_check_overlap(whole, &err), &err);
    for (uint64_t i = 0; i < zf_zip_count(whole); i++) {
        assert_ok(zf_zip_data_off(whole, i, &at, &err), &err);
        at += zf_zip_member(whole, i).size;
        zf_auto(source) struct zf_source *bad = fault_new(src, at, 1, &err);
        assert_ok(bad, &err);
        zf_auto(zip) struct zf_zip *z = zf_zip_open(bad, &lim, &err);
        assert_false(z && zf_zip_check_overlap(z, &err));
        assert_int_equal(err.code, ZF_E_IO);
    }
}

/* ---- far away, where a member is found when it is read ---------------------------------------- */

static struct zf_zip *open_far(struct zf_source *src, struct zf_err *err)
{
    zf_auto(source) struct zf_source *far = far_new(src, err);

    return far ? zf_zip_open(far, &lim, err) : NULL;
}

static void reads_archives_far_away(void **state)
{
    static const char *const names[] = {"good.zip", "comment.zip", "zip64.zip", "suffix.zip"};

    (void)state;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        struct zf_err err;
        zf_auto(source) struct zf_source *src = fixture_open(dir, names[k]);
        zf_auto(zip) struct zf_zip *z = open_far(src, &err);

        assert_ok(z != NULL, &err);
        check_pattern(z, "a/data/0");
        check_pattern(z, "a/deep");
        check_pattern(z, "a/data/0");
        assert_ok(zf_zip_check_overlap(z, &err), &err);
    }
    struct zf_err err;
    uint64_t i, at = 1;
    char got[6] = "";
    zf_auto(source) struct zf_source *src = fixture_open(dir, "big.zip");
    zf_auto(zip) struct zf_zip *z = open_far(src, &err);
    assert_ok(z != NULL, &err);
    assert_true(zf_zip_find(z, "a/small", &i));
    zf_auto(source) struct zf_source *small = zf_zip_source(z, i, &err);
    assert_ok(small != NULL, &err);
    assert_ok(zf_source_pread(small, got, 5, 0, &err), &err);
    assert_string_equal(got, "small");
    /* Rows of a box go each to its place. */
    char first[3] = "", rest[3] = "";
    const struct iovec iov[] = {{first, 2}, {rest, 2}};
    assert_ok(zf_source_preadv(small, iov, 2, 1, &err), &err);
    assert_string_equal(first, "ma");
    assert_string_equal(rest, "ll");
    /* Its place is that of the file, which its name is a part of. */
    assert_ptr_equal(zf_source_origin(small, &at)->ops, &far_ops);
    assert_int_equal(at, (5ull << 30) + 3 + 30 + strlen("a/big") + 24 + 30 + strlen("a/small") + 1);
    assert_non_null(strstr(small->name, "big.zip!a/small"));
}

/* The header of a member costs a request: nobody asks for it but who reads the member. */
static void asks_for_a_header_when_its_member_is_read(void **state)
{
    zf_auto(source) struct zf_source *src = fixture_open(dir, "big.zip");
    struct zf_err err;
    uint64_t i;
    char got[5];

    (void)state;
    zf_auto(source) struct zf_source *bad = fault_new(src, 0, 30, &err);
    assert_ok(bad != NULL, &err);
    zf_auto(zip) struct zf_zip *z = open_far(bad, &err);
    assert_ok(z != NULL, &err);
    assert_ok(zf_zip_check_overlap(z, &err), &err);
    assert_true(zf_zip_find(z, "a/small", &i));
    zf_auto(source) struct zf_source *small = zf_zip_source(z, i, &err);
    assert_ok(small != NULL, &err);
    assert_ok(zf_source_pread(small, got, sizeof got, 0, &err), &err);
    assert_memory_equal(got, "small", 5);
    assert_true(zf_zip_find(z, "a/big", &i));
    zf_auto(source) struct zf_source *big = zf_zip_source(z, i, &err);
    assert_ok(big != NULL, &err);
    zf_source_want(big, 0, big->size, ZF_PREFETCH_ALL); /* which nobody hears of */
    assert_false(zf_source_pread(big, got, sizeof got, big->size - 5, &err));
    assert_int_equal(err.code, ZF_E_IO);
}

/* All that is wrong with an archive that is near is wrong with it far away: at once, or when the member is read. */
static void refuses_far_away_what_it_refuses(void **state)
{
    static const char *const names[] = {
        "prefix.zip", "two.zip",    "twins.zip",     "duplicate.zip", "encrypted.zip",
        "method.zip", "sizes.zip",  "huge.zip",      "disks.zip",     "count.zip",
        "text.zip",   "nested.zip", "localname.zip", "localsig.zip",  "localmethod.zip",
        "length.zip", "shared.zip", "outside.zip",   "farhead.zip",   "overlap.zip",
        "extra.zip"};

    (void)state;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        struct zf_err err;
        zf_auto(source) struct zf_source *src = fixture_open(dir, names[k]);
        zf_auto(zip) struct zf_zip *z = open_far(src, &err);
        bool refused = z == NULL;

        for (uint64_t i = 0; z && i < zf_zip_count(z); i++) {
            zf_auto(source) struct zf_source *m = zf_zip_source(z, i, &err);
            char byte;

            refused = refused || !m || (m->size && !zf_source_pread(m, &byte, 1, 0, &err));
        }
        if (!refused || (err.code != ZF_E_FORMAT && err.code != ZF_E_UNSUPPORTED))
            fail_msg("%s was believed, or %s", names[k], err.msg);
        assert_non_null(strstr(err.path, names[k]));
    }
}

static void refuses_a_member_that_reaches_into_the_next(void **state)
{
    zf_auto(source) struct zf_source *src = fixture_open(dir, "extra.zip");
    struct zf_err err;
    char got[4];

    (void)state;
    zf_auto(zip) struct zf_zip *near = zf_zip_open(src, &lim, &err);
    assert_ok(near != NULL, &err);
    assert_false(zf_zip_check_overlap(near, &err));
    assert_non_null(strstr(err.msg, "overlap"));
    zf_auto(zip) struct zf_zip *z = open_far(src, &err);
    assert_ok(z != NULL, &err);
    zf_auto(source) struct zf_source *first = zf_zip_source(z, 0, &err);
    zf_auto(source) struct zf_source *second = zf_zip_source(z, 1, &err);
    assert_true(first && second);
    assert_false(zf_source_pread(first, got, 1, 0, &err));
    assert_err(&err, ZF_E_FORMAT, 49, "reaches beyond byte 41");
    assert_ok(zf_source_pread(second, got, sizeof got, 0, &err), &err);
    assert_memory_equal(got, "DATA", 4);
}

/* A member of z: its bytes in got[5000], false where it is refused. */
static bool read_member(struct zf_zip *z, uint64_t i, uint8_t *got)
{
    struct zf_err err;
    zf_auto(source) struct zf_source *m = zf_zip_source(z, i, &err);

    memset(got, 0, 5000);
    return m && m->size <= 5000 && zf_source_pread(m, got, m->size, 0, &err);
}

/* Every byte in turn is turned over: what is read far away is what is read near, and what is whole near is so far away. */
static void sees_far_away_what_it_sees_near(void **state)
{
    zf_auto(source) struct zf_source *src = fixture_open(dir, "good.zip");
    uint8_t *p = malloc(src->size), near_got[5000], far_got[5000];
    struct zf_err err;

    (void)state;
    assert_non_null(p);
    assert_ok(zf_source_pread(src, p, src->size, 0, &err), &err);
    for (uint64_t at = 0; at < src->size; at++) {
        at = at == 200 ? 5000 : at; /* the middle is data */
        p[at] ^= 0xff;
        zf_auto(source) struct zf_source *mem = zf_mem_new("flipped", p, src->size, false, &err);
        zf_auto(zip) struct zf_zip *near = zf_zip_open(mem, &lim, &err);
        zf_auto(zip) struct zf_zip *far = open_far(mem, &err);
        bool whole = near && zf_zip_check_overlap(near, &err);

        assert_true(!far || near);
        for (uint64_t i = 0; near && i < zf_zip_count(near); i++) {
            bool ok = read_member(near, i, near_got);

            if (far && read_member(far, i, far_got)) {
                assert_true(ok);
                assert_memory_equal(near_got, far_got, sizeof near_got);
            } else {
                assert_false(ok && whole);
            }
        }
        p[at] ^= 0xff;
    }
    free(p);
}

static struct zf_source *remake(const struct zf_recipe *r, struct zf_source *parent, uint64_t end,
                                struct zf_err *err)
{
    struct zf_remake again = {.parent = parent,
                              .n = {r->n[0], r->n[1], end},
                              .bytes = zf_bytes_of(r->bytes.p, r->bytes.n)};

    return r->kind->make(&again, err);
}

static void is_made_again_by_its_recipe(void **state)
{
    zf_auto(source) struct zf_source *src = fixture_open(dir, "good.zip");
    struct zf_err err;
    struct zf_recipe r = {0};
    uint8_t got[5000];

    (void)state;
    zf_auto(zip) struct zf_zip *z = open_far(src, &err);
    assert_ok(z != NULL, &err);
    zf_auto(source) struct zf_source *m = zf_zip_source(z, 1, &err);
    assert_ok(m != NULL, &err);
    assert_true(m->ops->recipe(m, &r));
    zf_auto(source) struct zf_source *again = remake(&r, src, r.n[2], &err);
    assert_ok(again != NULL, &err);
    assert_ok(zf_source_pread(again, got, sizeof got, 0, &err), &err);
    assert_int_equal(got[4999], 4999 * 7 % 251);
    assert_null(remake(&r, src, src->size + 1, &err));
    assert_int_equal(err.code, ZF_E_FORMAT);
    assert_null(remake(&r, src, r.n[0] + 5000, &err));
    assert_null(remake(&r, NULL, r.n[2], &err));
    zf_auto_out(&r.bytes);
}

static int setup(void **state)
{
    (void)state;
    lim = zf_limits_default();
    fixture_make("zips.py", dir);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fixture_drop(dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_whole_archives),
        cmocka_unit_test(reads_an_archive_without_members),
        cmocka_unit_test(reads_comments_of_every_length),
        cmocka_unit_test(names_the_place_of_a_member),
        cmocka_unit_test(reads_many_members),
        cmocka_unit_test(names_made_to_collide_cost_nothing),
        cmocka_unit_test(reads_no_directory_within_another),
        cmocka_unit_test(opens_the_first_member_alone),
        cmocka_unit_test(reads_beyond_4_gib),
        cmocka_unit_test(refuses_at_open),
        cmocka_unit_test(refuses_at_the_member),
        cmocka_unit_test(refuses_overlapping_members),
        cmocka_unit_test(keeps_to_its_limits),
        cmocka_unit_test(refuses_every_truncation),
        cmocka_unit_test(survives_every_flip),
        cmocka_unit_test(passes_on_failing_reads),
        cmocka_unit_test(passes_on_sizes_that_cannot_be_read),
        cmocka_unit_test(reads_archives_far_away),
        cmocka_unit_test(asks_for_a_header_when_its_member_is_read),
        cmocka_unit_test(refuses_far_away_what_it_refuses),
        cmocka_unit_test(refuses_a_member_that_reaches_into_the_next),
        cmocka_unit_test(sees_far_away_what_it_sees_near),
        cmocka_unit_test(is_made_again_by_its_recipe),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
