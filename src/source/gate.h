/* SPDX-License-Identifier: Apache-2.0 */
/* The side of the gates that sources see; zf/source/gate.h says what they are for. */
#ifndef SOURCE_GATE_H
#define SOURCE_GATE_H

#include <stdatomic.h>

#include <zf/source/gate.h>

struct zf_gate {
    atomic_uint refs;
    atomic_uint inside;
    struct zf_gate_waiter *queue; /* utlist; under the lock of all gates, as what follows */
    struct zf_gate *prev, *next;  /* among those that have a queue */
};

/* NULL: out of memory. */
struct zf_gate *gate_new(void);
void gate_unref(struct zf_gate *g);

/* g may be NULL: nothing to wait for.  Goes in, or fails with ZF_E_BUSY (only in a thread that yields).  Who is inside a gate already
 * goes in anywhere: *held_out is for gate_leave. */
bool gate_enter(struct zf_gate *g, bool *held_out, struct zf_err *err) ZF_CHECKED;
void gate_leave(struct zf_gate *g, bool held);

#endif
