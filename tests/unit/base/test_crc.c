/* SPDX-License-Identifier: Apache-2.0 */
/* CRC-32, whichever library makes it, beside sums that are published: of "123456789" (the check value of CRC-32/ISO-HDLC), and
 * those that Python's zlib.crc32 gives for runs of bytes. */
#include "support/unit.h"

#include <zf/base/crc.h>

static void published_sums(void **state)
{
    (void)state;
    assert_int_equal(zf_crc32(0, "123456789", 9), 0xcbf43926u);
    assert_int_equal(zf_crc32(0, "", 0), 0);
    assert_int_equal(zf_crc32(0, "The quick brown fox jumps over the lazy dog", 43), 0x414fa339u);
}

/* Bytes i * i modulo 251, cut anywhere, from any address. */
static void sums_of_parts(void **state)
{
    static uint8_t p[70001];
    const uint32_t want = 0x31782621u;

    (void)state;
    for (size_t i = 0; i < sizeof p; i++)
        p[i] = (uint8_t)(i * i % 251);
    assert_int_equal(zf_crc32(0, p, sizeof p), want);
    for (size_t cut = 0; cut < sizeof p; cut += cut < 300 ? 1 : 997)
        assert_int_equal(zf_crc32(zf_crc32(0, p, cut), p + cut, sizeof p - cut), want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(published_sums),
                                       cmocka_unit_test(sums_of_parts)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
