/* SPDX-License-Identifier: Apache-2.0 */
/* Reads that wait for a file without a thread: zf/source/gate.h says why. */
#ifndef ZF_FS_PARK_H
#define ZF_FS_PARK_H

#include "session.h"

/* A read as the kernel asked for it. */
struct park_read {
    fuse_req_t req;
    fuse_ino_t ino;
    size_t size;
    off_t off;
    struct fuse_file_info fi;
};

/* Puts a read off that failed with ZF_E_BUSY; it is done anew, and answered, by park_serve of any
 * thread.  False when there is no memory for that: the caller has to wait itself. */
bool park(const struct park_read *r);

/* After each read: does those that were put off and may go in now, one after the other, until none
 * may or the session ends.  `run` answers a read, or parks it again. */
void park_serve(struct fuse_session *se, void (*run)(const struct park_read *r));

/* After the last thread: answers all that still wait with an error. */
void park_end(void);

/* Was the reader killed?  For zf_gate_interruptible; ctx: the struct park_read. */
bool park_given_up(void *ctx);

#endif
