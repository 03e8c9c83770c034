/* SPDX-License-Identifier: Apache-2.0 */
/* Page-aligned buffers for replies and intermediate reads, shared by all threads and reused, because the kernel clears
 * fresh memory, which costs more than filling it.  The kernel wakes serving threads in turn, so with one buffer per
 * thread a single reader's bytes would go through memory that was not used for a dozen requests; instead, the buffer
 * returned last, which is still in the CPU's cache, is lent next.  Not on the stack, of which a thread has 2 MiB if
 * `ulimit -s` is unlimited. */
#ifndef ZF_BASE_BUFFER_H
#define ZF_BASE_BUFFER_H

#include <stddef.h>

#include <zf/base/auto.h>

/* The usual size of a request, and the least size of a buffer. */
#define ZF_BUFFER_BYTES (1u << 20)

struct zf_buffer {
    char *at;
    size_t cap;
    struct zf_buffer *next; /* of those that are not lent */
};

/* Lends a buffer of at least n bytes with undefined contents; NULL if memory ran out. */
struct zf_buffer *zf_buffer_take(size_t n);
/* Takes it back; NULL is fine.  Not many are kept. */
void zf_buffer_give(struct zf_buffer *b);

static inline void zf_auto_buffer(struct zf_buffer **b)
{
    zf_buffer_give(*b);
}

#endif
