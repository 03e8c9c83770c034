/* SPDX-License-Identifier: Apache-2.0 */
/* Names with indices: model.layers.{i}.weight. */
#include "plan.h"

#include <stdio.h>
#include <string.h>

/* The index in the braces at p[n], and the number added to it; NULL: not an index. */
static const struct loop *names_braces(const struct loops *l, const char *p, size_t n, int *plus)
{
    const size_t word = strcspn(p, "+-}");

    *plus = 0;
    if (word < n && sscanf(p + word, "%4d", plus) != 1)
        return NULL;
    for (uint32_t i = 0; i < l->n; i++)
        if (strlen(l->at[i].name) == word && memcmp(l->at[i].name, p, word) == 0)
            return &l->at[i];
    return NULL;
}

bool names_loops(const struct loops *l, const char *name, size_t n, uint32_t *bits_out,
                 struct zf_err *err)
{
    *bits_out = 0;
    for (size_t i = 0; i < n; i++) {
        const char *end = name[i] == '{' ? memchr(name + i, '}', n - i) : name;
        int plus;

        if (name[i] != '{')
            continue;
        const size_t len = end ? (size_t)(end - (name + i + 1)) : 0;
        const struct loop *at = end ? names_braces(l, name + i + 1, len, &plus) : NULL;
        if (!at) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "%.*s is not named by an \"index\" line",
                           (int)(end ? len + 2 : 1), name + i);
        }
        *bits_out |= at->one ? 0 : 1u << (at - l->at);
    }
    return true;
}

bool names_fill(const struct loops *l, const char *name, size_t n, struct zf_out *out)
{
    for (size_t i = 0; i < n;) {
        const char *end = name[i] == '{' ? memchr(name + i, '}', n - i) : NULL;
        int plus;

        if (!end) {
            zf_out_add(out, name + i++, 1);
            continue;
        }
        const size_t len = (size_t)(end - (name + i + 1));
        const struct loop *at = names_braces(l, name + i + 1, len, &plus);
        if (!at || !at->open || (plus < 0 && at->value < (uint64_t)-plus))
            return false;
        zf_out_dec(out, at->value + (uint64_t)(int64_t)plus);
        i += len + 2;
    }
    return true;
}
