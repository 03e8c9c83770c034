/* SPDX-License-Identifier: Apache-2.0 */
/* Memory with one lifetime, freed at once.  It has a budget, so hostile input cannot exhaust the machine's memory. */
#ifndef ZF_BASE_ARENA_H
#define ZF_BASE_ARENA_H

#include <zf/base/auto.h>
#include <zf/base/err.h>

struct zf_arena;

/* Makes an empty arena that hands out at most `budget` bytes.  Errors: ZF_E_NOMEM. */
struct zf_arena *zf_arena_new(uint64_t budget, struct zf_err *err) ZF_CHECKED;

/* Memory for n elements of `size` bytes, zeroed, aligned for any type; lives as long as the arena.  n * size = 0 gives
 * a non-NULL pointer.  Errors: ZF_E_LIMIT the budget is exhausted, or the system is out of memory. */
void *zf_arena_get(struct zf_arena *a, uint64_t n, uint64_t size, struct zf_err *err) ZF_CHECKED;

/* The same, with a copy of the n elements at p, which is not read if n = 0. */
void *zf_arena_copy(struct zf_arena *a, const void *p, uint64_t n, uint64_t size,
                    struct zf_err *err) ZF_CHECKED;

/* A terminated copy of n bytes, packed without alignment (names are many and short). */
char *zf_arena_str(struct zf_arena *a, const char *p, uint64_t n, struct zf_err *err) ZF_CHECKED;

/* printf into the arena. */
char *zf_arena_fmt(struct zf_arena *a, struct zf_err *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4))) ZF_CHECKED;

/* Bytes handed out so far, padding included. */
uint64_t zf_arena_used(const struct zf_arena *a);

/* NULL is fine. */
void zf_arena_free(struct zf_arena *a);

static inline void zf_auto_arena(struct zf_arena **a)
{
    zf_arena_free(*a);
}

#endif
