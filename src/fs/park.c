/* SPDX-License-Identifier: Apache-2.0 */
/* A parked read is answered by the thread that removes it from the queue: one that may now run it, or one that learns that
 * the reader was killed.  If that happens before the read is in the queue, it sets `killed`, which park() checks after
 * queueing. */
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
    char *name;         /* read.name, owned; may be NULL */
    atomic_uint refs;   /* held by the thread that parks it, and by the queue */
    atomic_bool killed; /* the reader was killed and waits for no answer */
};

static void park_parked_unref(struct parked *p)
{
    if (atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) == 1) {
        free(p->name);
        free(p);
    }
}

/* Does the signal mask in the line that begins with `key` contain SIGKILL?  A truncated line does not count. */
static bool park_kills(const char *status, const char *key)
{
    const char *line = strstr(status, key);

    return line && strchr(line + 1, '\n') &&
           (strtoull(line + strlen(key), NULL, 16) >> (SIGKILL - 1) & 1);
}

/* Reads the state of the reader from /proc.  Up to 65,536 groups are listed before the signals, so the text is searched
 * in pieces; the last LINE bytes of each are kept in the next one, because a line may be split there. */
static enum park_reader { LIVES, KILLED, NOT_FOUND } park_reader_state(fuse_req_t req)
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
    return n < 0 ? NOT_FOUND : LIVES; /* not found: it has exited, or is in another PID namespace */
}

/* The kernel sends FUSE_INTERRUPT for any signal, and only once.  Only a killed reader may get EINTR: one that handles the
 * signal does not expect it from read(2) of a regular file. */
static bool park_is_killed(fuse_req_t req)
{
    return park_reader_state(req) != LIVES;
}

bool park_given_up(void *ctx)
{
    const struct park_read *r = ctx;

    /* For a reader with O_DIRECT the kernel never sends FUSE_INTERRUPT: its requests are asynchronous and always awaited
     * (fuse_direct_IO, Linux 5.4 to 6.18).  Without FUSE_CAP_ASYNC_DIO it would, but such reads would then be serialized.
     * So the state of a waiting reader is polled. */
    return fuse_req_interrupted(r->req) ? park_is_killed(r->req)
                                        : park_reader_state(r->req) == KILLED;
}

/* Called by libfuse when the request is interrupted; req stays valid while this runs. */
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
    /* From here on another thread may answer r->req, unless the read is removed from the queue. */
    if (atomic_load(&p->killed) && zf_gate_forget(&p->waiter)) {
        fuse_req_interrupt_func(r->req, NULL, NULL);
        (void)fuse_reply_err(r->req, EINTR);
        park_parked_unref(p);
    }
    park_parked_unref(p);
    return true;
}

/* Ends the interrupt handling of a read taken from the queue; waits until park_interrupted has returned. */
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
