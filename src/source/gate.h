/* SPDX-License-Identifier: Apache-2.0 */
/* The side of the gates that sources see; zf/source/gate.h says what they are for. */
#ifndef SOURCE_GATE_H
#define SOURCE_GATE_H

#include <stdatomic.h>

#include <zf/source/gate.h>

struct zf_gate {
    atomic_uint refs;
    atomic_uint inside;
    struct zf_gate_waiter *queue; /* a list; under the lock of all gates, as what follows */
    struct zf_gate *prev, *next;  /* among those that have a queue */
};

#endif
