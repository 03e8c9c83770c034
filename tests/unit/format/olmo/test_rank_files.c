/* SPDX-License-Identifier: Apache-2.0 */
/* Which names are those of a rank's file. */
#include "support/unit.h"

#include "src/format/olmo/rank_files.h"

static void numbers_as_olmo_writes_them(void **state)
{
    static const struct {
        const char *name;
        int rank; /* -1: it is none */
    } row[] = {
        {"rank0.pt", 0},         {"rank1.pt", 1},     {"rank7.pt", 7},
        {"rank10.pt", 10},       {"rank100.pt", 100}, {"rank1234567.pt", 1234567},
        {"rank12345678.pt", -1}, {"rank01.pt", -1},   {"rank00.pt", -1},
        {"rank001.pt", -1},      {"rank.pt", -1},     {"rank-1.pt", -1},
        {"rank1.ptx", -1},       {"rank1", -1},       {"rank1.pt.tmp", -1},
        {"rank1x.pt", -1},       {"ranks1.pt", -1},   {"1.pt", -1},
        {"rank01.ptx", -1},      {"rank 1.pt", -1},   {"rank123456789012.pt", -1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        uint32_t rank = 0;
        bool ok = rank_files_parse(row[i].name, "rank", ".pt", &rank);

        if (ok != (row[i].rank >= 0) || (ok && rank != (uint32_t)row[i].rank)) {
            fail_msg("%s: %s, rank %u", row[i].name, ok ? "taken" : "left", rank);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_as_olmo_writes_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
