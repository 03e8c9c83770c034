/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that wait for a busy file, or for a directory computed from files, without occupying a thread; the reason is in
 * zf/source/gate.h. */
#ifndef ZF_FS_PARK_H
#define ZF_FS_PARK_H

#include "session.h"

/* A kernel request: a read of `ino`, an opendir of it, or a lookup of `name` in it. */
struct park_read {
    fuse_req_t req;
    fuse_ino_t ino;
    void (*run)(const struct park_read *r); /* answers it, or parks it again */
    const char *name;                       /* of a lookup, else NULL; borrowed during run */
    size_t size;
    off_t off;
    struct fuse_file_info fi;
};

/* Queues a request that failed with ZF_E_BUSY; park_serve of any thread runs it again.  False: out of memory; the caller
 * must wait itself. */
bool park(const struct park_read *r);

/* Runs the parked requests that need not wait any more, one after the other, until none is left or the session ends.
 * Called after each request. */
void park_serve(struct fuse_session *se);

/* Answers all parked requests with EIO.  Called after the last thread has ended. */
void park_end(void);

/* Was the process that made the request killed?  For zf_gate_interruptible; ctx: the struct park_read. */
bool park_given_up(void *ctx);

#endif
