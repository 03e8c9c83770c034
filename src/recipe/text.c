/* SPDX-License-Identifier: Apache-2.0 */
/* Splits a recipe into tokens.  A statement is a line and the lines after it that start with a blank; '#' starts a
 * comment.
 * The grammar is in zerofs-recipe(5). */
#include "parse.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool text_fail(const char *file, const char *p, size_t at, struct zf_err *err, const char *fmt, ...)
{
    char msg[240];
    size_t line = 1, col = 1;
    va_list args;

    for (size_t i = 0; i < at; i++) {
        line += p[i] == '\n';
        col = p[i] == '\n' ? 1 : col + 1;
    }
    va_start(args, fmt);
    (void)vsnprintf(msg, sizeof msg, fmt, args);
    va_end(args);
    (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "%s", msg);
    return zf_err_in(err, "%.64s:%zu:%zu", file, line, col);
}

static bool text_is_word(char c)
{
    return isalnum((unsigned char)c) || (c && strchr("_.*/-{}", c));
}

/* Length of the mark at s, 0 = none. */
static size_t text_mark(const char *s)
{
    static const char *const two[] = {"<-", "==", "!=", "<=", ">=", "??"};

    for (size_t i = 0; i < sizeof two / sizeof two[0]; i++)
        if (strncmp(s, two[i], 2) == 0)
            return 2;
    return *s && strchr("=<>()[],:|+-*/%", *s) ? 1 : 0;
}

/* Skips blanks and comments, and line ends that a blank follows; true: a statement ended. */
static bool text_blank(struct text *t)
{
    bool ended = false;

    for (;;) {
        const char c = t->p[t->next];

        if (c == ' ' || c == '\t' || c == '\r') {
            t->next++;
        } else if (c == '#') {
            t->next += strcspn(t->p + t->next, "\n");
        } else if (c == '\n') {
            t->next++;
            const char *line = t->p + t->next + strspn(t->p + t->next, " \t\r");

            if (t->p[t->next] != ' ' && t->p[t->next] != '\t')
                ended = true;
            else if (*line == '#' || *line == '\n')
                t->next = (size_t)(line - t->p); /* an empty line does not end a statement */
        } else {
            return ended;
        }
    }
}

/* Is it a number, not a path that starts with a list index, such as 0.args? */
static bool text_number(struct text *t)
{
    const char *s = t->p + t->next;
    size_t n = strspn(s, "-0123456789.");

    if ((s[n] == 'e' || s[n] == 'E') && n > 0) {
        n += s[n + 1] == '-' || s[n + 1] == '+' ? 2 : 1;
        n += strspn(s + n, "0123456789");
    }
    if (text_is_word(s[n]))
        return false;
    t->now.kind = TOKEN_NUMBER;
    t->now.n = n;
    return true;
}

bool text_next(struct text *t, struct zf_err *err)
{
    const bool ended = text_blank(t);
    const char *s = t->p + t->next;
    const size_t mark = text_mark(s);

    t->now = (struct token){.p = s, .at = t->next};
    if (ended && t->now.at > 0 && t->next > 0 && *s) {
        t->now.kind = TOKEN_LINE;
        return true;
    }
    if (!*s) {
        t->now.kind = TOKEN_END;
        return true;
    }
    if (*s == '"') {
        const size_t n = strcspn(s + 1, "\"\n");

        if (s[1 + n] != '"') {
            return text_fail(t->file, t->p, t->next, err,
                             "a quoted text must end on the line it begins on");
        }
        t->now.kind = TOKEN_STRING;
        t->now.p = s + 1;
        t->now.n = n;
        t->next += n + 2;
        return true;
    }
    const bool digits = isdigit((unsigned char)*s) || (*s == '-' && isdigit((unsigned char)s[1]));
    if (digits && text_number(t)) {
        t->next += t->now.n;
        return true;
    }
    if (text_is_word(*s) && !(mark && !text_is_word(s[1]))) {
        t->now.kind = TOKEN_WORD;
        while (text_is_word(s[t->now.n])) {
            /* Braces may contain a sum: {i+2}. */
            t->now.n += s[t->now.n] == '{' ? strcspn(s + t->now.n, "} \n") : 1;
        }
    } else if (mark) {
        t->now.kind = TOKEN_MARK;
        t->now.n = mark;
    } else {
        return text_fail(t->file, t->p, t->next, err, "this character cannot begin anything here");
    }
    t->next += t->now.n;
    return true;
}

bool text_begin(struct text *t, const char *file, const char *p, size_t n, struct zf_err *err)
{
    *t = (struct text){.file = file, .p = p, .n = n};
    if (strlen(p) != n)
        return text_fail(file, p, strlen(p), err, "a recipe is text, but this is a zero byte");
    return text_next(t, err);
}

bool text_is(const struct text *t, const char *s)
{
    return (t->now.kind == TOKEN_WORD || t->now.kind == TOKEN_MARK) && t->now.n == strlen(s) &&
           memcmp(t->now.p, s, t->now.n) == 0;
}

bool text_take(struct text *t, const char *s, bool *was_out, struct zf_err *err)
{
    *was_out = text_is(t, s);
    return !*was_out || text_next(t, err);
}

bool text_expect(struct text *t, const char *s, struct zf_err *err)
{
    bool was;

    return text_take(t, s, &was, err) &&
           (was || text_fail(t->file, t->p, t->now.at, err, "expected \"%s\" here", s));
}

char *text_json(const json_t *v, size_t flags)
{
    char *text = NULL;

    for (size_t digits = 15; digits <= 17; digits++) { /* 17 are enough for any real */
        free(text);
        text =
            json_dumps(v, flags | JSON_ENCODE_ANY | JSON_SORT_KEYS | JSON_REAL_PRECISION(digits));
        zf_auto(json) json_t *back =
            text ? json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL) : NULL;
        if (back && json_equal(v, back))
            break;
    }
    return text;
}
