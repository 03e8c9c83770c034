/* SPDX-License-Identifier: Apache-2.0 */
/* Sums, comparisons and questions in a recipe: `(heads + 2 * groups) * head_dim`, `has(lm_head.weight) and not tied`.
 * Compiled to a list that a stack works off; nothing calls itself. */
#ifndef RECIPE_EXPR_H
#define RECIPE_EXPR_H

#include <zf/base/arena.h>
#include <zf/codec/json.h>

#include "text.h"

struct code; /* one step of the list */
struct expr {
    struct code *code;
    uint32_t n;
    size_t at; /* byte of the text */
};

/* Answers what an expression asks.  Every value is a new reference. */
struct expr_ask {
    /* The value of a name, JSON's null where there is none; NULL without memory. */
    json_t *(*name)(void *ctx, const char *name);
    /* The answer of a function about tensors: has, dim, ndim, count, same, alike, zero, stripped.  k: the last argument of dim.
     * NULL with *err. */
    json_t *(*tensor)(void *ctx, const char *what, const char *name, int64_t k, struct zf_err *err);
    void *ctx;
    const char *file, *text; /* for messages */
};

/* Reads one from t, up to what cannot go on with it; all memory from a.
 * Errors: ZF_E_FORMAT syntax, an unknown function, too long or too deep. */
bool expr_parse(struct expr *e, struct text *t, struct zf_arena *a, struct zf_err *err) ZF_CHECKED;
/* Its value; a reference.  Errors: ZF_E_FORMAT a value of the wrong type, overflow, division that leaves a rest. */
json_t *expr_value(const struct expr *e, const struct expr_ask *ask, struct zf_err *err) ZF_CHECKED;
/* Is it true: not null, false or 0?  Errors: neither true nor false, nor a number of something. */
bool expr_true(const struct expr *e, const struct expr_ask *ask, bool *out,
               struct zf_err *err) ZF_CHECKED;
/* Its value as a number of elements.  Errors: it is none. */
bool expr_u64(const struct expr *e, const struct expr_ask *ask, uint64_t *out,
              struct zf_err *err) ZF_CHECKED;
/* If it ends in a comparison `a == b`, the values of both sides; else *left and *right are NULL. */
bool expr_sides(const struct expr *e, const struct expr_ask *ask, json_t **left, json_t **right,
                struct zf_err *err) ZF_CHECKED;
/* Equal as numbers are, or as JSON is. */
bool expr_equal(json_t *a, json_t *b);

#endif
