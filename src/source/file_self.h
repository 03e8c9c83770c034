/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a file source: for file.c, and for file_look.c, which checks all open files. */
#ifndef SOURCE_FILE_SELF_H
#define SOURCE_FILE_SELF_H

#include <stdint.h>

#include <zf/base/bytes.h>
#include <zf/base/out.h>

#include "file.h"
#include "pool.h"
#include "same.h"

struct far;

/* began: a time (CLOCK_REALTIME) before the file's attributes were read.  Errors: ZF_E_NOMEM. */
struct far *far_new(const struct zf_identity *id, struct timespec began,
                    struct zf_err *err) ZF_CHECKED;
void far_free(struct far *f); /* NULL is fine */

/* The path was checked just now. */
void far_looked(struct far *f);
/* The file was reopened by its path. */
void far_reopened(struct far *f, const struct same *s);

/* Checks the path if the last check is a second old; other threads wait for the result.  how: as for same_check.
 * Errors: those of same_check; ZF_E_STALE the file is gone. */
struct far_path {
    struct pool *pool;
    const char *path;
};
bool far_look(struct far *f, struct far_path at, struct same *s, struct same_how how,
              struct zf_err *err) ZF_CHECKED;

/* Records that p[n] was read at off. */
void far_saw(struct far *f, const void *p, size_t n, uint64_t off);
/* Compares the recorded reads with the file, where timestamps could have missed a change.  Errors: ZF_E_STALE, from
 * then on for ever; ZF_E_IO. */
bool far_prove(struct far *f, int fd, struct same *s, struct zf_err *err) ZF_CHECKED;

/* Writes the hashes of the bytes read so far, for another process … */
void far_note(struct far *f, struct zf_out *out);
/* … which compares them before its first read.  Errors: ZF_E_FORMAT not a note on a file of `size` bytes. */
bool far_claim(struct far *f, struct zf_bytes note, uint64_t size, struct zf_err *err) ZF_CHECKED;

struct lead {
    uint64_t next; /* read-ahead has been triggered up to this offset; 0: not at all */
};

/* Triggers read-ahead of bytes [off, off + n).  Waits for storage.  Only one thread at a time per file. */
void lead(int fd, struct lead *l, uint64_t off, uint64_t n);

/* Reads bytes [off, off + n), rounded up to 16 KiB, into the page cache only. */
void lead_read(int fd, uint64_t off, uint64_t n);

struct file {
    struct zf_source src;
    struct slot slot;
    struct pool *pool;
    char *path; /* relative to the pool's root */
    struct zf_gate *gate;
    struct same same;
    struct far *far; /* NULL: on a local file system */
    struct lead led; /* used by want_later's one thread per file */
    atomic_uint_least64_t reads, bytes, errors;
};

static inline struct same_how file_how(const struct file *f)
{
    return (struct same_how){
        .shared = f->pool->shared, .strict = f->pool->strict, .name = f->src.name};
}

/* Leaves the slot; closes the descriptor of a stale file, which would keep a deleted file on the disk. */
static inline void file_leave(struct file *f)
{
    slot_leave(&f->slot);
    if (atomic_load_explicit(&f->same.stale, memory_order_relaxed))
        pool_drop(f->pool, &f->slot);
}

#endif
