/* SPDX-License-Identifier: Apache-2.0 */
/* A file from inside: for those who read it, and for who looks at all that are open. */
#ifndef SOURCE_FILE_SELF_H
#define SOURCE_FILE_SELF_H

#include "far.h"
#include "file.h"
#include "lead.h"
#include "same.h"

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
    if (atomic_load_explicit(&f->same.stale, memory_order_relaxed)) {
        pool_drop(f->pool, &f->slot);
    }
}

#endif
