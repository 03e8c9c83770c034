/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include <zf/base/bytes.h>
#include <zf/base/num.h>
#include <zf/base/out.h>

/* What is written comes back, and every truncation is noticed once and for good. */
static void sticks_at_the_first_short_read(void **state)
{
    zf_auto(out) struct zf_out o = {0};
    struct zf_err err;

    (void)state;
    zf_out_u8(&o, 7);
    zf_out_le16(&o, 0x1234);
    zf_out_le32(&o, 0x89abcdef);
    zf_out_le64(&o, 0x0123456789abcdef);
    zf_out_str(&o, "line\n");
    assert_ok(zf_out_ok(&o, &err), &err);
    assert_int_equal(o.n, 20);
    assert_memory_equal(o.p, "\x07\x34\x12\xef\xcd\xab\x89", 7);
    for (size_t cut = 0; cut <= o.n; cut++) {
        struct zf_bytes b = zf_bytes_of(o.p, cut);
        uint64_t len;

        b.base = 1000;
        bool same = zf_bytes_u8(&b) == 7;
        same = zf_bytes_le16(&b) == 0x1234 && same;
        same = zf_bytes_le32(&b) == 0x89abcdef && same;
        same = zf_bytes_le64(&b) == 0x0123456789abcdef && same;
        const char *line = zf_bytes_line(&b, &len);
        assert_int_equal(same && line && len == 4, cut == o.n);
        assert_int_equal(b.bad, cut < o.n);
        if (cut < o.n) {
            assert_true(zf_bytes_off(&b) <= 1000 + cut);
            assert_null(zf_bytes_take(&b, 0));
        }
    }
}

static void never_wraps(void **state)
{
    const uint64_t big[] = {UINT64_MAX, 2};
    const uint64_t zero[] = {UINT64_MAX, UINT64_MAX, 0};
    uint64_t out = 5, stride[3];

    (void)state;
    assert_false(zf_add(UINT64_MAX, 1, &out));
    assert_false(zf_mul(UINT64_MAX / 2 + 1, 2, &out));
    assert_false(zf_mul_add(UINT64_MAX, 1, 1, &out));
    assert_false(zf_elems(2, big, &out));
    assert_true(zf_elems(3, zero, &out));
    assert_int_equal(out, 0);
    assert_true(zf_elems(0, NULL, &out));
    assert_int_equal(out, 1);
    assert_false(zf_within(1, UINT64_MAX, 10));
    assert_false(zf_within(11, 0, 10));
    assert_true(zf_within(10, 0, 10));
    zf_packed_strides(3, (const uint64_t[]){4, 0, 3}, stride);
    assert_int_equal(stride[0], 3);
    assert_int_equal(stride[2], 1);
}

/* What is written is a text all the time, can be taken back, and is given up once and for good. */
static void writes_texts(void **state)
{
    zf_auto(out) struct zf_out o = {0};
    struct zf_err err;

    (void)state;
    assert_string_equal(zf_out_text(&o), "");
    zf_out_cut(&o, 0);
    zf_out_add(&o, "", 0);
    assert_null(o.p);
    for (size_t i = 0; i < 1000; i++) {
        zf_out_str(&o, "ab");
        zf_out_fill(&o, '-', 1);
        assert_int_equal(strlen(zf_out_text(&o)), 3 * (i + 1));
        assert_true(o.n == 3 * (i + 1) && o.n <= o.cap);
    }
    zf_out_cut(&o, 5000);
    assert_int_equal(o.n, 3000);
    zf_out_cut(&o, 4);
    assert_string_equal(zf_out_text(&o), "ab-a");
    zf_out_dec(&o, UINT64_MAX);
    assert_string_equal(zf_out_text(&o), "ab-a18446744073709551615");
    assert_ok(zf_out_ok(&o, &err), &err);

    static const size_t much[] = {SIZE_MAX, SIZE_MAX - 1, SIZE_MAX / 2 + 1};
    for (size_t i = 0; i < sizeof much / sizeof much[0]; i++) {
        zf_auto(out) struct zf_out lost = {0};

        zf_out_str(&lost, "ab");
        zf_out_fill(&lost, '-', much[i]);
        zf_out_cut(&lost, 1);
        zf_out_fill(&lost, '-', 1000);
        assert_false(zf_out_ok(&lost, &err));
        assert_err(&err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
        assert_string_equal(zf_out_text(&lost), "a");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sticks_at_the_first_short_read),
        cmocka_unit_test(never_wraps),
        cmocka_unit_test(writes_texts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
