/* SPDX-License-Identifier: Apache-2.0 */
/* The threads that fetch ahead for sources whose fetching may hang, as a system call on a file of a
 * network does.  There are a few, made when they are needed; only one of them is ever in one
 * source, so that a file that hangs holds up itself, and what cannot be taken up is forgotten: it
 * was only advice.  Others, many, are for fetching that waits for each answer: they take what was named in pieces, and
 * nearly all of them may be in one source. */
#ifndef SOURCE_WANT_H
#define SOURCE_WANT_H

#include <zf/source/want.h>

typedef void want_fetch_fn(struct zf_source *s, uint64_t off, uint64_t n);

/* Calls fetch_fn(s, off, n) from another thread, some time.  Holds a reference on s until then. */
void want_later(struct zf_source *s, uint64_t off, uint64_t n, want_fetch_fn *fetch_fn);

/* The same in pieces, each from a thread of its own, up to the next multiple of `piece` bytes each. */
void want_pieces(struct zf_source *s, uint64_t off, uint64_t n, uint64_t piece,
                 want_fetch_fn *fetch_fn);

#endif
