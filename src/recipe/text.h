/* SPDX-License-Identifier: Apache-2.0 */
/* The words of a recipe.  A statement is a line and the lines after it that begin with a blank; '#' begins a comment.
 * The grammar is in zerofs-recipe(5). */
#ifndef RECIPE_TEXT_H
#define RECIPE_TEXT_H

#include <zf/base/err.h>

enum token_kind {
    TOKEN_END,    /* of the text */
    TOKEN_LINE,   /* a statement ends */
    TOKEN_WORD,   /* a name: letters, digits, _ . * / - and {…} */
    TOKEN_NUMBER, /* an integer or a decimal */
    TOKEN_STRING, /* without its quotes; has no escapes */
    TOKEN_MARK,   /* operators and brackets */
};

struct token {
    enum token_kind kind;
    const char *p; /* in the text */
    size_t n;
    size_t at; /* byte of the text */
};

struct text {
    const char *file; /* for messages */
    const char *p;    /* terminated, without zero bytes before */
    size_t n;
    size_t next;      /* byte that is not read yet */
    struct token now; /* the last one that was read */
};

/* Reads the first token.  p[n] is terminated, and borrowed.  Errors: ZF_E_FORMAT a zero byte, and of text_next. */
bool text_begin(struct text *t, const char *file, const char *p, size_t n,
                struct zf_err *err) ZF_CHECKED;
/* Reads the next token.  Errors: ZF_E_FORMAT a character that begins none, a string without end. */
bool text_next(struct text *t, struct zf_err *err) ZF_CHECKED;
/* Is the last token this word or mark? */
bool text_is(const struct text *t, const char *s);
/* The same, and then the next one is read: *was_out. */
bool text_take(struct text *t, const char *s, bool *was_out, struct zf_err *err) ZF_CHECKED;
/* Reads on behind this mark or word.  Errors: ZF_E_FORMAT it is something else. */
bool text_expect(struct text *t, const char *s, struct zf_err *err) ZF_CHECKED;
/* Fills *err with "file:line:column: sentence" for byte `at`; returns false. */
bool text_fail(const char *file, const char *p, size_t at, struct zf_err *err, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

#endif
