/* SPDX-License-Identifier: Apache-2.0 */
/* No waiter is forgotten: a waiter is counted before its thread checks whether a gate has room, and
 * a thread that leaves a gate gives the room back before it checks for waiters.  Both use
 * memory_order_seq_cst, so at least one of the two sees the other. */
#include <zf/source/gate.h>

#include <stdatomic.h>
#include <stdlib.h>

#include <zf/base/table.h>
#include <zf/base/thread.h>

struct zf_gate {
    atomic_uint refs;
    atomic_uint inside;
    struct zf_gate_waiter *queue; /* a list; this and the following under the lock of all gates */
    struct zf_gate *prev, *next;  /* in the list of gates with a queue */
};

static struct {
    atomic_uint room;   /* reads allowed inside, over all gates */
    atomic_uint inside; /* reads inside now */
    atomic_uint waiting;
    pthread_mutex_t lock; /* protects all below, and the queues */
    struct zf_gate *queued;
} gates = {.room = 64, .lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local struct {
    bool yields;
    bool holds;           /* this thread is inside a gate */
    struct zf_gate *busy; /* the gate that refused it; a reference */
    bool (*given_up)(void *ctx);
    void *given_up_ctx;
} gate_thread;

void zf_gate_room(uint32_t reads)
{
    atomic_store(&gates.room, reads ? reads : 1);
}

bool zf_gate_yielding(bool yes)
{
    bool was = gate_thread.yields;

    gate_thread.yields = yes;
    return was;
}

void zf_gate_interruptible(bool (*given_up)(void *ctx), void *ctx)
{
    gate_thread.given_up = given_up;
    gate_thread.given_up_ctx = ctx;
}

bool zf_gate_interrupted(void)
{
    return gate_thread.given_up && gate_thread.given_up(gate_thread.given_up_ctx);
}

struct zf_gate *zf_gate_new(void)
{
    struct zf_gate *g = calloc(1, sizeof *g);

    if (g)
        atomic_init(&g->refs, 1);
    return g;
}

static struct zf_gate *gate_ref(struct zf_gate *g)
{
    atomic_fetch_add_explicit(&g->refs, 1, memory_order_relaxed);
    return g;
}

void zf_gate_unref(struct zf_gate *g)
{
    if (g && atomic_fetch_sub_explicit(&g->refs, 1, memory_order_acq_rel) == 1)
        free(g);
}

/* Is there room for one more, where `in` are inside this gate and `all` inside any? */
static bool gate_has_room(unsigned in, unsigned all)
{
    unsigned room = atomic_load(&gates.room);

    return all < room && in < room - all;
}

static bool gate_is_busy(struct zf_gate *g, struct zf_err *err)
{
    zf_gate_unref(gate_thread.busy);
    gate_thread.busy = gate_ref(g);
    return zf_fail(err, ZF_E_BUSY, ZF_OFF_NONE, "too many reads already wait for this file");
}

bool zf_gate_enter(struct zf_gate *g, bool *held_out, struct zf_err *err)
{
    *held_out = false;
    if (!g || !gate_thread.yields || gate_thread.holds)
        return true;
    unsigned in = atomic_fetch_add(&g->inside, 1), all = atomic_fetch_add(&gates.inside, 1);
    if (!gate_has_room(in, all)) {
        zf_gate_leave(g, true);
        return gate_is_busy(g, err);
    }
    gate_thread.holds = *held_out = true;
    return true;
}

void zf_gate_leave(struct zf_gate *g, bool held)
{
    if (held) {
        gate_thread.holds = false;
        atomic_fetch_sub(&g->inside, 1);
        atomic_fetch_sub(&gates.inside, 1);
    }
}

/* The lock is held. */
static void gate_take_out(struct zf_gate_waiter *w)
{
    struct zf_gate *g = w->gate;

    DL_DELETE(g->queue, w);
    w->gate = NULL;
    if (!g->queue)
        DL_DELETE(gates.queued, g);
    atomic_fetch_sub(&gates.waiting, 1);
    zf_gate_unref(g);
}

void zf_gate_wait(struct zf_gate_waiter *w)
{
    struct zf_gate *g = gate_thread.busy;

    gate_thread.busy = NULL; /* the waiter owns the reference now */
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&gates.lock);
    w->gate = g;
    if (!g->queue)
        DL_APPEND(gates.queued, g);
    DL_APPEND(g->queue, w);
    atomic_fetch_add(&gates.waiting, 1);
}

bool zf_gate_forget(struct zf_gate_waiter *w)
{
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&gates.lock);
    bool waited = w->gate != NULL;
    if (waited)
        gate_take_out(w);
    return waited;
}

/* The lock is held.  The gate with the fewest reads inside goes first: a hanging file's gate is full. */
static struct zf_gate *gate_to_serve(void)
{
    unsigned all = atomic_load(&gates.inside), least = UINT32_MAX;
    struct zf_gate *found = NULL, *g;

    for (g = gates.queued; g; g = g->next) {
        unsigned in = atomic_load(&g->inside);

        if (in < least && gate_has_room(in, all)) {
            least = in;
            found = g;
        }
    }
    return found;
}

struct zf_gate_waiter *zf_gate_next(void)
{
    if (atomic_load(&gates.waiting) == 0)
        return NULL;
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&gates.lock);
    struct zf_gate *g = gate_to_serve();
    struct zf_gate_waiter *w = g ? g->queue : NULL;
    if (w) {
        /* Gates with equal numbers take turns. */
        DL_DELETE(gates.queued, g);
        DL_APPEND(gates.queued, g);
        gate_take_out(w);
    }
    return w;
}

struct zf_gate_waiter *zf_gate_any(void)
{
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&gates.lock);
    struct zf_gate_waiter *w = gates.queued ? gates.queued->queue : NULL;
    if (w)
        gate_take_out(w);
    return w;
}
