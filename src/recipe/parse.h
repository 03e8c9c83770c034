/* SPDX-License-Identifier: Apache-2.0 */
/* The text of a recipe: words, expressions, patterns of axes, lines; see zerofs-recipe(5). */
#ifndef RECIPE_PARSE_H
#define RECIPE_PARSE_H

#include <stdint.h>

#include <zf/base/arena.h>
#include <zf/base/err.h>
#include <zf/codec/json.h>

/* ---- text ------------------------------------------------------------------------------------ */

enum token_kind {
    TOKEN_END,    /* end of the text */
    TOKEN_LINE,   /* end of a statement */
    TOKEN_WORD,   /* a name: letters, digits, _ . * / - and {…} */
    TOKEN_NUMBER, /* an integer or a decimal */
    TOKEN_STRING, /* without its quotes; has no escapes */
    TOKEN_MARK,   /* operators and brackets */
};

struct token {
    enum token_kind kind;
    const char *p; /* points into the text */
    size_t n;
    size_t at; /* offset in the text */
};

struct text {
    const char *file; /* for messages */
    const char *p;    /* NUL-terminated, without other NULs */
    size_t n;
    size_t next;      /* offset of the next byte to read */
    struct token now; /* the last token that was read */
};

/* Reads the first token.  p[n] is NUL-terminated, and borrowed.  Errors: ZF_E_FORMAT a zero byte; of text_next. */
bool text_begin(struct text *t, const char *file, const char *p, size_t n,
                struct zf_err *err) ZF_CHECKED;
/* Reads the next token.  Errors: ZF_E_FORMAT a character that starts no token, an unterminated string. */
bool text_next(struct text *t, struct zf_err *err) ZF_CHECKED;
/* Is the last token this word or mark? */
bool text_is(const struct text *t, const char *s);
/* If the last token is s, reads the next one and sets *was_out. */
bool text_take(struct text *t, const char *s, bool *was_out, struct zf_err *err) ZF_CHECKED;
/* Skips this mark or word.  Errors: ZF_E_FORMAT the last token is something else. */
bool text_expect(struct text *t, const char *s, struct zf_err *err) ZF_CHECKED;
/* Fails with ZF_E_FORMAT; the error's path is "file:line:column", of byte `at`.  Returns false. */
bool text_fail(const char *file, const char *p, size_t at, struct zf_err *err, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
/* v as JSON, with as few digits as give the same numbers back; flags: of json_dumps().  The caller frees it; NULL: out
 * of memory. */
char *text_json(const json_t *v, size_t flags);

/* ---- expr ------------------------------------------------------------------------------------ */

struct code; /* one step of the postfix code */
struct expr {
    struct code *code;
    uint32_t n;
    size_t at; /* offset in the text */
};

/* Callbacks for the queries of an expression.  Every value is a new reference. */
struct expr_ask {
    /* The value of a name; JSON's null if there is none; NULL: out of memory. */
    json_t *(*name)(void *ctx, const char *name);
    /* The result of a function about tensors: has, dim, ndim, count, same, alike, zero, stripped.  k: the last argument
     * of dim.  NULL: failure, in *err. */
    json_t *(*tensor)(void *ctx, const char *what, const char *name, int64_t k, struct zf_err *err);
    void *ctx;
    const char *file, *text; /* for messages */
};

/* Parses an expression from t, up to the first token that cannot continue it; all memory from a.
 * Errors: ZF_E_FORMAT syntax, an unknown function, too long or too deep. */
bool expr_parse(struct expr *e, struct text *t, struct zf_arena *a, struct zf_err *err) ZF_CHECKED;
/* Its value; a reference.  Errors: ZF_E_FORMAT a value of the wrong type, overflow, a division with a remainder. */
json_t *expr_value(const struct expr *e, const struct expr_ask *ask, struct zf_err *err) ZF_CHECKED;
/* Is it true: not null, false or 0?  Errors: it is neither a truth value nor a count (an integer of at least 0). */
bool expr_true(const struct expr *e, const struct expr_ask *ask, bool *out,
               struct zf_err *err) ZF_CHECKED;
/* Its value as a number of elements.  Errors: it is not one. */
bool expr_u64(const struct expr *e, const struct expr_ask *ask, uint64_t *out,
              struct zf_err *err) ZF_CHECKED;
/* If it ends in a comparison `a == b`, the values of both sides; else *left and *right are NULL. */
bool expr_sides(const struct expr *e, const struct expr_ask *ask, json_t **left, json_t **right,
                struct zf_err *err) ZF_CHECKED;
/* Are a and b equal as numbers, or as JSON? */
bool expr_equal(json_t *a, json_t *b);

/* ---- pattern --------------------------------------------------------------------------------- */

/* Limits for the axes of one tensor, and for the names in one pattern. */
#define MAX_AXES 12
#define MAX_NAMES 16

/* "(g m d) c -> g m d c": for each side its axes, and the names that each axis joins. */
struct pattern {
    const char *text;
    uint32_t n_names;
    const char *name[MAX_NAMES];
    struct pattern_side {
        uint32_t n_axes, n;      /* n: number of names */
        uint8_t begin[MAX_AXES]; /* the first name of each axis */
        uint8_t name[MAX_NAMES];
    } left, right;
};

/* Parses text[n]; memory from a.  Errors: ZF_E_FORMAT a name occurs twice on a side, or on one only; too many names. */
bool pattern_parse(struct pattern *p, const char *text, size_t n, struct zf_arena *a,
                   struct zf_err *err) ZF_CHECKED;

/* Index of the name after the last one of an axis. */
uint32_t pattern_end(const struct pattern_side *s, uint32_t axis);

/* ---- parse ----------------------------------------------------------------------------------- */
/* A recipe, line by line; see zerofs-recipe(5). */

/* Most lines of a recipe, including the recipes it uses. */
#define MAX_LINES 2000

enum line_kind {
    LINE_TITLE,    /* recipe NAME "title" */
    LINE_MODEL,    /* model ARCHITECTURE TYPE */
    LINE_SETTINGS, /* settings FILE [PATH] */
    LINE_ALSO,     /* also FILE */
    LINE_STRIP,    /* strip FRONT [before TEXT] */
    LINE_NEED,     /* need EXPR "why not" */
    LINE_REFUSE,   /* refuse EXPR "why not" */
    LINE_NOTE,     /* note EXPR "what is odd" */
    LINE_CHECK,    /* check EXPR "what" */
    LINE_LET,      /* let NAME = EXPR */
    LINE_SIZE,     /* size NAME = EXPR "where it would come from" */
    LINE_INDEX,    /* index NAME < EXPR, index NAME = EXPR */
    LINE_LIST,     /* list NAME = EXPR for INDEX */
    LINE_CONFIG,   /* config KEY = EXPR */
    LINE_DEFAULT,  /* default KEY = EXPR: an existing config.json may have another value */
    LINE_DROP,     /* drop SOURCE "why" */
    LINE_RULE,     /* TARGET <- SOURCE */
};

/* One transformation of a source into a target: a pattern, or a cut. */
struct step {
    const struct pattern *pattern; /* NULL: a cut */
    uint32_t n_cuts;
    struct cut {
        bool all, one; /* ":", a single position */
        bool has_from, has_to;
        struct expr from, to; /* one: from */
    } cut[MAX_AXES];
    size_t at;
};

#define MAX_NAMED 4
#define MAX_STEPS 8

struct origin {
    uint32_t n_names; /* A | B: whichever exists */
    const char *name[MAX_NAMED];
    uint32_t n_steps;
    struct step *step; /* [n_steps] */
    size_t at;
};

enum join { JOIN_NONE, JOIN_CAT, JOIN_STACK };

struct line {
    enum line_kind kind;
    const struct text_file *of;
    size_t at;
    const char *name, *text;  /* text: in quotes, or a second word */
    struct expr *expr, *cond; /* NULL = none */
    bool one;                 /* of an index: this is its only value */
    enum join join;
    uint32_t dim, n_origins;
    struct origin *origin; /* [n_origins] of a rule; 1 of a drop */
};

/* A text that lines were parsed from. */
struct text_file {
    const char *name, *p;
};

struct recipe {
    const char *name, *title;
    struct zf_arena *arena; /* owns all memory of the recipe */
    struct line *line;
    uint32_t n;
};

/* Returns the text of a recipe that another one uses, or NULL. */
typedef const char *recipe_find_fn(void *ctx, const char *name);

/* Parses p[n], NUL-terminated; messages call it `file`.  Copies what it keeps.
 * Errors: ZF_E_FORMAT "file:line:column: …"; ZF_E_LIMIT memory. */
struct recipe *recipe_parse(const char *file, const char *p, size_t n, recipe_find_fn *find,
                            void *ctx, struct zf_err *err) ZF_CHECKED;
void recipe_free(struct recipe *r); /* NULL is fine */
static inline void zf_auto_recipe(struct recipe **r)
{
    recipe_free(*r);
}

/* ---- library --------------------------------------------------------------------------------- */

struct library_text {
    const char *name, *text;
};
/* The i-th text by name; NULL = no more.  Texts whose names start with '_' are only used by others. */
const struct library_text *library_at(uint32_t i);
/* The text of a recipe, by its name, or NULL (recipe_find_fn). */
const char *library_find(void *ctx, const char *name);

#endif
