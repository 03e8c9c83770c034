/* SPDX-License-Identifier: Apache-2.0 */
/* A pattern is a row of steps, each a set of bytes and how often it may come.  All places in the row at which
 * a match may be are followed at once.
 * Source: Python, Lib/re (3.6 … 3.14): re.match, syntax of the subset. */
#include <zf/assemble/py_pattern.h>

#include <string.h>

#define STEPS 512

struct py_step {
    uint64_t set[4]; /* of 256 bytes */
    bool none, more; /* may be left out; may be repeated */
};

struct zf_py_pattern {
    const struct py_step *step;
    uint32_t n;
    bool end; /* "$": the name must end where the pattern does */
};

struct py_parse {
    const unsigned char *p, *end;
};

static void py_add(struct py_step *s, unsigned c)
{
    s->set[c / 64] |= 1ull << (c % 64);
}

static bool py_has(const struct py_step *s, unsigned c)
{
    return s->set[c / 64] >> (c % 64) & 1;
}

static bool py_is_word(unsigned c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           c >= 128;
}

static bool py_is_space(unsigned c)
{
    return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f);
}

static bool py_unknown(const char *what, struct zf_err *err)
{
    return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE, "%s", what);
}

/* What is behind a backslash: a class, or a character that stands for itself. */
static bool py_escape(struct py_parse *in, struct py_step *s, struct zf_err *err)
{
    unsigned c = in->p < in->end ? *in->p++ : 'x';
    unsigned lower = c | 0x20;

    if (lower == 'd' || lower == 'w' || lower == 's') {
        for (unsigned k = 0; k < 256; k++) {
            bool in_class = lower == 'd'   ? k >= '0' && k <= '9'
                            : lower == 'w' ? py_is_word(k)
                                           : py_is_space(k);

            if (in_class == (c == lower)) {
                py_add(s, k);
            }
        }
        return true;
    }
    if (py_is_word(c) && c != '_') {
        return py_unknown("it has an escape that is not understood", err);
    }
    py_add(s, c);
    return true;
}

/* "[...]", behind the bracket. */
static bool py_class(struct py_parse *in, struct py_step *s, struct zf_err *err)
{
    bool not = in->p < in->end && *in->p == '^', first = true;

    for (in->p += not ; in->p < in->end && (*in->p != ']' || first); first = false) {
        unsigned c = *in->p++;

        if (c == '\\') {
            if (!py_escape(in, s, err)) {
                return false;
            }
            continue;
        }
        unsigned to = c;
        if (in->end - in->p >= 2 && in->p[0] == '-' && in->p[1] != ']') {
            to = in->p[1];
            in->p += 2;
            if (to == '\\' || to < c) {
                return py_unknown("it has a range that is not understood", err);
            }
        }
        for (; c <= to; c++) {
            py_add(s, c);
        }
    }
    if (in->p == in->end) {
        return py_unknown("it has a bracket that is not closed", err);
    }
    in->p++;
    for (int k = 0; not &&k < 4; k++) {
        s->set[k] = ~s->set[k];
    }
    return true;
}

/* One step without its repetition. */
static bool py_step(struct py_parse *in, struct py_step *s, struct zf_err *err)
{
    unsigned c = *in->p++;

    switch (c) {
    case '\\':
        return py_escape(in, s, err);
    case '[':
        return py_class(in, s, err);
    case '.':
        memset(s->set, 0xff, sizeof s->set);
        s->set['\n' / 64] &= ~(1ull << '\n');
        return true;
    case '(':
    case ')':
    case '|':
    case '{':
    case '*':
    case '+':
    case '?':
    case '^':
    case '$':
        return py_unknown("it has a group, an alternative or an anchor that is not understood",
                          err);
    default:
        py_add(s, c);
        return true;
    }
}

/* "*", "+", "?", each perhaps lazy, which changes nothing in whether there is a match. */
static void py_repeat(struct py_parse *in, struct py_step *s)
{
    unsigned c = in->p < in->end ? *in->p : 0;

    if (c != '*' && c != '+' && c != '?') {
        return;
    }
    s->none = c != '+';
    s->more = c != '?';
    in->p++;
    in->p += in->p < in->end && *in->p == '?';
}

const struct zf_py_pattern *zf_py_pattern_new(const char *p, size_t n, struct zf_arena *a,
                                              struct zf_err *err)
{
    struct zf_py_pattern *x = zf_arena_get(a, 1, sizeof *x, err);
    struct py_step *step = x ? zf_arena_get(a, n < STEPS ? n + 1 : STEPS, sizeof *step, err) : NULL;
    struct py_parse in = {(const void *)p, (const unsigned char *)p + n};

    if (!step) {
        return NULL;
    }
    in.p += n > 0 && *in.p == '^';
    while (in.p < in.end) {
        if (*in.p == '$' && in.p + 1 == in.end) {
            x->end = true;
            break;
        }
        if (x->n == STEPS) {
            return py_unknown("it is longer than expected", err), NULL;
        }
        if (!py_step(&in, &step[x->n], err)) {
            return NULL;
        }
        py_repeat(&in, &step[x->n++]);
    }
    x->step = step;
    return x;
}

/* Makes `at` also hold the places behind steps that may be left out. */
static void py_skip(const struct zf_py_pattern *x, bool *at)
{
    for (uint32_t i = 0; i < x->n; i++) {
        at[i + 1] = at[i + 1] || (at[i] && x->step[i].none);
    }
}

bool zf_py_pattern_match(const struct zf_py_pattern *x, const char *name, size_t n)
{
    bool at[STEPS + 1] = {true}, next[STEPS + 1];
    bool any = true;

    py_skip(x, at);
    for (size_t k = 0; k < n && any && (x->end || !at[x->n]); k++) {
        if (x->end && at[x->n] && k + 1 == n && name[k] == '\n') {
            return true; /* where a line feed ends the name, "$" is in front of it, too */
        }
        any = false;
        memset(next, 0, x->n + (size_t)1);
        for (uint32_t i = 0; i < x->n; i++) {
            if (at[i] && py_has(&x->step[i], (unsigned char)name[k])) {
                any = true;
                next[i + 1] = true;
                next[i] = next[i] || x->step[i].more;
            }
        }
        /* behind a repeated step that was taken, it may come again */
        memcpy(at, next, x->n + (size_t)1);
        py_skip(x, at);
    }
    return any && at[x->n];
}
