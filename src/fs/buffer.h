/* SPDX-License-Identifier: Apache-2.0 */
/* Reply buffers, page-aligned, shared by all serving threads.  The kernel wakes threads in turn, so
 * that with a buffer each a single reader's bytes would go through memory that nobody has touched
 * for a dozen requests.  So the buffer that was given back last, which is still in the processor's
 * cache, is the one that is lent next. */
#ifndef ZF_FS_BUFFER_H
#define ZF_FS_BUFFER_H

#include <stddef.h>

#include <zf/base/auto.h>

struct buffer {
    char *at;
    size_t cap;
    struct buffer *next; /* of those that are not lent */
};

/* Lends a buffer with room for at least n bytes, or gives NULL.  What is in it is anything. */
struct buffer *buffer_take(size_t n);
/* Takes it back; NULL is nothing.  Not many are kept. */
void buffer_give(struct buffer *b);

static inline void zf_auto_buffer(struct buffer **b)
{
    buffer_give(*b);
}

#endif
