/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/base/num.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool zf_num_size(const char *text, uint64_t *out)
{
    static const char units[] = "kMGT";
    char *end;

    if (*text < '0' || *text > '9') {
        return false;
    }
    errno = 0;
    uint64_t v = strtoull(text, &end, 10);
    if (errno != 0) {
        return false;
    }
    if (*end) {
        const char *u = strchr(units, *end == 'K' ? 'k' : *end);

        if (!u || !zf_mul(v, 1024ull << (10 * (u - units)), &v)) {
            return false;
        }
        end++;
        end += *end == 'i';
        end += *end == 'B';
    }
    if (*end) {
        return false;
    }
    *out = v;
    return true;
}
