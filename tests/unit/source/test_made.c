/* SPDX-License-Identifier: Apache-2.0 */
/* Sources whose bytes are made: what is asked of their parent when some of them will be wanted, and what is said of where
 * they come from. */
#include "support/unit.h"

#include <stdlib.h>

#include <zf/source/decoded.h>
#include <zf/source/want.h>

/* Zeros, of which somebody wants some. */
struct told {
    struct zf_source src;
    uint64_t off, n;
    enum zf_prefetch how;
    unsigned wants;
};

static bool told_pread(struct zf_source *s, void *buf, size_t n, uint64_t off, struct zf_err *err)
{
    (void)s, (void)off, (void)err;
    memset(buf, 0, n);
    return true;
}

static void told_want(struct zf_source *s, uint64_t off, uint64_t n, enum zf_prefetch how)
{
    struct told *t = (struct told *)s;

    t->wants++;
    t->off = off;
    t->n = n;
    t->how = how;
}

static void told_fini(struct zf_source *s)
{
    zf_source_fini(s);
    free(s);
}

static const struct zf_source_ops told_ops = {
    .kind = "told", .pread = told_pread, .want = told_want, .fini = told_fini};

static struct zf_limits lim;
static struct zf_err err;

static struct told *told_new(uint64_t size)
{
    struct told *t = calloc(1, sizeof *t);

    lim = zf_limits_default();
    assert_non_null(t);
    assert_ok(zf_source_init(&t->src, &told_ops, "f", size, &err), &err);
    return t;
}

static bool any_check(const void *head, size_t n_head, uint64_t have, uint64_t size,
                      struct zf_err *why)
{
    (void)head, (void)n_head, (void)have, (void)size, (void)why;
    return true;
}

static bool ones(const void *in, size_t have, void *out, size_t size, struct zf_err *why)
{
    (void)in, (void)have, (void)why;
    memset(out, 1, size);
    return true;
}

static void in_one_piece(void **state)
{
    static const struct zf_decoder how = {"ones", any_check, ones};
    struct told *t = told_new(100);
    zf_auto(source) struct zf_source *parent = &t->src;
    zf_auto(source) struct zf_source *s = zf_decoded_new(parent, 1000, &how, &lim, &err);
    unsigned char byte = 0;

    (void)state;
    assert_ok(s, &err);
    zf_source_want(s, 700, 5, ZF_PREFETCH_KERNEL); /* any of it takes all of it */
    assert_int_equal(t->wants, 1);
    assert_int_equal(t->how, ZF_PREFETCH_KERNEL);
    assert_int_equal(t->off, 0);
    assert_int_equal(t->n, 100);
    const struct zf_trace at = zf_source_trace(s, 700, 5);
    assert_ptr_equal(at.src, parent);
    assert_string_equal(at.codec, "ones");
    assert_int_equal(at.off, 0);
    assert_int_equal(at.packed, 100);
    assert_int_equal(at.skip, 700);
    assert_int_equal(at.len, 5);
    assert_ok(zf_source_pread(s, &byte, 1, 999, &err), &err);
    assert_int_equal(byte, 1);
}

/* Where in the stream the bytes are is known about. */
static void in_a_stream(void **state)
{
    struct told *t = told_new(1000);
    zf_auto(source) struct zf_source *parent = &t->src;
    zf_auto(source) struct zf_source *s = zf_inflate_new(parent, 4000, 0, &lim, &err);

    (void)state;
    assert_ok(s, &err);
    zf_source_want(s, 2000, 400, ZF_PREFETCH_KERNEL);
    assert_int_equal(t->wants, 1);
    assert_int_equal(t->how, ZF_PREFETCH_KERNEL);
    assert_int_equal(t->off, 500);
    assert_int_equal(t->n, 101);
}

static void kept_as_they_are(void **state)
{
    struct told *t = told_new(1000);
    zf_auto(source) struct zf_source *parent = &t->src;
    zf_auto(source) struct zf_source *s = zf_kept_new(parent, 64, &lim, &err);
    uint64_t off = 321;

    (void)state;
    assert_ok(s, &err);
    assert_ptr_equal(zf_source_origin(s, &off), parent);
    assert_int_equal(off, 321);
    assert_int_equal(t->wants, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_one_piece),
        cmocka_unit_test(in_a_stream),
        cmocka_unit_test(kept_as_they_are),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
