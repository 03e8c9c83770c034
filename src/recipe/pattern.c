/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns of einops (0.8, einops/parsing.py, rearrange), without ellipsis, and with no anonymous axis except 1. */
#include "parse.h"

#include <ctype.h>
#include <string.h>

static bool pattern_fail(struct zf_err *err, const struct pattern *p, const char *why)
{
    return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "\"%.80s\": %s", p->text, why);
}

/* The number of the name s[n]; a name on the left side is added. */
static bool pattern_name(struct pattern *p, bool left, const char *s, size_t n, uint32_t *out,
                         struct zf_arena *a, struct zf_err *err)
{
    for (*out = 0; *out < p->n_names; ++*out)
        if (strlen(p->name[*out]) == n && memcmp(p->name[*out], s, n) == 0)
            return true;
    if (!left)
        return pattern_fail(err, p, "an axis occurs only on the right");
    if (p->n_names == MAX_NAMES)
        return pattern_fail(err, p, "more than 16 axes");
    p->name[p->n_names] = zf_arena_str(a, s, n, err);
    return p->name[p->n_names++] != NULL;
}

static bool pattern_add(struct pattern *p, struct pattern_side *side, const char *s, size_t n,
                        struct zf_arena *a, struct zf_err *err)
{
    const uint32_t before = p->n_names;
    const bool left = side == &p->left;
    uint32_t name;

    if (!pattern_name(p, left, s, n, &name, a, err))
        return false;
    if (left && name < before)
        return pattern_fail(err, p, "an axis occurs twice");
    for (uint32_t i = 0; i < side->n; i++)
        if (side->name[i] == name)
            return pattern_fail(err, p, "an axis occurs twice");
    side->name[side->n++] = (uint8_t)name;
    return true;
}

/* Parses one side, up to the end or "->". */
static const char *pattern_side(struct pattern *p, struct pattern_side *side, const char *s,
                                struct zf_arena *a, struct zf_err *err)
{
    bool inside = false;

    while (*s && strncmp(s, "->", 2) != 0) {
        const bool name = isalpha((unsigned char)*s) || *s == '_';
        size_t n = 0;

        while (name && (isalnum((unsigned char)s[n]) || s[n] == '_'))
            n++;
        if (name || *s == '(' || *s == '1') {
            if ((!name && inside) || (!inside && side->n_axes == MAX_AXES))
                return zf_null(pattern_fail(err, p, "nested brackets, or too many axes"));
            if (!inside)
                side->begin[side->n_axes++] = (uint8_t)side->n;
            inside = inside || *s == '(';
        } else if (*s == ')' && inside) {
            inside = false;
        } else if (*s != ' ') {
            return zf_null(pattern_fail(err, p, "expected only names, 1, brackets and one ->"));
        }
        if (name && !pattern_add(p, side, s, n, a, err))
            return NULL;
        s += name ? n : 1;
    }
    if (inside)
        return zf_null(pattern_fail(err, p, "a bracket is not closed"));
    return s;
}

bool pattern_parse(struct pattern *p, const char *text, size_t n, struct zf_arena *a,
                   struct zf_err *err)
{
    *p = (struct pattern){.text = zf_arena_str(a, text, n, err)};
    const char *s = p->text ? pattern_side(p, &p->left, p->text, a, err) : NULL;

    if (!s)
        return false;
    if (!*s)
        return pattern_fail(err, p, "it has no ->");
    s = pattern_side(p, &p->right, s + 2, a, err);
    return s && (!*s || pattern_fail(err, p, "it has two ->")) &&
           (p->right.n == p->n_names || pattern_fail(err, p, "an axis occurs only on the left"));
}

uint32_t pattern_end(const struct pattern_side *s, uint32_t axis)
{
    return axis + 1 < s->n_axes ? s->begin[axis + 1] : s->n;
}
