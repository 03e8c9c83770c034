/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks that are kept, of a parent that counts what is read of it: right bytes by every way, and nobody who reads in
 * several places at once, or here and there, has everything read again and again. */
#include "support/unit.h"

#include <stdlib.h>

#include <time.h>

#include <zf/source/want.h>

#define SIZE (8u << 20)
#define SPAN (256u << 10)
#define READ (8u << 10)

struct counting {
    struct zf_source src;
    uint64_t calls, bytes;
};

static unsigned char counting_byte(uint64_t at)
{
    return (unsigned char)(at * 131 + (at >> 8) * 7 + (at >> 16));
}

static bool counting_pread(struct zf_source *s, void *buf, size_t n, uint64_t off,
                           struct zf_err *err)
{
    struct counting *c = (struct counting *)s;

    (void)err;
    c->calls++;
    c->bytes += n;
    for (size_t i = 0; i < n; i++)
        ((unsigned char *)buf)[i] = counting_byte(off + i);
    return true;
}

static void counting_fini(struct zf_source *s)
{
    zf_source_fini(s);
    free(s);
}

static const struct zf_source_ops counting_ops = {
    .kind = "counting", .pread = counting_pread, .fini = counting_fini};

static struct zf_source *kept(struct counting **parent_out)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_err err;
    struct counting *c = calloc(1, sizeof *c);

    lim.cache_bytes = 2 * SPAN;
    assert_non_null(c);
    assert_true(zf_source_init(&c->src, &counting_ops, "f", SIZE, &err));
    *parent_out = c;
    struct zf_source *s = zf_kept_new(&c->src, SPAN, &lim, &err), *parent = &c->src;
    assert_non_null(s);
    zf_source_unref(&parent);
    return s;
}

static void look(struct zf_source *s, uint64_t off)
{
    static unsigned char buf[READ];
    struct zf_err err;

    assert_true(zf_source_pread(s, buf, READ, off, &err));
    for (size_t i = 0; i < READ; i++)
        if (buf[i] != counting_byte(off + i))
            fail_msg("byte %zu of a read at %llu", i, (unsigned long long)off);
}

static void look_in_turn(struct zf_source *s, uint64_t places)
{
    for (uint64_t into = 0; into < SIZE / places; into += READ)
        for (uint64_t i = 0; i < places; i++)
            look(s, i * (SIZE / places) + into);
}

static void one_reader(void **state)
{
    struct counting *c;
    zf_auto(source) struct zf_source *s = kept(&c);

    (void)state;
    look_in_turn(s, 1);
    look_in_turn(s, 1);
    assert_int_equal(c->bytes, 2 * SIZE);
    assert_int_equal(c->calls, 2 * SIZE / SPAN);
}

static void several_in_turn(void **state)
{
    (void)state;
    for (uint64_t places = 2; places <= 8; places *= 2) {
        struct counting *c;
        zf_auto(source) struct zf_source *s = kept(&c);

        look_in_turn(s, places);
        /* Blocks that stay large would be read again for each of 32 reads. */
        assert_in_range(c->bytes, SIZE, 2 * SIZE);
    }
}

static void here_and_there_and_then_through(void **state)
{
    struct counting *c;
    zf_auto(source) struct zf_source *s = kept(&c);

    (void)state;
    for (uint64_t i = 0; i < 100; i++)
        look(s, i * 37 % 64 * (SIZE / 64) + SPAN / 8);
    assert_in_range(c->bytes, 0, 100 * SPAN / 4 + 8 * SPAN);
    look_in_turn(s, 1);
    c->calls = c->bytes = 0;
    look_in_turn(s, 1);
    assert_int_equal(c->bytes, SIZE);
    assert_int_equal(c->calls, SIZE / SPAN);
}

/* Announces bytes [off, off + n), and waits until the other thread has done what it does about them. */
static void announce(struct zf_source *s, uint64_t off, uint64_t n)
{
    const unsigned refs = atomic_load(&s->refs);

    zf_source_want(s, off, n, ZF_PREFETCH_COMPUTED);
    while (atomic_load(&s->refs) > refs)
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* A block that was announced costs its reader nothing, and never takes the place of one that is being read. */
static void announced_blocks(void **state)
{
    struct counting *c;
    zf_auto(source) struct zf_source *s = kept(&c);

    (void)state;
    look(s, 0);
    assert_int_equal(c->bytes, SPAN);
    announce(s, READ, 2 * SPAN - READ);
    assert_int_equal(c->bytes, 2 * SPAN);
    announce(s, 2 * SPAN, SPAN); /* the cache holds two blocks, both unread */
    assert_int_equal(c->bytes, 2 * SPAN);
    for (uint64_t off = READ; off < SPAN; off += READ)
        look(s, off);
    announce(s, 2 * SPAN, SPAN);
    assert_int_equal(c->bytes, 3 * SPAN);
    for (uint64_t off = SPAN; off < 3 * SPAN; off += READ)
        look(s, off);
    assert_int_equal(c->bytes, 3 * SPAN);
    zf_source_want(s, 4 * SPAN, SPAN, ZF_PREFETCH_NOW); /* the next read loads it itself */
    assert_int_equal(c->bytes, 3 * SPAN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_reader),
        cmocka_unit_test(several_in_turn),
        cmocka_unit_test(here_and_there_and_then_through),
        cmocka_unit_test(announced_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
