/* SPDX-License-Identifier: Apache-2.0 */
#include "iteration.h"

#include <stdlib.h>
#include <string.h>

#include <zf/assemble/degraded.h>

/* Source: megatron/training/checkpointing.py, get_checkpoint_name (0.4 … 0.19): seven digits, or more. */
bool mg_iteration_of(const char *name, uint64_t *out)
{
    size_t n = strncmp(name, "iter_", 5) == 0 ? strspn(name + 5, "0123456789") : 0;

    if (n < 7 || n > 18 || name[5 + n]) {
        return false;
    }
    *out = strtoull(name + 5, NULL, 10);
    return true;
}

bool mg_iteration_check(struct zf_store *st, uint64_t iteration, struct zf_build *b,
                        struct zf_err *err)
{
    const char *base = zf_store_base(st);
    uint64_t of;

    if (mg_iteration_of(base, &of) && of != iteration) {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                "the iteration is %llu, but the folder is called %.40s: are two saves mixed here?",
                (unsigned long long)iteration, base);
        if (!zf_forgive(b, err)) {
            return false;
        }
    }
    if (iteration <= INT64_MAX) {
        zf_build_step(b, (int64_t)iteration);
    }
    return true;
}
