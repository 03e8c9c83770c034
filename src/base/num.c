/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/base/num.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool zf_num_size(const char *text, uint64_t *out)
{
    static const char units[] = "kMGT";
    char *end;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    uint64_t v = strtoull(text, &end, 10);
    if (errno != 0)
        return false;
    if (*end) {
        const char *u = strchr(units, *end == 'K' ? 'k' : *end);

        if (!u || !zf_mul(v, 1024ull << (10 * (u - units)), &v))
            return false;
        end++;
        end += *end == 'i';
        end += *end == 'B';
    }
    if (*end)
        return false;
    *out = v;
    return true;
}

unsigned zf_num_digits(char *out, uint64_t v)
{
    unsigned n = 1;

    for (uint64_t rest = v / 10; rest; rest /= 10)
        n++;
    for (unsigned i = n; i-- > 0; v /= 10)
        out[i] = (char)('0' + v % 10);
    return n;
}
