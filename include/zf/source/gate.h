/* SPDX-License-Identifier: Apache-2.0 */
/* How many threads may wait for one file at once, and who waits without a thread.
 *
 * Storage may hang, for one file or for all.  A thread that reads then hangs with it, so as long as
 * only a limited number may read one file, and all files together, there is always one left for what
 * needs no file or another one.  A read that finds a file's share used up fails with ZF_E_BUSY in a
 * thread that said it can put the work off (zf_gate_yielding); in all other threads it takes its
 * turn as ever.  Whoever puts work off leaves a waiter at the gate, and whoever has finished a
 * read asks for the next one that may go in: that one does its read anew from the beginning.
 *
 * The share follows what is free: a file may have as many reads inside as there is room left, so
 * one file has at most half of all, two that hang a third each, and the rest stays free.  Entering
 * and leaving cost two atomic additions; only who puts work off takes a lock. */
#ifndef ZF_SOURCE_GATE_H
#define ZF_SOURCE_GATE_H

#include <stdbool.h>
#include <stdint.h>

#include <zf/base/err.h>

struct zf_gate;

/* How many reads may be inside all gates together (at least 1); 64 unless it is said. */
void zf_gate_room(uint32_t reads);

/* Says whether this thread can put work off: then its reads may fail with ZF_E_BUSY.  Gives what
 * was said before. */
bool zf_gate_yielding(bool yes);

/* Something that waits for a gate.  The owner embeds it and keeps it where it is. */
struct zf_gate_waiter {
    struct zf_gate_waiter *prev, *next;
    struct zf_gate *gate; /* NULL: does not wait */
};

/* Puts w at the end of the queue of the gate at which this thread's last read failed with
 * ZF_E_BUSY.  The gate may have become free meanwhile: zf_gate_next is to be called afterwards. */
void zf_gate_wait(struct zf_gate_waiter *w);

/* Takes w out of its queue; false when it is in none (any more). */
bool zf_gate_forget(struct zf_gate_waiter *w);

/* Takes the waiter out whose gate has room and the fewest reads inside; NULL when none may go in.
 * Not locked unless something waits.  To be called after each read of a thread that yields. */
struct zf_gate_waiter *zf_gate_next(void);

/* Takes any waiter out, room or not, for the end. */
struct zf_gate_waiter *zf_gate_any(void);

/* Says how this thread finds out that nobody waits for its work any more; NULL = never. */
void zf_gate_interruptible(bool (*given_up)(void *ctx), void *ctx);

/* ---- for makers of sources ------------------------------------------------------------------- */

/* NULL: out of memory. */
struct zf_gate *zf_gate_new(void);
void zf_gate_unref(struct zf_gate *g);

/* g may be NULL: nothing to wait for.  Goes in, or fails with ZF_E_BUSY (only in a thread that
 * yields).  Who is inside a gate already goes in anywhere: *held_out is for zf_gate_leave. */
bool zf_gate_enter(struct zf_gate *g, bool *held_out, struct zf_err *err) ZF_CHECKED;
void zf_gate_leave(struct zf_gate *g, bool held);

/* Has the work of this thread been given up?  To be asked now and then by whoever waits in a way that can
 * be left. */
bool zf_gate_interrupted(void);

#endif
