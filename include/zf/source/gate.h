/* SPDX-License-Identifier: Apache-2.0 */
/* A limit on concurrent reads per file; requests over the limit are parked without a thread.
 *
 * Storage may hang, for one file or for all, and a thread that reads then hangs with it.  Since only
 * a limited number of threads may read one file, and all files together, there is always one left
 * for requests that need no file or another one.  A read that finds a file's share used up fails with
 * ZF_E_BUSY in a thread that can park its work (zf_gate_yielding); other threads wait as usual.  A
 * thread that parks work queues a waiter at the gate, and a thread that has finished a read asks for
 * the next waiter that may enter, whose read then starts from the beginning.
 *
 * The share depends on the free room: a file may have as many reads inside as there is room left, so
 * one file takes at most half of all, two hanging files a third each, and the rest stays free.
 * Entering and leaving cost two atomic additions; only parking takes a lock. */
#ifndef ZF_SOURCE_GATE_H
#define ZF_SOURCE_GATE_H

#include <stdbool.h>
#include <stdint.h>

#include <zf/base/err.h>

struct zf_gate;

/* Sets the number of reads allowed inside all gates together (at least 1); 64 by default. */
void zf_gate_room(uint32_t reads);

/* Sets whether this thread can park work: then its reads may fail with ZF_E_BUSY.  Returns the old
 * setting. */
bool zf_gate_yielding(bool yes);

/* A waiter for a gate.  The owner embeds it and must not move it. */
struct zf_gate_waiter {
    struct zf_gate_waiter *prev, *next;
    struct zf_gate *gate; /* NULL: does not wait */
};

/* Appends w to the queue of the gate at which this thread's last read failed with ZF_E_BUSY.  The
 * gate may have become free meanwhile: call zf_gate_next afterwards. */
void zf_gate_wait(struct zf_gate_waiter *w);

/* Removes w from its queue; false: it is in none (any more). */
bool zf_gate_forget(struct zf_gate_waiter *w);

/* Removes and returns the waiter whose gate has room and the fewest reads inside; NULL: none may
 * enter.  Takes no lock if nothing waits.  Call it after each read of a thread that yields. */
struct zf_gate_waiter *zf_gate_next(void);

/* Removes and returns any waiter, with or without room; for the end of the process. */
struct zf_gate_waiter *zf_gate_any(void);

/* Sets the function by which this thread learns that its request was abandoned; NULL = never. */
void zf_gate_interruptible(bool (*given_up)(void *ctx), void *ctx);

/* ---- for sources ----------------------------------------------------------------------------- */

/* NULL: out of memory. */
struct zf_gate *zf_gate_new(void);
void zf_gate_unref(struct zf_gate *g);

/* Enters, or fails with ZF_E_BUSY (only in a thread that yields).  g NULL: always succeeds.  A thread
 * inside a gate may enter any other: *held_out must be passed to zf_gate_leave. */
bool zf_gate_enter(struct zf_gate *g, bool *held_out, struct zf_err *err) ZF_CHECKED;
void zf_gate_leave(struct zf_gate *g, bool held);

/* Was this thread's request abandoned?  To be polled by waits that can be interrupted. */
bool zf_gate_interrupted(void);

#endif
