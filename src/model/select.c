/* SPDX-License-Identifier: Apache-2.0 */
/* Which tensors are shown, and under which names. */
#include <zf/model/model.h>

#include <fnmatch.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/name.h>
#include <zf/base/out.h>

/* "REGEX=REPLACEMENT", compiled.  The '=' is the last one, so that the regex may contain some. */
struct rule {
    regex_t re;
    const char *to;
};
struct rules {
    struct rule *rule;
    uint32_t n;
};

static void zf_auto_rules(struct rules *r)
{
    for (uint32_t i = 0; i < r->n; i++) {
        regfree(&r->rule[i].re);
    }
    free(r->rule);
}

static bool compile(struct rules *r, const struct zf_select *how, struct zf_err *err)
{
    r->rule = calloc(how->n_rename ? how->n_rename : 1, sizeof *r->rule);
    if (!r->rule) {
        return zf_fail_sys(err, "compile the renaming rules");
    }
    for (uint32_t i = 0; i < how->n_rename; i++) {
        const char *text = how->rename[i], *eq = strrchr(text, '=');
        zf_auto(mem) char *re = NULL;
        char why[120];

        if (!eq) {
            return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                           "rename rule \"%.160s\" is not of the form REGEX=REPLACEMENT", text);
        }
        re = strndup(text, (size_t)(eq - text));
        if (!re) {
            return zf_fail_sys(err, "compile the renaming rules");
        }
        int bad = regcomp(&r->rule[i].re, re, REG_EXTENDED);
        if (bad) {
            (void)regerror(bad, &r->rule[i].re, why, sizeof why);
            return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "rename rule \"%.160s\": %s", text, why);
        }
        r->rule[i].to = eq + 1;
        r->n++;
    }
    return true;
}

/* ---- names -------------------------------------------------------------------------------- */

static bool matches_any(const char *const *glob, uint32_t n, const char *name)
{
    for (uint32_t i = 0; i < n; i++) {
        if (fnmatch(glob[i], name, 0) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_kept(const struct zf_select *how, const char *name)
{
    return (how->n_only == 0 || matches_any(how->only, how->n_only, name)) &&
           !matches_any(how->except, how->n_except, name);
}

/* Puts a NUL behind the text, which does not count. */
static bool terminate(struct zf_out *o, struct zf_err *err)
{
    zf_out_u8(o, '\0');
    if (!zf_out_ok(o, err)) {
        return false;
    }
    o->n--;
    return true;
}

/* Appends the replacement: \1 to \9 are groups, \0 the whole match, a backslash before anything
 * else is dropped. */
static void put_replacement(struct zf_out *o, const char *to, const char *name,
                            const regmatch_t *at)
{
    for (const char *p = to; *p; p++) {
        if (*p == '\\' && p[1] >= '0' && p[1] <= '9') {
            const regmatch_t *g = &at[*++p - '0'];

            if (g->rm_so >= 0) {
                zf_out_add(o, name + g->rm_so, (size_t)(g->rm_eo - g->rm_so));
            }
            continue;
        }
        p += *p == '\\' && p[1];
        zf_out_add(o, p, 1);
    }
}

/* The name after strip_prefix and all rules, in o, terminated. */
static bool new_name(const struct zf_select *how, const struct rules *r,
                     const struct zf_tensor *old, struct zf_out *o, struct zf_err *err)
{
    size_t skip = how->strip_prefix ? strlen(how->strip_prefix) : 0;

    if (skip > old->name_len || memcmp(old->name, skip ? how->strip_prefix : "", skip) != 0) {
        skip = 0;
    }
    o->n = 0;
    zf_out_add(o, old->name + skip, old->name_len - skip);
    if (!terminate(o, err)) {
        return false;
    }
    for (uint32_t i = 0; i < r->n; i++) {
        zf_auto(out) struct zf_out next = {0};
        regmatch_t at[10];

        if (regexec(&r->rule[i].re, o->p, 10, at, 0) != 0) {
            continue;
        }
        size_t end = (size_t)at[0].rm_eo;
        zf_out_add(&next, o->p, (size_t)at[0].rm_so);
        put_replacement(&next, r->rule[i].to, o->p, at);
        zf_out_add(&next, o->p + end, o->n - end);
        if (!terminate(&next, err)) {
            return false;
        }
        struct zf_out swap = *o;
        *o = next;
        next = swap;
    }
    return true;
}

/* ---- sets --------------------------------------------------------------------------------- */

/* A tensor that stays, and where it stood. */
struct kept {
    struct zf_tensor t;
    uint32_t old;
};

static int by_name(const void *a, const void *b)
{
    const struct zf_tensor *x = &((const struct kept *)a)->t, *y = &((const struct kept *)b)->t;

    return zf_name_cmp(x->name, x->name_len, y->name, y->name_len);
}

static bool check_distinct(const struct zf_set *from, const struct kept *k, uint32_t n,
                           struct zf_err *err)
{
    for (uint32_t i = 1; i < n; i++) {
        if (by_name(&k[i - 1], &k[i]) == 0) {
            return zf_fail(
                err, ZF_E_USAGE, ZF_OFF_NONE, "\"%.90s\" and \"%.90s\" would both be \"%.90s\"",
                from->tensor[k[i - 1].old].name, from->tensor[k[i].old].name, k[i].t.name);
        }
    }
    return true;
}

/* Ties survive among what is kept; when the tensor that others are tied to goes, the first of them
 * in the new order takes its place.  owner [n of the old set]: new index of whoever stands for an
 * old one. */
static void tie_again(const struct zf_set *from, const struct kept *k, uint32_t n, uint32_t *owner,
                      struct zf_tensor *out)
{
    memset(owner, 0xff, from->n * sizeof *owner);
    for (uint32_t i = 0; i < n; i++) {
        if (from->tensor[k[i].old].alias_of == k[i].old) {
            owner[k[i].old] = i;
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t *at = &owner[from->tensor[k[i].old].alias_of];

        if (*at == UINT32_MAX) {
            *at = i;
        }
        out[i] = k[i].t;
        out[i].alias_of = *at;
    }
}

static bool select_set(const struct zf_select *how, const struct rules *r, struct zf_arena *a,
                       struct zf_set *set, struct zf_err *err)
{
    struct zf_set from = *set;
    zf_auto(mem) struct kept *k = calloc(from.n, sizeof *k);
    zf_auto(mem) uint32_t *owner = calloc(from.n, sizeof *owner);
    zf_auto(out) struct zf_out name = {0};
    uint32_t n = 0;

    if (!k || !owner) {
        return zf_fail_sys(err, "select tensors");
    }
    for (uint32_t i = 0; i < from.n; i++) {
        const struct zf_tensor *t = &from.tensor[i];

        if (!is_kept(how, t->name)) {
            continue;
        }
        if (!new_name(how, r, t, &name, err)) {
            return false;
        }
        k[n] = (struct kept){*t, i};
        if (name.n != t->name_len || memcmp(name.p, t->name, name.n) != 0) {
            k[n].t.name = zf_arena_str(a, name.p, name.n, err);
            k[n].t.name_len = (uint32_t)name.n;
            if (!k[n].t.name) {
                return false;
            }
        }
        n++;
    }
    qsort(k, n, sizeof *k, by_name);
    struct zf_tensor *out = zf_arena_get(a, n, sizeof *out, err);
    if (!out || !check_distinct(&from, k, n, err)) {
        return false;
    }
    tie_again(&from, k, n, owner, out);
    set->tensor = out;
    set->n = n;
    return true;
}

struct zf_checkpoint *zf_checkpoint_select(struct zf_checkpoint *taken, const struct zf_select *how,
                                           struct zf_err *err)
{
    zf_auto(checkpoint) struct zf_checkpoint *c = taken;
    zf_auto(rules) struct rules rules = {0};
    struct zf_set *set = zf_arena_get(c->arena, c->n_sets, sizeof *set, err);
    uint32_t n = 0;

    if (!set || !compile(&rules, how, err)) {
        return NULL;
    }
    for (uint32_t i = 0; i < c->n_sets; i++) {
        set[n] = c->set[i];
        if (!select_set(how, &rules, c->arena, &set[n], err)) {
            return NULL;
        }
        n += set[n].n > 0;
    }
    if (n == 0 && c->n_sets > 0) {
        (void)zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "no tensor is left by the selection");
        return NULL;
    }
    c->set = set;
    c->n_sets = n;
    struct zf_checkpoint *out = c;
    c = NULL;
    return out;
}
