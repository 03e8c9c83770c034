/* SPDX-License-Identifier: Apache-2.0 */
#include "parse.h"

#include <string.h>

#include <zf/base/vec.h>

/* Limits for the memory of one recipe, and for the bytes of its text. */
#define MAX_MEMORY (16ull << 20)
#define MAX_TEXT (1u << 20)
#define MAX_DEPTH 2

struct reader {
    struct text *t;
    struct recipe *r;
    const struct text_file *of;
    recipe_find_fn *find;
    void *ctx;
    struct text_file *uses; /* the used file, to be read next; or NULL */
    uint32_t depth;         /* of the recipes that use this one, one another */
    zf_vec(struct line) lines;
};

/* ---- pieces of a line ------------------------------------------------------------------------- */

static bool parse_wrong(struct reader *p, struct zf_err *err, const char *what)
{
    return text_fail(p->t->file, p->t->p, p->t->now.at, err, "expected %s here", what);
}

static const char *parse_word(struct reader *p, const char *what, struct zf_err *err)
{
    if (p->t->now.kind != TOKEN_WORD && !text_is(p->t, "*")) {
        (void)parse_wrong(p, err, what);
        return NULL;
    }
    const char *s = zf_arena_str(p->r->arena, p->t->now.p, p->t->now.n, err);
    return s && text_next(p->t, err) ? s : NULL;
}

static const char *parse_string(struct reader *p, const char *what, struct zf_err *err)
{
    if (p->t->now.kind != TOKEN_STRING) {
        (void)parse_wrong(p, err, what);
        return NULL;
    }
    const char *s = zf_arena_str(p->r->arena, p->t->now.p, p->t->now.n, err);
    return s && text_next(p->t, err) ? s : NULL;
}

static bool parse_expr(struct reader *p, struct expr **out, struct zf_err *err)
{
    *out = zf_arena_get(p->r->arena, 1, sizeof **out, err);
    return *out && expr_parse(*out, p->t, p->r->arena, err);
}

static bool parse_cond(struct reader *p, struct line *l, struct zf_err *err)
{
    bool is;

    return text_take(p->t, "if", &is, err) && (!is || parse_expr(p, &l->cond, err));
}

/* ---- sources ---------------------------------------------------------------------------------- */

/* Parses one element of [a:b, :, k], up to its comma or bracket. */
static bool parse_cut(struct reader *p, struct cut *c, struct zf_err *err)
{
    bool colon;

    c->has_from = !text_is(p->t, ":");
    if ((c->has_from && !expr_parse(&c->from, p->t, p->r->arena, err)) ||
        !text_take(p->t, ":", &colon, err))
        return false;
    c->one = !colon;
    c->has_to = colon && !text_is(p->t, ",") && !text_is(p->t, "]");
    c->all = !c->one && !c->has_from && !c->has_to;
    return !c->has_to || expr_parse(&c->to, p->t, p->r->arena, err);
}

static bool parse_step(struct reader *p, struct step *s, struct zf_err *err)
{
    bool more = true;

    s->at = p->t->now.at;
    if (p->t->now.kind == TOKEN_STRING) {
        struct pattern *made = zf_arena_get(p->r->arena, 1, sizeof *made, err);
        const struct token now = p->t->now;
        struct zf_err why;

        if (!made)
            return false;
        s->pattern = made;
        return pattern_parse(made, now.p, now.n, p->r->arena, &why)
                   ? text_next(p->t, err)
                   : text_fail(p->t->file, p->t->p, s->at, err, "%s", why.msg);
    }
    if (!text_expect(p->t, "[", err))
        return false;
    while (more) {
        if (s->n_cuts == MAX_AXES)
            return text_fail(p->t->file, p->t->p, s->at, err, "more than %d axes", MAX_AXES);
        if (!parse_cut(p, &s->cut[s->n_cuts++], err) || !text_take(p->t, ",", &more, err))
            return false;
    }
    return text_expect(p->t, "]", err);
}

/* Parses NAME [| NAME …] [STEP …]. */
static bool parse_origin(struct reader *p, struct origin *o, struct zf_err *err)
{
    struct step step[MAX_STEPS] = {{.pattern = NULL}};
    bool more = true;

    o->at = p->t->now.at;
    while (more) {
        if (o->n_names == MAX_NAMED)
            return parse_wrong(p, err, "an end of the alternatives");
        o->name[o->n_names] = parse_word(p, "the name of a tensor of the checkpoint", err);
        if (!o->name[o->n_names++] || !text_take(p->t, "|", &more, err))
            return false;
    }
    while (p->t->now.kind == TOKEN_STRING || text_is(p->t, "[")) {
        if (o->n_steps == MAX_STEPS)
            return parse_wrong(p, err, "an end of the patterns and cuts");
        if (!parse_step(p, &step[o->n_steps++], err))
            return false;
    }
    o->step = zf_arena_copy(p->r->arena, step, o->n_steps, sizeof *step, err);
    return o->step != NULL;
}

/* Parses cat(DIM, SOURCE, …) and stack(DIM, …), after the opening bracket. */
static bool parse_join(struct reader *p, struct line *l, struct zf_err *err)
{
    zf_vec(struct origin) all = {0};
    bool ok = true, more = false;

    if (p->t->now.kind != TOKEN_NUMBER || p->t->now.n != 1 || *p->t->now.p < '0')
        return parse_wrong(p, err, "a dimension from 0 to 9");
    l->dim = (uint32_t)(*p->t->now.p - '0');
    if (!text_next(p->t, err) || !text_expect(p->t, ",", err))
        return false;
    do {
        ok = zf_vec_room(&all, 1, err);
        if (ok) {
            all.at[all.n] = (struct origin){.n_names = 0};
            ok = parse_origin(p, &all.at[all.n++], err) && text_take(p->t, ",", &more, err);
        }
    } while (ok && more);
    l->n_origins = (uint32_t)all.n;
    l->origin = ok ? zf_arena_copy(p->r->arena, all.at, all.n, sizeof *all.at, err) : NULL;
    zf_vec_fini(&all);
    return l->origin && text_expect(p->t, ")", err);
}

static bool parse_sources(struct reader *p, struct line *l, struct zf_err *err)
{
    struct origin one = {.at = p->t->now.at};
    const bool cat = text_is(p->t, "cat"), stack = text_is(p->t, "stack");
    const char *s = p->t->p + p->t->now.at + p->t->now.n;

    if ((cat || stack) && *s == '(') {
        l->join = cat ? JOIN_CAT : JOIN_STACK;
        return text_next(p->t, err) && text_next(p->t, err) && parse_join(p, l, err);
    }
    if (!parse_origin(p, &one, err))
        return false;
    l->n_origins = 1;
    l->origin = zf_arena_copy(p->r->arena, &one, 1, sizeof one, err);
    return l->origin != NULL;
}

/* ---- lines ------------------------------------------------------------------------------------ */

/* Parses NAME = EXPR [for INDEX] [if EXPR] ["text"]. */
static bool parse_assign(struct reader *p, struct line *l, const char *sign, struct zf_err *err)
{
    l->name = parse_word(p, "a name", err);
    if (!l->name || (l->kind == LINE_INDEX && !text_take(p->t, "=", &l->one, err)) ||
        (!l->one && !text_expect(p->t, sign, err)) || !parse_expr(p, &l->expr, err))
        return false;
    if (l->kind == LINE_LIST) {
        if (!text_expect(p->t, "for", err))
            return false;
        l->text = parse_word(p, "an index", err);
        if (!l->text)
            return false;
    }
    if (!parse_cond(p, l, err))
        return false;
    if (l->kind == LINE_SIZE && p->t->now.kind == TOKEN_STRING)
        l->text = parse_string(p, "a text", err);
    return true;
}

/* Parses EXPR "text" [if EXPR]. */
static bool parse_claim(struct reader *p, struct line *l, struct zf_err *err)
{
    if (!parse_expr(p, &l->expr, err))
        return false;
    l->text = parse_string(p, "a sentence in quotes", err);
    return l->text && parse_cond(p, l, err);
}

static bool parse_drop(struct reader *p, struct line *l, struct zf_err *err)
{
    struct origin one = {.at = p->t->now.at};
    struct step step[MAX_STEPS] = {{.pattern = NULL}};

    one.name[one.n_names++] = parse_word(p, "the name of a tensor of the checkpoint", err);
    if (!one.name[0])
        return false;
    while (text_is(p->t, "[")) {
        if (one.n_steps == MAX_STEPS)
            return parse_wrong(p, err, "an end of the cuts");
        if (!parse_step(p, &step[one.n_steps++], err))
            return false;
    }
    one.step = zf_arena_copy(p->r->arena, step, one.n_steps, sizeof *step, err);
    l->n_origins = 1;
    l->origin = one.step ? zf_arena_copy(p->r->arena, &one, 1, sizeof one, err) : NULL;
    if (!l->origin)
        return false;
    l->text = parse_string(p, "the reason for leaving it out, in quotes,", err);
    return l->text && parse_cond(p, l, err);
}

static bool parse_use(struct reader *p, struct zf_err *err)
{
    const size_t at = p->t->now.at;
    const char *name = parse_word(p, "the name of another recipe", err);
    const char *text = name && p->find ? p->find(p->ctx, name) : NULL;

    if (!name)
        return false;
    if (!text || p->depth == MAX_DEPTH) {
        return text_fail(p->t->file, p->t->p, at, err,
                         p->depth == MAX_DEPTH ? "a recipe that a used one uses cannot use another"
                                               : "there is no recipe %.40s to use",
                         name);
    }
    p->uses = zf_arena_get(p->r->arena, 1, sizeof *p->uses, err);
    if (p->uses)
        *p->uses = (struct text_file){name, text};
    return p->uses != NULL;
}

/* Parses a line whose keyword is followed by one or two words. */
static bool parse_words(struct reader *p, struct line *l, struct zf_err *err)
{
    bool is;

    l->name = parse_word(p, "a name", err);
    if (!l->name)
        return false;
    switch (l->kind) {
    case LINE_TITLE:
        l->text = parse_string(p, "a title in quotes", err);
        if (p->depth == 0) {
            p->r->name = l->name;
            p->r->title = l->text;
        }
        return l->text != NULL;
    case LINE_MODEL:
        l->text = parse_word(p, "a model_type", err);
        return l->text && parse_cond(p, l, err);
    case LINE_STRIP:
        if (!text_take(p->t, "before", &is, err))
            return false;
        l->text = is ? parse_word(p, "the beginning of a name", err) : NULL;
        return !is || l->text;
    default:
        l->text = p->t->now.kind == TOKEN_WORD && !text_is(p->t, "if")
                      ? parse_word(p, "a path", err)
                      : "";
        return l->text && parse_cond(p, l, err);
    }
}

static const struct {
    const char *word;
    enum line_kind kind;
} keywords[] = {
    {"recipe", LINE_TITLE},  {"model", LINE_MODEL},     {"settings", LINE_SETTINGS},
    {"strip", LINE_STRIP},   {"need", LINE_NEED},       {"refuse", LINE_REFUSE},
    {"note", LINE_NOTE},     {"check", LINE_CHECK},     {"let", LINE_LET},
    {"size", LINE_SIZE},     {"index", LINE_INDEX},     {"list", LINE_LIST},
    {"config", LINE_CONFIG}, {"default", LINE_DEFAULT}, {"drop", LINE_DROP},
    {"also", LINE_ALSO},
};

static bool parse_keyword(struct reader *p, struct line *l, struct zf_err *err)
{
    switch (l->kind) {
    case LINE_NEED:
    case LINE_REFUSE:
    case LINE_NOTE:
    case LINE_CHECK:
        return parse_claim(p, l, err);
    case LINE_INDEX:
        return parse_assign(p, l, "<", err);
    case LINE_LET:
    case LINE_SIZE:
    case LINE_LIST:
    case LINE_CONFIG:
    case LINE_DEFAULT:
        return parse_assign(p, l, "=", err);
    case LINE_DROP:
        return parse_drop(p, l, err);
    default:
        return parse_words(p, l, err);
    }
}

/* Parses one statement, whose first word is `now`. */
static bool parse_line(struct reader *p, struct zf_err *err)
{
    const struct token first = p->t->now;
    bool use;

    if (p->lines.n == MAX_LINES)
        return text_fail(p->t->file, p->t->p, first.at, err, "more than %d lines", MAX_LINES);
    if (!text_take(p->t, "use", &use, err))
        return false;
    if (use)
        return parse_use(p, err);
    struct line *l = zf_vec_push(&p->lines, err);
    if (!l)
        return false;
    *l = (struct line){.kind = LINE_RULE, .of = p->of, .at = first.at};
    for (size_t i = 0; i < sizeof keywords / sizeof keywords[0]; i++) {
        if (text_is(p->t, keywords[i].word)) {
            l->kind = keywords[i].kind;
            return text_next(p->t, err) && parse_keyword(p, l, err);
        }
    }
    l->name = parse_word(p, "a keyword, or the name of a tensor of the model,", err);
    return l->name && text_expect(p->t, "<-", err) && parse_sources(p, l, err) &&
           parse_cond(p, l, err);
}

static bool parse_file(struct reader *p, struct text *t, struct zf_err *err);

/* Parses the lines of a recipe that this one uses. */
static bool parse_used(struct reader *p, struct zf_err *err)
{
    struct text *outer = p->t, t;
    const struct text_file *of = p->of;

    p->of = p->uses;
    p->uses = NULL;
    p->depth++;
    const bool ok =
        text_begin(&t, p->of->name, p->of->p, strlen(p->of->p), err) && parse_file(p, &t, err);
    p->depth--;
    p->t = outer;
    p->of = of;
    return ok;
}

static bool parse_file(struct reader *p, struct text *t, struct zf_err *err)
{
    p->t = t;
    while (t->now.kind != TOKEN_END) {
        if (t->now.kind == TOKEN_LINE) {
            if (!text_next(t, err))
                return false;
            continue;
        }
        if (!parse_line(p, err))
            return false;
        if (t->now.kind != TOKEN_LINE && t->now.kind != TOKEN_END)
            return parse_wrong(p, err, "the end of the line");
        if (p->uses && !parse_used(p, err))
            return false;
    }
    return true;
}

static void zf_auto_reader(struct reader *p)
{
    zf_vec_fini(&p->lines);
}

struct recipe *recipe_parse(const char *file, const char *p, size_t n, recipe_find_fn *find,
                            void *ctx, struct zf_err *err)
{
    zf_auto(arena) struct zf_arena *a = zf_arena_new(MAX_MEMORY, err);
    struct recipe *r = a ? zf_arena_get(a, 1, sizeof *r, err) : NULL;
    struct text_file *of = r ? zf_arena_get(a, 1, sizeof *of, err) : NULL;
    struct text t;

    if (!of)
        return NULL;
    if (n > MAX_TEXT) {
        return zf_null(zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE,
                               "%.64s: the recipe has more than %u bytes", file, MAX_TEXT));
    }
    *of = (struct text_file){zf_arena_str(a, file, strlen(file), err), zf_arena_str(a, p, n, err)};
    r->arena = a;
    r->name = r->title = of->name;
    zf_auto(reader) struct reader reader = {.r = r, .of = of, .find = find, .ctx = ctx};
    if (!of->name || !of->p || !text_begin(&t, of->name, of->p, n, err) ||
        !parse_file(&reader, &t, err))
        return NULL;
    r->n = (uint32_t)reader.lines.n;
    if (r->n == 0)
        return zf_null(text_fail(of->name, of->p, 0, err, "there is no rule that makes a tensor"));
    r->line = zf_arena_copy(a, reader.lines.at, r->n, sizeof *r->line, err);
    if (!r->line)
        return NULL;
    a = NULL; /* the recipe owns it now */
    return r;
}

void recipe_free(struct recipe *r)
{
    if (r)
        zf_arena_free(r->arena);
}
