/* SPDX-License-Identifier: Apache-2.0 */
/* Expressions in a recipe: `(heads + 2 * groups) * head_dim`, `has(lm_head.weight) and not tied`.  They are compiled to
 * postfix code for a stack machine; nothing is recursive. */
#include "parse.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Most steps of an expression, and most pending values or operators. */
#define MAX_CODE 128
#define MAX_DEPTH 32

enum code_kind { CODE_CONST, CODE_NAME, CODE_TENSOR, CODE_CALL, CODE_OP };

enum op {
    OP_OPEN, /* a bracket; lowest precedence */
    OP_CALL,
    OP_ELSE, /* ?? */
    OP_OR,
    OP_AND,
    OP_NOT,
    OP_EQ,
    OP_NE,
    OP_LT,
    OP_LE,
    OP_GT,
    OP_GE,
    OP_ADD,
    OP_SUB,
    OP_MUL,
    OP_DIV,
    OP_MOD,
};

static const struct {
    const char *text;
    int level; /* precedence: higher binds tighter */
} ops[] = {
    [OP_OPEN] = {"(", 0},  [OP_CALL] = {"", 0},   [OP_ELSE] = {"??", 8}, [OP_OR] = {"or", 1},
    [OP_AND] = {"and", 2}, [OP_NOT] = {"not", 3}, [OP_EQ] = {"==", 4},   [OP_NE] = {"!=", 4},
    [OP_LT] = {"<", 4},    [OP_LE] = {"<=", 4},   [OP_GT] = {">", 4},    [OP_GE] = {">=", 4},
    [OP_ADD] = {"+", 5},   [OP_SUB] = {"-", 5},   [OP_MUL] = {"*", 6},   [OP_DIV] = {"/", 6},
    [OP_MOD] = {"%", 6},
};

/* Functions of values, and their number of arguments. */
static const struct {
    const char *name;
    uint32_t args;
} calls[] = {{"select", 3}, {"len", 1}, {"item", 2}, {"real", 1}, {"log", 1}};
enum { CALL_SELECT, CALL_LEN, CALL_ITEM, CALL_REAL, CALL_LOG, N_CALLS };

static const char *const tensor_calls[] = {"has",   "dim",  "count",    "same",
                                           "alike", "zero", "stripped", "ndim"};

struct code {
    enum code_kind kind;
    uint32_t op; /* of enum op, or a call */
    size_t at;
    const char *text;   /* a name, a text, a function about tensors */
    const char *tensor; /* the tensor the function is about; "A B": two tensors */
    int64_t number;     /* an integer, or dim's last argument */
    double real;
    char type; /* of a constant: i r s n t f */
};

struct pending {
    enum op op;
    size_t at;
    uint32_t call, args;
};

struct parser {
    struct text *t;
    struct zf_arena *a;
    struct code code[MAX_CODE];
    uint32_t n, n_wait;
    struct pending wait[MAX_DEPTH];
};

/* ---- reading ---------------------------------------------------------------------------------- */

static bool expr_put(struct parser *p, struct code c, struct zf_err *err)
{
    if (p->n == MAX_CODE) {
        return text_fail(p->t->file, p->t->p, c.at, err, "this expression has more than %d parts",
                         MAX_CODE);
    }
    p->code[p->n++] = c;
    return true;
}

static bool expr_push(struct parser *p, struct pending w, struct zf_err *err)
{
    if (p->n_wait == MAX_DEPTH)
        return text_fail(p->t->file, p->t->p, w.at, err, "this expression is nested too deep");
    p->wait[p->n_wait++] = w;
    return true;
}

/* Emits the pending operators whose precedence is at least `level`. */
static bool expr_flush(struct parser *p, int level, struct zf_err *err)
{
    while (p->n_wait && p->wait[p->n_wait - 1].op != OP_OPEN &&
           p->wait[p->n_wait - 1].op != OP_CALL && ops[p->wait[p->n_wait - 1].op].level >= level) {
        const struct pending *w = &p->wait[--p->n_wait];

        if (!expr_put(p, (struct code){.kind = CODE_OP, .op = w->op, .at = w->at}, err))
            return false;
    }
    return true;
}

/* Parses has(NAME), dim(NAME, K), stripped(): the name is literal, not a variable. */
static bool expr_tensor(struct parser *p, const char *what, size_t at, struct zf_err *err)
{
    struct code c = {.kind = CODE_TENSOR, .at = at, .text = what};
    struct text *t = p->t;
    char *name = NULL;
    bool comma;

    if (t->now.kind == TOKEN_WORD) {
        name = zf_arena_str(p->a, t->now.p, t->now.n, err);
        if (!name || !text_next(t, err))
            return false;
    } else if (strcmp(what, "stripped") != 0) {
        return text_fail(t->file, t->p, t->now.at, err, "expected a tensor as the argument of %s()",
                         what);
    }
    c.tensor = name;
    if (!text_take(t, ",", &comma, err))
        return false;
    if (comma && (strcmp(what, "same") == 0 || strcmp(what, "alike") == 0) &&
        t->now.kind == TOKEN_WORD) {
        /* Both names, one after the other. */
        char *both = zf_arena_fmt(p->a, err, "%s %.*s", name, (int)t->now.n, t->now.p);

        c.tensor = both;
        if (!both || !text_next(t, err))
            return false;
    } else if (comma) {
        c.number = strtoll(t->now.p, NULL, 10);
        if (t->now.kind != TOKEN_NUMBER)
            return text_fail(t->file, t->p, t->now.at, err, "expected a number as the dimension");
        if (!text_next(t, err))
            return false;
    }
    return text_expect(t, ")", err) && expr_put(p, c, err);
}

/* Parses a word: a value, or a function and its opening bracket. */
static bool expr_word(struct parser *p, bool *operand_out, struct zf_err *err)
{
    struct text *t = p->t;
    const struct token w = t->now;
    static const char *const consts[] = {"null", "true", "false"};
    char *name = zf_arena_str(p->a, w.p, w.n, err);
    bool open;

    if (!name || !text_next(t, err))
        return false;
    for (size_t i = 0; i < 3; i++) {
        if (strcmp(name, consts[i]) == 0) {
            *operand_out = false;
            return expr_put(p, (struct code){.kind = CODE_CONST, .at = w.at, .type = "ntf"[i]},
                            err);
        }
    }
    if (!text_take(t, "(", &open, err))
        return false;
    *operand_out = open;
    if (!open)
        return expr_put(p, (struct code){.kind = CODE_NAME, .at = w.at, .text = name}, err);
    for (size_t i = 0; i < sizeof tensor_calls / sizeof tensor_calls[0]; i++) {
        if (strcmp(name, tensor_calls[i]) == 0) {
            *operand_out = false;
            return expr_tensor(p, name, w.at, err);
        }
    }
    for (uint32_t i = 0; i < N_CALLS; i++)
        if (strcmp(name, calls[i].name) == 0)
            return expr_push(p, (struct pending){OP_CALL, w.at, i, 1}, err);
    return text_fail(t->file, t->p, w.at, err, "there is no function %.40s()", name);
}

/* Parses an operand.  *operand_out: another operand must follow. */
static bool expr_operand(struct parser *p, bool *operand_out, struct zf_err *err)
{
    struct text *t = p->t;
    const struct token w = t->now;
    struct code c = {.kind = CODE_CONST, .at = w.at};
    bool was;

    if (!text_take(t, "(", &was, err))
        return false;
    *operand_out = true;
    if (was)
        return expr_push(p, (struct pending){.op = OP_OPEN, .at = w.at}, err);
    if (!text_take(t, "not", &was, err))
        return false;
    if (was)
        return expr_push(p, (struct pending){.op = OP_NOT, .at = w.at}, err);
    *operand_out = false;
    if (w.kind == TOKEN_WORD)
        return expr_word(p, operand_out, err);
    if (w.kind == TOKEN_STRING) {
        c.type = 's';
        c.text = zf_arena_str(p->a, w.p, w.n, err);
    } else if (w.kind == TOKEN_NUMBER) {
        char *text = zf_arena_str(p->a, w.p, w.n, err), *end = NULL;

        c.text = text;
        c.type = text && strpbrk(text, ".eE") ? 'r' : 'i';
        c.number = text ? strtoll(text, &end, 10) : 0;
        c.real = text ? strtod(text, c.type == 'r' ? &end : NULL) : 0;
        if (text && (*end || w.n > 18))
            return text_fail(t->file, t->p, w.at, err, "this is not a number");
    } else {
        return text_fail(t->file, t->p, w.at, err, "expected a value here");
    }
    return c.text && text_next(t, err) && expr_put(p, c, err);
}

/* Parses a closing bracket; *done_out: the expression did not open it, and so ends. */
static bool expr_close(struct parser *p, bool *done_out, struct zf_err *err)
{
    if (!expr_flush(p, 1, err))
        return false;
    *done_out = p->n_wait == 0;
    if (*done_out)
        return true;
    const struct pending w = p->wait[--p->n_wait];
    if (w.op == OP_CALL && w.args != calls[w.call].args) {
        return text_fail(p->t->file, p->t->p, w.at, err, "%s() takes %u arguments, found %u",
                         calls[w.call].name, calls[w.call].args, w.args);
    }
    return text_next(p->t, err) &&
           (w.op == OP_OPEN ||
            expr_put(p, (struct code){.kind = CODE_CALL, .op = w.call, .at = w.at}, err));
}

/* Parses the token after an operand.  *operand_out: another operand must follow; *done_out: the expression ends. */
static bool expr_operator(struct parser *p, bool *operand_out, bool *done_out, struct zf_err *err)
{
    struct text *t = p->t;

    *done_out = false;
    *operand_out = true;
    for (int op = OP_ELSE; op <= OP_MOD; op++) {
        if (op != OP_NOT && text_is(t, ops[op].text)) {
            const struct pending w = {.op = (enum op)op, .at = t->now.at};

            return expr_flush(p, ops[op].level, err) && expr_push(p, w, err) && text_next(t, err);
        }
    }
    if (text_is(t, ",")) {
        if (!expr_flush(p, 1, err))
            return false;
        *done_out = !p->n_wait || p->wait[p->n_wait - 1].op != OP_CALL;
        if (*done_out)
            return true;
        p->wait[p->n_wait - 1].args++;
        return text_next(t, err);
    }
    *operand_out = false;
    if (text_is(t, ")"))
        return expr_close(p, done_out, err);
    *done_out = true;
    return true;
}

bool expr_parse(struct expr *e, struct text *t, struct zf_arena *a, struct zf_err *err)
{
    struct parser p = {.t = t, .a = a};
    bool operand = true, done = false;

    e->at = t->now.at;
    while (!done)
        if (operand ? !expr_operand(&p, &operand, err) : !expr_operator(&p, &operand, &done, err))
            return false;
    if (!expr_flush(&p, 1, err))
        return false;
    if (p.n_wait)
        return text_fail(t->file, t->p, p.wait[p.n_wait - 1].at, err, "this bracket is not closed");
    e->n = p.n;
    e->code = zf_arena_copy(a, p.code, p.n, sizeof *p.code, err);
    return e->code != NULL;
}

/* ---- evaluation ------------------------------------------------------------------------------- */

/* The truth of v; clears *fits if v is neither true nor false: a string such as "false", a list, a fraction. */
static bool expr_truth(json_t *v, bool *fits)
{
    *fits = *fits && (json_is_null(v) || json_is_boolean(v) ||
                      (json_is_integer(v) && json_integer_value(v) >= 0));
    return json_is_true(v) || (json_is_integer(v) && json_integer_value(v) != 0);
}

bool expr_equal(json_t *a, json_t *b)
{
    if (json_is_number(a) && json_is_number(b)) {
        const double x = json_number_value(a), y = json_number_value(b);

        return !(x < y) && !(x > y);
    }
    return json_equal(a, b);
}

static json_t *expr_sum(enum op op, json_t *a, json_t *b, bool *fits)
{
    if (json_is_integer(a) && json_is_integer(b)) {
        const long long x = json_integer_value(a), y = json_integer_value(b);
        long long z = 0;

        if (op == OP_DIV || op == OP_MOD) {
            *fits = y > 0 && x >= 0 && (op == OP_MOD || x % y == 0);
            z = *fits ? (op == OP_DIV ? x / y : x % y) : 0;
        } else {
            *fits = op == OP_ADD   ? !__builtin_add_overflow(x, y, &z)
                    : op == OP_SUB ? !__builtin_sub_overflow(x, y, &z)
                                   : !__builtin_mul_overflow(x, y, &z);
        }
        return json_integer(z);
    }
    const double x = json_number_value(a), y = json_number_value(b);
    const double z = op == OP_ADD ? x + y : op == OP_SUB ? x - y : op == OP_MUL ? x * y : x / y;
    *fits = json_is_number(a) && json_is_number(b) && op != OP_MOD && isfinite(z);
    return json_real(*fits ? z : 0);
}

static json_t *expr_both(enum op op, json_t *a, json_t *b, bool *fits)
{
    const bool x = expr_truth(a, fits), y = expr_truth(b, fits);

    return json_boolean(op == OP_OR ? x || y : x && y);
}

static json_t *expr_op(enum op op, json_t *a, json_t *b, bool *fits)
{
    const bool numbers = json_is_number(a) && json_is_number(b);
    const double x = json_number_value(a), y = json_number_value(b);

    switch (op) {
    case OP_ELSE:
        return json_incref(json_is_null(a) ? b : a);
    case OP_OR:
    case OP_AND:
        return expr_both(op, a, b, fits);
    case OP_EQ:
        return json_boolean(expr_equal(a, b));
    case OP_NE:
        return json_boolean(!expr_equal(a, b));
    case OP_LT:
    case OP_LE:
    case OP_GT:
    case OP_GE:
        *fits = numbers;
        return json_boolean(op == OP_LT   ? x < y
                            : op == OP_LE ? x <= y
                            : op == OP_GT ? x > y
                                          : x >= y);
    default:
        return expr_sum(op, a, b, fits);
    }
}

/* The item of a list at an index, or of an object at a dotted path or a number; null if there is none. */
static json_t *expr_item(json_t *in, json_t *key)
{
    const json_int_t at = json_integer_value(key);
    char name[128];

    if (json_is_array(in)) {
        in = json_is_integer(key) && at >= 0 ? json_array_get(in, (size_t)at) : NULL;
        return in ? json_incref(in) : json_null();
    }
    (void)snprintf(name, sizeof name, "%s", json_is_string(key) ? json_string_value(key) : "");
    if (json_is_integer(key))
        (void)snprintf(name, sizeof name, "%lld", (long long)at);
    for (char *part = name, *dot; part && in; part = dot ? dot + 1 : NULL) {
        dot = strchr(part, '.');
        if (dot)
            *dot = '\0';
        in = json_object_get(in, part);
    }
    return in ? json_incref(in) : json_null();
}

static json_t *expr_call(uint32_t call, json_t **v, bool *fits)
{
    switch (call) {
    case CALL_SELECT:
        return json_incref(expr_truth(v[0], fits) ? v[1] : v[2]);
    case CALL_LEN:
        return json_integer(
            (json_int_t)(json_is_array(v[0]) ? json_array_size(v[0]) : json_object_size(v[0])));
    case CALL_ITEM:
        return expr_item(v[0], v[1]);
    case CALL_LOG:
        *fits = json_is_number(v[0]) && json_number_value(v[0]) > 0;
        return json_real(*fits ? log(json_number_value(v[0])) : 0);
    default:
        *fits = json_is_number(v[0]);
        return json_real(json_number_value(v[0]));
    }
}

static json_t *expr_const(const struct code *c)
{
    switch (c->type) {
    case 'i':
        return json_integer(c->number);
    case 'r':
        return json_real(c->real);
    case 's':
        return zf_json_text(c->text);
    case 't':
        return json_true();
    case 'f':
        return json_false();
    default:
        return json_null();
    }
}

struct stack {
    json_t *v[MAX_CODE];
    uint32_t n;
};

static void zf_auto_stack(struct stack *s)
{
    while (s->n)
        json_decref(s->v[--s->n]);
}

static void expr_wrong(json_t *a, json_t *b, const struct code *c, const struct expr_ask *ask,
                       struct zf_err *err)
{
    zf_auto(mem) char *x = text_json(a, JSON_COMPACT);
    zf_auto(mem) char *y = b ? text_json(b, JSON_COMPACT) : NULL;
    const char *op = c->kind == CODE_OP ? ops[c->op].text : calls[c->op].name;

    (void)text_fail(ask->file, ask->text, c->at, err, "\"%s\" does not work with %.60s%s%.60s", op,
                    x ? x : "?", b ? " and " : "", y ? y : "");
}

static bool expr_step(struct stack *s, const struct code *c, const struct expr_ask *ask,
                      struct zf_err *err)
{
    json_t *made = NULL;
    uint32_t used = 0;
    bool fits = true;

    if (c->kind == CODE_CONST) {
        made = expr_const(c);
    } else if (c->kind == CODE_NAME) {
        made = ask->name(ask->ctx, c->text);
    } else if (c->kind == CODE_TENSOR) {
        made = ask->tensor(ask->ctx, c->text, c->tensor, c->number, err);
        if (!made)
            return false;
    } else if (c->kind == CODE_CALL) {
        used = calls[c->op].args;
        made = expr_call(c->op, s->v + s->n - used, &fits);
    } else if (c->op == OP_NOT) {
        used = 1;
        made = json_boolean(!expr_truth(s->v[s->n - 1], &fits));
    } else {
        used = 2;
        made = expr_op((enum op)c->op, s->v[s->n - 2], s->v[s->n - 1], &fits);
    }
    if (!fits)
        expr_wrong(s->v[s->n - used], used > 1 ? s->v[s->n - used + 1] : NULL, c, ask, err);
    for (; used; used--)
        json_decref(s->v[--s->n]);
    if (!made)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for a value");
    s->v[s->n++] = made;
    return fits;
}

static bool expr_run(const struct expr *e, uint32_t n, struct stack *s, const struct expr_ask *ask,
                     struct zf_err *err)
{
    for (uint32_t i = 0; i < n; i++)
        if (!expr_step(s, &e->code[i], ask, err))
            return false;
    return true;
}

json_t *expr_value(const struct expr *e, const struct expr_ask *ask, struct zf_err *err)
{
    zf_auto(stack) struct stack s = {.n = 0};

    return expr_run(e, e->n, &s, ask, err) ? s.v[--s.n] : NULL;
}

/* Fails because the value of e does not have the expected type. */
static bool expr_other(const struct expr *e, const struct expr_ask *ask, const char *expected,
                       json_t *v, struct zf_err *err)
{
    zf_auto(mem) char *is = text_json(v, JSON_COMPACT);

    return text_fail(ask->file, ask->text, e->at, err, "expected %s, found %.60s", expected,
                     is ? is : "?");
}

bool expr_true(const struct expr *e, const struct expr_ask *ask, bool *out, struct zf_err *err)
{
    zf_auto(json) json_t *v = expr_value(e, ask, err);
    bool fits = true;

    *out = v && expr_truth(v, &fits);
    return v && (fits || expr_other(e, ask, "true or false", v, err));
}

bool expr_u64(const struct expr *e, const struct expr_ask *ask, uint64_t *out, struct zf_err *err)
{
    zf_auto(json) json_t *v = expr_value(e, ask, err);

    return v && (zf_json_u64(v, out) || expr_other(e, ask, "a number of elements", v, err));
}

bool expr_sides(const struct expr *e, const struct expr_ask *ask, json_t **left, json_t **right,
                struct zf_err *err)
{
    zf_auto(stack) struct stack s = {.n = 0};
    const struct code *last = &e->code[e->n - 1];

    *left = *right = NULL;
    if (last->kind != CODE_OP || last->op != OP_EQ)
        return true;
    if (!expr_run(e, e->n - 1, &s, ask, err))
        return false;
    *right = s.v[--s.n];
    *left = s.v[--s.n];
    return true;
}
