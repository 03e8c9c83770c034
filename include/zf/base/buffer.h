/* SPDX-License-Identifier: Apache-2.0 */
/* Page-aligned memory for replies and for what is read before it is put in place, shared by all threads and
 * used again: the kernel clears fresh memory, which costs more than filling it.  The kernel wakes serving
 * threads in turn, so that with a buffer each a single reader's bytes would go through memory that
 * nobody has touched for a dozen requests; so the buffer that was given back last, which is still in
 * the processor's cache, is the one that is lent next.  Not on the stack, of which a thread has 2 MiB
 * where `ulimit -s` says unlimited. */
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

/* Lends a buffer with room for at least n bytes, whose contents mean nothing; NULL without memory. */
struct zf_buffer *zf_buffer_take(size_t n);
/* Takes it back; NULL is fine.  Not many are kept. */
void zf_buffer_give(struct zf_buffer *b);

static inline void zf_auto_buffer(struct zf_buffer **b)
{
    zf_buffer_give(*b);
}

#endif
