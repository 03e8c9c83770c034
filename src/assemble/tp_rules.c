/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/assemble/tp_rules.h>

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zf/base/pattern.h>
#include <zf/base/vec.h>

#define RULES_BYTES (1u << 20)
#define RULES_MOST 10000
#define RULES_MEMORY (64u << 20)

struct tp_rule {
    const struct zf_pattern *pattern;
    struct zf_cut_rule cut;
    unsigned line;
};

struct zf_tp_rules {
    char *file;
    struct zf_arena *a;
    zf_vec(struct tp_rule) rule;
};

void zf_tp_rules_free(struct zf_tp_rules *r)
{
    if (r) {
        zf_vec_fini(&r->rule);
        zf_arena_free(r->a);
        free(r->file);
        free(r);
    }
}

/* Reads a decimal number up to 999 from *s. */
static bool rules_number(const char **s, uint32_t *out)
{
    const char *p = *s;

    for (*out = 0; *p >= '0' && *p <= '9' && p - *s < 3; p++)
        *out = 10 * *out + (uint32_t)(*p - '0');
    bool ok = p > *s;
    *s = p;
    return ok;
}

/* Reads the rule after the expression. */
static bool rules_read_cut(const char *s, struct zf_cut_rule *out)
{
    *out = (struct zf_cut_rule){.kind = ZF_CUT_COPIES};
    if (strcmp(s, "replicated") == 0)
        return true;
    out->kind = ZF_CUT_DIM;
    if (strncmp(s, "sub:", 4) == 0) {
        s += 4;
        out->kind = ZF_CUT_SUBS;
        if (!rules_number(&s, &out->n_subs) || out->n_subs == 0)
            return false;
        return *s == '\0' || (*s++ == ':' && rules_number(&s, &out->dim) && *s == '\0');
    }
    return rules_number(&s, &out->dim) && *s == '\0';
}

static bool rules_refuse(const struct zf_tp_rules *r, unsigned line, const char *why,
                         struct zf_err *err)
{
    zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "line %u: %s", line, why);
    return zf_err_in(err, "%s", r->file);
}

/* Reads a line, which it changes; comments and blanks at the ends are dropped. */
static bool rules_read_line(struct zf_tp_rules *r, char *s, unsigned line, struct zf_err *err)
{
    struct tp_rule rule = {.line = line};
    char *last = s + strlen(s);

    while (last > s && !isspace((unsigned char)last[-1]))
        last--;
    if (last == s || !rules_read_cut(last, &rule.cut)) {
        return rules_refuse(r, line,
                            "expected a regular expression and a dimension, \"replicated\" or "
                            "\"sub:N\"",
                            err);
    }
    while (last > s && isspace((unsigned char)last[-1]))
        last--;
    *last = '\0';
    rule.pattern = zf_pattern_new(s, strlen(s), ZF_PATTERN_WHOLE, r->a, err);
    if (!rule.pattern && err->code == ZF_E_UNSUPPORTED) {
        char why[sizeof err->msg];

        memcpy(why, err->msg, sizeof why);
        return rules_refuse(r, line, why, err);
    }
    if (!rule.pattern || !zf_vec_room(&r->rule, 1, err))
        return false;
    r->rule.at[r->rule.n++] = rule;
    return true;
}

static bool rules_read(struct zf_tp_rules *r, char *text, struct zf_err *err)
{
    unsigned line = 1;

    for (char *s = text, *next; s; s = next, line++) {
        next = strchr(s, '\n');
        if (next)
            *next++ = '\0';
        s[strcspn(s, "#\r")] = '\0';
        s += strspn(s, " \t");
        for (size_t n = strlen(s); n > 0 && isspace((unsigned char)s[n - 1]);)
            s[--n] = '\0';
        if (*s && r->rule.n >= RULES_MOST) {
            return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "there are more than %u rules",
                           RULES_MOST);
        }
        if (*s && !rules_read_line(r, s, line, err))
            return false;
    }
    return r->rule.n > 0 || rules_refuse(r, line, "it has no rules", err);
}

struct zf_tp_rules *zf_tp_rules_parse(const char *text, size_t n, const char *file,
                                      struct zf_err *err)
{
    zf_auto(tp_rules) struct zf_tp_rules *r = calloc(1, sizeof *r);
    zf_auto(mem) char *copy = malloc(n + 1);

    if (!r || !copy || !(r->file = strdup(file)))
        return zf_null(zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for rules"));
    r->a = zf_arena_new(RULES_MEMORY, err);
    if (!r->a)
        return NULL;
    memcpy(copy, text, n);
    copy[n] = '\0';
    if (strlen(copy) != n) {
        (void)rules_refuse(r, 1, "it is not text", err);
        return NULL;
    }
    if (!rules_read(r, copy, err))
        return NULL;
    return zf_give(r);
}

/* Opens a regular file: reading anything else might never end. */
static FILE *rules_open(const char *path)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    FILE *f = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? fdopen(fd, "r") : NULL;

    if (!f && fd >= 0) {
        (void)close(fd);
        errno = EINVAL;
    }
    return f;
}

struct zf_tp_rules *zf_tp_rules_load(const char *path, struct zf_err *err)
{
    zf_auto(mem) char *text = malloc(RULES_BYTES);
    FILE *f = rules_open(path);

    if (!f || !text) {
        return zf_null(zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "tp_rules=%.300s cannot be read: %s",
                               path, strerror(errno)));
    }
    size_t n = fread(text, 1, RULES_BYTES, f);
    (void)fclose(f);
    if (n == RULES_BYTES) {
        return zf_null(zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                               "tp_rules=%.300s is longer than %u bytes", path, RULES_BYTES - 1));
    }
    return zf_tp_rules_parse(text, n, path, err);
}

static bool rules_same(const struct zf_cut_rule *a, const struct zf_cut_rule *b)
{
    return a->kind == b->kind && a->dim == b->dim && a->n_subs == b->n_subs;
}

bool zf_tp_rules_find(const struct zf_tp_rules *r, const char *name, size_t n,
                      struct zf_cut_rule *out, struct zf_err *err)
{
    const struct tp_rule *found = NULL;

    for (size_t i = 0; i < r->rule.n; i++) {
        const struct tp_rule *rule = &r->rule.at[i];
        bool fits;

        if (!zf_pattern_match(rule->pattern, name, n, NULL, &fits, err))
            return zf_err_in(err, "%s", r->file);
        if (!fits)
            continue;
        if (found && !rules_same(&found->cut, &rule->cut)) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "lines %u and %u of \"%s\" contradict each other about it", found->line,
                           rule->line, r->file);
        }
        found = rule;
    }
    if (!found)
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "no line of \"%s\" matches it", r->file);
    *out = found->cut;
    return true;
}
