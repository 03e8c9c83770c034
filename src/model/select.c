/* SPDX-License-Identifier: Apache-2.0 */
/* The selection of tensors to show, and their renaming (-o only=, except=, rename=, strip_prefix=). */
#include <zf/model/model.h>

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/name.h>
#include <zf/base/out.h>
#include <zf/base/pattern.h>

/* "REGEX=REPLACEMENT", compiled. */
struct rule {
    const struct zf_pattern *re;
    const char *to;
};
/* The selection in progress: the options, and which of them have matched a tensor. */
struct selection {
    const struct zf_select *how;
    struct rule *rule;
    uint32_t n; /* rules compiled so far */
    bool prefix_used;
    bool only_lacked; /* a tensor matches none of `only` */
    bool *rename_used, *only_used, *except_used;
};

static void zf_auto_selection(struct selection *s)
{
    free(s->rule);
    free(s->rename_used);
    free(s->only_used);
    free(s->except_used);
}

/* The '=' between regex and replacement: the last one that is not escaped, so that the regex may
 * contain others. */
static const char *select_rule_separator(const char *text)
{
    const char *last = NULL;

    for (const char *p = text; *p; p++)
        if (p[0] == '\\' && p[1])
            p++;
        else if (*p == '=')
            last = p;
    return last;
}

/* text[n] with "\=" as '='; malloc'ed.  (The replacement drops backslashes by its own rule.) */
static char *select_rule_regex(const char *text, size_t n)
{
    char *re = malloc(n + 1), *at = re;

    for (size_t i = 0; re && i < n; i++) {
        if (text[i] == '\\' && i + 1 < n) {
            if (text[++i] != '=')
                *at++ = '\\';
        }
        *at++ = text[i];
    }
    if (re)
        *at = '\0';
    return re;
}

static bool select_rule_compile(struct rule *r, const char *text, struct zf_arena *a,
                                struct zf_err *err)
{
    const char *eq = select_rule_separator(text);
    zf_auto(mem) char *re = eq ? select_rule_regex(text, (size_t)(eq - text)) : NULL;

    if (!eq) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                       "rename rule \"%.160s\" is not of the form REGEX=REPLACEMENT", text);
    }
    if (!re)
        return zf_fail_sys(err, "compile the renaming rules");
    r->re = zf_pattern_new(re, strlen(re), ZF_PATTERN_ANYWHERE, a, err);
    r->to = eq + 1;
    if (!r->re && err->code == ZF_E_UNSUPPORTED) {
        char why[sizeof err->msg];

        memcpy(why, err->msg, sizeof why);
        (void)zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "rename rule \"%.100s\": %.200s", text, why);
    }
    return r->re != NULL;
}

static bool select_selection_init(struct selection *s, const struct zf_select *how,
                                  struct zf_arena *a, struct zf_err *err)
{
    s->how = how;
    s->rule = calloc(how->n_rename + 1ul, sizeof *s->rule);
    s->rename_used = calloc(how->n_rename + 1ul, sizeof(bool));
    s->only_used = calloc(how->n_only + 1ul, sizeof(bool));
    s->except_used = calloc(how->n_except + 1ul, sizeof(bool));
    if (!s->rule || !s->rename_used || !s->only_used || !s->except_used)
        return zf_fail_sys(err, "compile the renaming rules");
    for (; s->n < how->n_rename; s->n++)
        if (!select_rule_compile(&s->rule[s->n], how->rename[s->n], a, err))
            return false;
    return true;
}

static void select_report_unused(const struct zf_select *how, const char *option,
                                 const char *const *value, const bool *used, size_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!used[i])
            how->unused(how->unused_ctx, option, value[i]);
}

static void select_selection_report(const struct selection *s)
{
    const struct zf_select *how = s->how;

    if (!how->unused)
        return;
    if (how->strip_prefix)
        select_report_unused(how, "strip_prefix", &how->strip_prefix, &s->prefix_used, 1);
    select_report_unused(how, "only", how->only, s->only_used, how->n_only);
    select_report_unused(how, "except", how->except, s->except_used, how->n_except);
    select_report_unused(how, "rename", how->rename, s->rename_used, how->n_rename);
}

/* ---- names -------------------------------------------------------------------------------- */

/* Tries all patterns, even after a match, to record each one that matches. */
static bool select_matches_any(const char *const *glob, bool *used, size_t n, const char *name)
{
    bool any = false;

    for (uint32_t i = 0; i < n; i++)
        if (fnmatch(glob[i], name, 0) == 0)
            any = used[i] = true;
    return any;
}

static bool select_is_kept(struct selection *s, const char *name)
{
    const struct zf_select *how = s->how;
    bool only = select_matches_any(how->only, s->only_used, how->n_only, name);
    bool except = select_matches_any(how->except, s->except_used, how->n_except, name);

    s->only_lacked = s->only_lacked || (how->n_only > 0 && !only);
    return (how->n_only == 0 || only) && !except;
}

/* Appends the replacement: \1 to \9 are groups, \0 the whole match, a backslash before anything
 * else is dropped. */
static void select_put_replacement(struct zf_out *o, const char *to, const char *name,
                                   const struct zf_pattern_span *at)
{
    for (const char *p = to; *p; p++) {
        if (*p == '\\' && p[1] >= '0' && p[1] <= '9') {
            const struct zf_pattern_span *g = &at[*++p - '0'];

            if (g->from != SIZE_MAX)
                zf_out_add(o, name + g->from, g->to - g->from);
            continue;
        }
        p += *p == '\\' && p[1];
        zf_out_add(o, p, 1);
    }
}

/* The name after strip_prefix and all rules, in o. */
static bool select_new_name(struct selection *s, const struct zf_tensor *old, struct zf_out *o,
                            struct zf_err *err)
{
    const struct zf_select *how = s->how;
    size_t skip = how->strip_prefix ? strlen(how->strip_prefix) : 0;

    if (skip > old->name_len || memcmp(old->name, skip ? how->strip_prefix : "", skip) != 0)
        skip = 0;
    s->prefix_used = s->prefix_used || skip;
    zf_out_cut(o, 0);
    zf_out_add(o, old->name + skip, old->name_len - skip);
    for (uint32_t i = 0; i < s->n; i++) {
        zf_auto(out) struct zf_out next = {0};
        struct zf_pattern_span at[ZF_PATTERN_GROUPS];
        bool found;

        if (!zf_pattern_match(s->rule[i].re, zf_out_text(o), o->n, at, &found, err))
            return false;
        if (!found)
            continue;
        s->rename_used[i] = true;
        zf_out_add(&next, zf_out_text(o), at[0].from);
        select_put_replacement(&next, s->rule[i].to, zf_out_text(o), at);
        zf_out_add(&next, zf_out_text(o) + at[0].to, o->n - at[0].to);
        next.bad = next.bad || o->bad;
        struct zf_out swap = *o;
        *o = next;
        next = swap;
    }
    return zf_out_ok(o, err);
}

/* ---- sets --------------------------------------------------------------------------------- */

/* A tensor that stays, and its old index. */
struct select_kept {
    struct zf_tensor t;
    uint32_t old;
};

static int select_by_name(const void *a, const void *b)
{
    const struct zf_tensor *x = &((const struct select_kept *)a)->t,
                           *y = &((const struct select_kept *)b)->t;

    return zf_name_cmp(x->name, x->name_len, y->name, y->name_len);
}

static bool select_check_distinct(const struct zf_set *from, const struct select_kept *k,
                                  uint32_t n, struct zf_err *err)
{
    for (uint32_t i = 1; i < n; i++) {
        if (select_by_name(&k[i - 1], &k[i]) == 0) {
            return zf_fail(
                err, ZF_E_USAGE, ZF_OFF_NONE, "\"%.90s\" and \"%.90s\" would both be \"%.90s\"",
                from->tensor[k[i - 1].old].name, from->tensor[k[i].old].name, k[i].t.name);
        }
    }
    return true;
}

/* Keeps ties among the selected tensors; if the tensor that others are tied to is not selected, the
 * first of them in the new order replaces it.  owner [old set]: the new index of the tensor that
 * represents an old one. */
static void select_tie_again(const struct zf_set *from, const struct select_kept *k, uint32_t n,
                             uint32_t *owner, struct zf_tensor *out)
{
    memset(owner, 0xff, from->n * sizeof *owner);
    for (uint32_t i = 0; i < n; i++)
        if (from->tensor[k[i].old].alias_of == k[i].old)
            owner[k[i].old] = i;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t *at = &owner[from->tensor[k[i].old].alias_of];

        if (*at == UINT32_MAX)
            *at = i;
        out[i] = k[i].t;
        out[i].alias_of = *at;
    }
}

static bool select_set(struct selection *s, struct zf_arena *a, struct zf_set *set,
                       struct zf_err *err)
{
    struct zf_set from = *set;
    zf_auto(mem) struct select_kept *k = calloc(from.n, sizeof *k);
    zf_auto(mem) uint32_t *owner = calloc(from.n, sizeof *owner);
    zf_auto(out) struct zf_out name = {0};
    uint32_t n = 0;

    if (!k || !owner)
        return zf_fail_sys(err, "select tensors");
    for (uint32_t i = 0; i < from.n; i++) {
        const struct zf_tensor *t = &from.tensor[i];

        if (!select_is_kept(s, t->name))
            continue;
        if (!select_new_name(s, t, &name, err))
            return false;
        k[n] = (struct select_kept){*t, i};
        if (name.n != t->name_len || memcmp(zf_out_text(&name), t->name, name.n) != 0) {
            k[n].t.name = zf_arena_str(a, zf_out_text(&name), name.n, err);
            k[n].t.name_len = (uint32_t)name.n;
            if (!k[n].t.name)
                return false;
        }
        n++;
    }
    qsort(k, n, sizeof *k, select_by_name);
    struct zf_tensor *out = zf_arena_get(a, n, sizeof *out, err);
    if (!out || !select_check_distinct(&from, k, n, err))
        return false;
    select_tie_again(&from, k, n, owner, out);
    set->tensor = out;
    set->n = n;
    return true;
}

static bool select_any(const bool *used, size_t n)
{
    bool any = false;

    for (size_t i = 0; i < n; i++)
        any = any || used[i];
    return any;
}

/* Records the sets before the selection, and the options that changed them. */
static bool select_record(const struct selection *s, struct zf_checkpoint *c, struct zf_err *err)
{
    const struct {
        const char *option;
        bool mattered;
    } all[] = {{"only", s->only_lacked},
               {"except", select_any(s->except_used, s->how->n_except)},
               {"strip_prefix", s->prefix_used},
               {"rename", select_any(s->rename_used, s->how->n_rename)}};
    zf_auto(out) struct zf_out text = {0};

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (!all[i].mattered)
            continue;
        zf_out_str(&text, text.n ? ", -o " : "-o ");
        zf_out_str(&text, all[i].option);
        zf_out_str(&text, "=");
    }
    if (!zf_out_ok(&text, err) || text.n == 0)
        return text.n == 0 && !text.bad;
    c->unselected = c->set;
    c->n_unselected = c->n_sets;
    c->selection = zf_arena_str(c->arena, zf_out_text(&text), text.n, err);
    return c->selection != NULL;
}

static void select_missing(struct selection *s, struct zf_checkpoint *c)
{
    struct zf_missing *m = (struct zf_missing *)(uintptr_t)c->missing; /* in our own arena */
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->n_missing; i++)
        if (select_is_kept(s, m[i].name))
            m[n++] = m[i];
    c->n_missing = n;
}

struct zf_checkpoint *zf_checkpoint_select(struct zf_checkpoint *taken, const struct zf_select *how,
                                           struct zf_err *err)
{
    zf_auto(checkpoint) struct zf_checkpoint *c = taken;
    zf_auto(selection) struct selection s = {0};
    struct zf_set *set = zf_arena_get(c->arena, c->n_sets, sizeof *set, err);
    uint32_t n = 0;

    if (!set || !select_selection_init(&s, how, c->arena, err))
        return NULL;
    for (uint32_t i = 0; i < c->n_sets; i++) {
        set[n] = c->set[i];
        if (!select_set(&s, c->arena, &set[n], err))
            return NULL;
        n += set[n].n > 0;
    }
    if (n == 0 && c->n_sets > 0)
        return zf_null(zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "the selection leaves no tensor"));
    if (!select_record(&s, c, err))
        return NULL;
    select_missing(&s, c);
    select_selection_report(&s);
    c->set = set;
    c->n_sets = n;
    return zf_give(c);
}
