/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/base/text.h>

#include <string.h>

#include <zf/base/num.h>

bool zf_text_add(struct zf_text *t, const char *p, size_t n, struct zf_err *err)
{
    uint64_t need;

    if (!zf_add(t->n, n, &need) || !zf_add(need, 1, &need) || need > SIZE_MAX / 2) {
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "a text of %zu bytes is too long", n);
    }
    if (need > t->cap) {
        size_t cap = (size_t)need + (size_t)need / 2 + 32;
        char *more = realloc(t->p, cap);

        if (!more) {
            return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for a text of %zu bytes",
                           n);
        }
        t->p = more;
        t->cap = cap;
    }
    if (n) {
        memcpy(t->p + t->n, p, n);
    }
    t->n += n;
    t->p[t->n] = '\0';
    return true;
}
