/* SPDX-License-Identifier: Apache-2.0 */
/* A growing piece of text, terminated, that may hold any bytes. */
#ifndef ZF_BASE_TEXT_H
#define ZF_BASE_TEXT_H

#include <zf/base/auto.h>
#include <zf/base/err.h>

/* {0} is an empty text; p is NULL until something (even nothing) was added. */
struct zf_text {
    char *p;
    size_t n, cap;
};

/* Appends p[n] and terminates.  p may not point into t.  Errors: ZF_E_NOMEM. */
bool zf_text_add(struct zf_text *t, const char *p, size_t n, struct zf_err *err) ZF_CHECKED;

/* Empties it and keeps the memory. */
static inline void zf_text_clear(struct zf_text *t)
{
    t->n = 0;
}

/* Cuts it to its first n bytes. */
static inline void zf_text_cut(struct zf_text *t, size_t n)
{
    if (n < t->n) {
        t->n = n;
        t->p[n] = '\0';
    }
}

static inline void zf_text_fini(struct zf_text *t)
{
    free(t->p);
    *t = (struct zf_text){0};
}

static inline void zf_auto_text(struct zf_text *t)
{
    zf_text_fini(t);
}

#endif
