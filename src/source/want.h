/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that prefetch for sources where that may hang, as a system call on a network file does.
 * A few threads, started on demand, do whole jobs, at most one per source, so that a hanging file
 * blocks only itself; a job that finds no room is dropped, since it is only advice.  Many others
 * fetch in pieces, where each request waits for its answer; nearly all of them may work on one source. */
#ifndef SOURCE_WANT_H
#define SOURCE_WANT_H

#include <zf/source/want.h>

typedef void want_fetch_fn(struct zf_source *s, uint64_t off, uint64_t n);

/* Calls fetch_fn(s, off, n) later, from another thread.  Holds a reference on s until then. */
void want_later(struct zf_source *s, uint64_t off, uint64_t n, want_fetch_fn *fetch_fn);

/* The same in pieces, in several threads; each piece ends at the next multiple of `piece` bytes. */
void want_pieces(struct zf_source *s, uint64_t off, uint64_t n, uint64_t piece,
                 want_fetch_fn *fetch_fn);

#endif
