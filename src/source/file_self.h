/* SPDX-License-Identifier: Apache-2.0 */
/* A file from inside: for those who read it, and for who looks at all that are open. */
#ifndef SOURCE_FILE_SELF_H
#define SOURCE_FILE_SELF_H

#include <stdint.h>

#include <zf/base/bytes.h>
#include <zf/base/out.h>

#include "file.h"
#include "pool.h"
#include "same.h"

struct far;

/* began: the file was looked at after that (CLOCK_REALTIME).  Errors: ZF_E_NOMEM. */
struct far *far_new(const struct zf_identity *id, struct timespec began,
                    struct zf_err *err) ZF_CHECKED;
void far_free(struct far *f); /* NULL is fine */

/* Its path was looked at just now. */
void far_looked(struct far *f);
/* It was opened again by its path. */
void far_reopened(struct far *f, const struct same *s);

/* Looks at the path where the last look was a second ago; whoever comes meanwhile waits for the answer.  how: as for
 * same_check.  Errors: of that; ZF_E_STALE it is gone. */
struct far_path {
    struct pool *pool;
    const char *path;
};
bool far_look(struct far *f, struct far_path at, struct same *s, struct same_how how,
              struct zf_err *err) ZF_CHECKED;

/* p[n] was read at off. */
void far_saw(struct far *f, const void *p, size_t n, uint64_t off);
/* Compares what was read before, where times could not tell of a change.  Errors: ZF_E_STALE, from then on for ever;
 * ZF_E_IO. */
bool far_prove(struct far *f, int fd, struct same *s, struct zf_err *err) ZF_CHECKED;

/* Writes a note of the bytes read so far, for another process … */
void far_note(struct far *f, struct zf_out *out);
/* … that compares it before its first read.  Errors: ZF_E_FORMAT no such note of a file of `size` bytes. */
bool far_claim(struct far *f, struct zf_bytes note, uint64_t size, struct zf_err *err) ZF_CHECKED;

struct lead {
    uint64_t next; /* all below was read for, back to where it began; 0: nothing was */
};

/* Bytes [off, off + n) of the file will be read soon.  Waits for storage.  Only one thread at a time for one file. */
void lead(int fd, struct lead *l, uint64_t off, uint64_t n);

/* Reads them, up to a whole 16 KiB, into the page cache only. */
void lead_read(int fd, uint64_t off, uint64_t n);

struct file {
    struct zf_source src;
    struct slot slot;
    struct pool *pool;
    char *path; /* relative to the pool's root */
    struct zf_gate *gate;
    struct same same;
    struct far *far; /* NULL: of a local file system */
    struct lead led; /* of the one thread that want_later has in here */
    atomic_uint_least64_t reads, bytes, errors;
};

static inline struct same_how file_how(const struct file *f)
{
    return (struct same_how){
        .shared = f->pool->shared, .strict = f->pool->strict, .name = f->src.name};
}

/* The descriptor of a stale file is no use, and keeps a deleted one on the disk. */
static inline void file_leave(struct file *f)
{
    slot_leave(&f->slot);
    if (atomic_load_explicit(&f->same.stale, memory_order_relaxed))
        pool_drop(f->pool, &f->slot);
}

#endif
