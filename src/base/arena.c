/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks double in size up to a maximum; memory is freed only all at once.  A request is checked
 * against the budget before memory is allocated for it. */
#include <zf/base/arena.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <zf/base/limits.h>
#include <zf/base/num.h>

/* Under the address sanitizer all but the returned memory is poisoned, with a gap between any two
 * allocations, so that an overflow is detected as with malloc. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GUARDED
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define GUARDED
#endif

#ifdef GUARDED
#include <sanitizer/asan_interface.h>
#define GAP 16u
#define HIDE(p, n) ASAN_POISON_MEMORY_REGION(p, n)
#define SHOW(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
#else
#define GAP 0u
#define HIDE(p, n) ((void)(p), (void)(n))
#define SHOW(p, n) ((void)(p), (void)(n))
#endif

/* A block is twice as large as the one before, up to BLOCK_MAX; larger requests get a block of
 * their own. */
#define BLOCK_MIN 4096
#define BLOCK_MAX (1u << 20)
#define ALIGN _Alignof(max_align_t)

struct arena_block {
    struct arena_block *next;
    size_t at,
        back; /* ends of the memory used from the front (aligned), and from the back (texts) */
    _Alignas(max_align_t) char data[];
};

/* The largest single request whose block size does not overflow. */
#define LARGEST (SIZE_MAX - ALIGN - GAP - sizeof(struct arena_block))

struct zf_arena {
    struct arena_block *head;
    uint64_t used, budget;
    size_t next_size;
};

struct zf_arena *zf_arena_new(uint64_t budget, struct zf_err *err)
{
    struct zf_arena *a = calloc(1, sizeof *a);

    if (!a)
        return zf_null(zf_fail_sys(err, "make an arena"));
    a->budget = budget;
    a->next_size = BLOCK_MIN;
    return a;
}

static bool arena_room(struct zf_arena *a, size_t n, struct zf_err *err)
{
    if (n > a->budget - a->used) {
        return zf_fail_limit(
            err, ZF_LIMIT_pickle_memory, ZF_OFF_NONE,
            "more than %llu bytes of memory are needed (limits pickle_memory, model_memory)",
            (unsigned long long)a->budget);
    }
    if (a->head && a->head->back - a->head->at >= n + GAP)
        return true;
    size_t size = n + GAP > a->next_size ? n + GAP : a->next_size;
    struct arena_block *b = calloc(1, sizeof *b + size);
    if (!b) {
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE,
                       "out of memory after %llu bytes (the limits pickle_memory and model_memory "
                       "would allow %llu)",
                       (unsigned long long)a->used, (unsigned long long)a->budget);
    }
    HIDE(b->data, size);
    b->back = size;
    b->next = a->head;
    if (a->next_size < BLOCK_MAX)
        a->next_size *= 2;
    a->head = b;
    return true;
}

void *zf_arena_get(struct zf_arena *a, uint64_t n, uint64_t size, struct zf_err *err)
{
    uint64_t bytes;

    if (!zf_mul(n, size, &bytes) || bytes > LARGEST) {
        return zf_null(zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE,
                               "%llu things of %llu bytes do not fit into memory",
                               (unsigned long long)n, (unsigned long long)size));
    }
    size_t take = ((size_t)bytes + ALIGN - 1) / ALIGN * ALIGN;
    take = take ? take : ALIGN;
    if (!arena_room(a, take, err))
        return NULL;
    void *p = a->head->data + a->head->at;
    a->head->at += take + GAP;
    a->used += take;
    SHOW(p, (size_t)bytes);
    return p;
}

void *zf_arena_copy(struct zf_arena *a, const void *p, uint64_t n, uint64_t size,
                    struct zf_err *err)
{
    void *copy = zf_arena_get(a, n, size, err);

    return copy && n > 0 ? memcpy(copy, p, (size_t)(n * size)) : copy;
}

char *zf_arena_str(struct zf_arena *a, const char *p, uint64_t n, struct zf_err *err)
{
    if (n > LARGEST - 1) {
        return zf_null(zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE,
                               "a text of %llu bytes does not fit into memory",
                               (unsigned long long)n));
    }
    size_t take = (size_t)n + 1;
    if (!arena_room(a, take, err))
        return NULL;
    /* From the back, so that texts of any length leave the front aligned. */
    char *out = a->head->data + a->head->back - take;
    a->head->back -= take + GAP;
    a->used += take;
    SHOW(out, take);
    if (n)
        memcpy(out, p, (size_t)n);
    out[n] = '\0';
    return out;
}

char *zf_arena_fmt(struct zf_arena *a, struct zf_err *err, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    char *text = NULL;
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (n < 0)
        return zf_null(zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory"));
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
    if (!a)
        return;
    while (a->head) {
        struct arena_block *next = a->head->next;

        free(a->head);
        a->head = next;
    }
    free(a);
}
