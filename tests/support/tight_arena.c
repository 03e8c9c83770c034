/* SPDX-License-Identifier: Apache-2.0 */
/* An arena that asks the heap for every single thing.  Linked into a test it stands in for zf/base/arena.h's, whose blocks
 * have room for most of what is asked for; so each request can be the one that fails (broken_io.h). */
#include <zf/base/arena.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/num.h>

struct thing {
    struct thing *next;
    _Alignas(max_align_t) char data[];
};

struct zf_arena {
    struct thing *all;
    uint64_t used, budget;
};

struct zf_arena *zf_arena_new(uint64_t budget, struct zf_err *err)
{
    struct zf_arena *a = calloc(1, sizeof *a);

    if (!a) {
        (void)zf_fail_sys(err, "make an arena");
        return NULL;
    }
    a->budget = budget;
    return a;
}

void *zf_arena_get(struct zf_arena *a, uint64_t n, uint64_t size, struct zf_err *err)
{
    uint64_t bytes;

    if (!zf_mul(n, size, &bytes) || bytes > a->budget - a->used) {
        (void)zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "more than the budget");
        return NULL;
    }
    struct thing *t = calloc(1, sizeof *t + bytes);
    if (!t) {
        (void)zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
        return NULL;
    }
    t->next = a->all;
    a->all = t;
    a->used += bytes;
    return t->data;
}

void *zf_arena_copy(struct zf_arena *a, const void *p, uint64_t n, uint64_t size,
                    struct zf_err *err)
{
    void *out = zf_arena_get(a, n, size, err);

    if (out && n > 0)
        memcpy(out, p, n * size);
    return out;
}

char *zf_arena_str(struct zf_arena *a, const char *p, uint64_t n, struct zf_err *err)
{
    char *out = zf_arena_get(a, n + 1, 1, err);

    if (out && n)
        memcpy(out, p, n);
    return out;
}

char *zf_arena_fmt(struct zf_arena *a, struct zf_err *err, const char *fmt, ...)
{
    char *text = NULL;
    va_list ap;

    va_start(ap, fmt);
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (n < 0) {
        (void)zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
        return NULL;
    }
    char *out = zf_arena_str(a, text, (uint64_t)n, err);
    free(text);
    return out;
}

uint64_t zf_arena_used(const struct zf_arena *a)
{
    return a->used;
}

void zf_arena_free(struct zf_arena *a)
{
    while (a && a->all) {
        struct thing *next = a->all->next;

        free(a->all);
        a->all = next;
    }
    free(a);
}
