/* SPDX-License-Identifier: Apache-2.0 */
/* Whoever takes a parked read out of its queue answers it: a thread that finds room for it, or the
 * one that hears that its reader was killed.  The latter may hear so before the read is in the
 * queue: it leaves a mark then, which is looked at when the read is in. */
#include "park.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zf/base/fd.h>
#include <zf/source/gate.h>

struct parked {
    struct zf_gate_waiter waiter; /* first, so that it can be cast back */
    struct park_read read;
    char *name;         /* of read, NULL or its own */
    atomic_uint refs;   /* the thread that parks it, and the queue */
    atomic_bool killed; /* nobody waits for the answer any more */
};

static void park_parked_unref(struct parked *p)
{
    if (atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) == 1) {
        free(p->name);
        free(p);
    }
}

/* Is SIGKILL among the signals of this line's mask?  A line without its end is no line yet. */
static bool park_kills(const char *status, const char *key)
{
    const char *line = strstr(status, key);

    return line && strchr(line + 1, '\n') &&
           (strtoull(line + strlen(key), NULL, 16) >> (SIGKILL - 1) & 1);
}

/* State of the reader.  In front of the signals stand its groups, of which there can be 65,536, so that the text
 * is looked through a piece at a time; the end of a piece, where a line may be cut, is in the next one too. */
static enum park_reader { LIVES, KILLED, NOT_SEEN } park_look(fuse_req_t req)
{
    enum { LINE = 64 };
    char path[40], status[4096];
    size_t kept = 0;
    ssize_t n;

    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)fuse_req_ctx(req)->pid);
    zf_auto(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    while ((n = fd >= 0 ? read(fd, status + kept, sizeof status - 1 - kept) : -1) > 0) {
        kept += (size_t)n;
        status[kept] = '\0';
        if (park_kills(status, "\nSigPnd:") || park_kills(status, "\nShdPnd:"))
            return KILLED;
        if (kept > LINE) {
            memmove(status, status + kept - LINE, LINE);
            kept = LINE;
        }
    }
    return n < 0 ? NOT_SEEN : LIVES; /* gone, or of another world that is not seen from here */
}

/* The kernel speaks of an interrupt at any signal, and only once.  An answer to one that the reader
 * handles and lives on from would be an error that read(2) of a file does not have. */
static bool park_is_killed(fuse_req_t req)
{
    return park_look(req) != LIVES;
}

bool park_given_up(void *ctx)
{
    const struct park_read *r = ctx;

    /* The kernel never speaks of a reader with O_DIRECT, whose requests it counts as nobody's and
     * for whose answers it waits whatever happens (fuse_direct_IO, Linux 5.4 to 6.18; without
     * FUSE_CAP_ASYNC_DIO it would, but then such reads are one request after the other): so a
     * reader that waits is looked at now and then. */
    return fuse_req_interrupted(r->req) ? park_is_killed(r->req) : park_look(r->req) == KILLED;
}

/* libfuse holds on to req while this runs. */
static void park_interrupted(fuse_req_t req, void *data)
{
    struct parked *p = data;

    if (!park_is_killed(req))
        return;
    atomic_store(&p->killed, true);
    if (zf_gate_forget(&p->waiter)) {
        (void)fuse_reply_err(req, EINTR);
        park_parked_unref(p);
    }
}

bool park(const struct park_read *r)
{
    struct parked *p = calloc(1, sizeof *p);

    if (!p || (r->name && !(p->name = strdup(r->name)))) {
        free(p);
        return false;
    }
    p->read = *r;
    p->read.name = p->name;
    atomic_init(&p->refs, 2);
    fuse_req_interrupt_func(r->req, park_interrupted, p);
    zf_gate_wait(&p->waiter);
    /* From here on r->req is another thread's, unless the read can be taken back. */
    if (atomic_load(&p->killed) && zf_gate_forget(&p->waiter)) {
        fuse_req_interrupt_func(r->req, NULL, NULL);
        (void)fuse_reply_err(r->req, EINTR);
        park_parked_unref(p);
    }
    park_parked_unref(p);
    return true;
}

/* Waits until nobody is in park_interrupted with it. */
static struct parked *park_unpark(struct zf_gate_waiter *w)
{
    struct parked *p = (struct parked *)w;

    fuse_req_interrupt_func(p->read.req, NULL, NULL);
    return p;
}

void park_serve(struct fuse_session *se)
{
    struct zf_gate_waiter *w;

    while (!fuse_session_exited(se) && (w = zf_gate_next())) {
        struct parked *p = park_unpark(w);

        p->read.run(&p->read);
        park_parked_unref(p);
    }
}

void park_end(void)
{
    for (struct zf_gate_waiter *w; (w = zf_gate_any());) {
        struct parked *p = park_unpark(w);

        (void)fuse_reply_err(p->read.req, EIO);
        park_parked_unref(p);
    }
}
