/* SPDX-License-Identifier: Apache-2.0 */
/* A recipe as its lines say it; zerofs-recipe(5). */
#ifndef RECIPE_PARSE_H
#define RECIPE_PARSE_H

#include "expr.h"
#include "pattern.h"

/* Lines of one recipe with those it uses. */
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
    LINE_DEFAULT,  /* default KEY = EXPR: another config.json may say something else */
    LINE_DROP,     /* drop SOURCE "why" */
    LINE_RULE,     /* TARGET <- SOURCE */
};

/* One step on the way from a source to a target: a pattern, or a cut. */
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
    uint32_t n_names; /* A | B: the one that is there */
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
    bool one;                 /* of an index: it has this value alone */
    enum join join;
    uint32_t dim, n_origins;
    struct origin *origin; /* [n_origins] of a rule, or 1 of a drop */
};

/* A text that lines came from. */
struct text_file {
    const char *name, *p;
};

struct recipe {
    const char *name, *title;
    struct zf_arena *arena; /* all of it */
    struct line *line;
    uint32_t n;
};

/* Gives the text of the recipe that another one uses, or NULL. */
typedef const char *recipe_find_fn(void *ctx, const char *name);

/* Reads p[n], terminated, which `file` names in messages; copies what it keeps.
 * Errors: ZF_E_FORMAT "file:line:column: …"; ZF_E_LIMIT memory. */
struct recipe *recipe_parse(const char *file, const char *p, size_t n, recipe_find_fn *find,
                            void *ctx, struct zf_err *err) ZF_CHECKED;
void recipe_free(struct recipe *r); /* NULL is fine */
static inline void zf_auto_recipe(struct recipe **r)
{
    recipe_free(*r);
}

#endif
