/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that wait for a file, or for a directory that is worked out of files, without a thread: zf/source/gate.h says why. */
#ifndef ZF_FS_PARK_H
#define ZF_FS_PARK_H

#include "session.h"

/* A request as the kernel made it: a read, a look into directory `ino`, or for `name` in it. */
struct park_read {
    fuse_req_t req;
    fuse_ino_t ino;
    void (*run)(const struct park_read *r); /* answers it, or parks it again */
    const char *name;                       /* NULL, or borrowed while it is run */
    size_t size;
    off_t off;
    struct fuse_file_info fi;
};

/* Puts a request off that failed with ZF_E_BUSY; it is run anew by park_serve of any thread.  False when
 * there is no memory for that: the caller has to wait itself. */
bool park(const struct park_read *r);

/* After each such request: runs those that were put off and may go in now, one after the other, until none
 * may or the session ends. */
void park_serve(struct fuse_session *se);

/* After the last thread: answers all that still wait with an error. */
void park_end(void);

/* Was who made the request killed?  For zf_gate_interruptible; ctx: the struct park_read. */
bool park_given_up(void *ctx);

#endif
