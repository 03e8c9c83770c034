/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors kept open on files, at most this many at once.  A checkpoint may have more shards than
 * a process may have descriptors, so idle ones are closed and opened again when they are needed. */
#ifndef SOURCE_POOL_H
#define SOURCE_POOL_H

#include <stdatomic.h>
#include <stdbool.h>

#include <zf/base/err.h>
#include <zf/base/limits.h>
#include <zf/base/vec.h>
#include <zf/base/thread.h>

#include "cache.h"
#include "pace.h"
#include "place.h"

/* Files that a directory store may open: all beneath its root and, when the root is a snapshot of a
 * Hugging Face cache, beneath that cache's directory; other file systems that are mounted there, and what links lead
 * to that leave it, only when it is asked for. */

struct reach {
    int root;       /* O_PATH descriptor of the root */
    char *abs;      /* its absolute path, links resolved */
    int cache;      /* O_PATH descriptor of the cache directory, or -1 */
    size_t n_cache; /* abs[0, n_cache) is the cache directory's path */
    bool xdev;      /* go into other file systems */
    bool links;     /* follow links that leave */
    char *pointed;  /* the one path that the user named, wherever it is; or NULL */
};

/* `abs` is absolute with links resolved.  xdev, links and pointed are the caller's to set afterwards; the
 * latter is freed with the rest.  Errors: ZF_E_IO, ZF_E_NOENT, ZF_E_NOMEM. */
bool reach_init(struct reach *r, const char *abs, struct zf_err *err) ZF_CHECKED;
/* Opens the same directories again by their paths, for descriptors whose file system went away; is: may that be?
 * False: they stay. */
bool reach_again(struct reach *r, bool (*is)(const void *ctx, int fd), const void *ctx);
void reach_fini(struct reach *r);

/* As beneath_open; path "" = the root. */
int reach_open(const struct reach *r, const char *path, int flags);

/* Reports errno of a failed reach_open of `path`, like zf_fail_sys, with a better sentence for
 * EXDEV. */
bool reach_fail(const struct reach *r, const char *path, const char *what, struct zf_err *err);

/* A file's place in the pool.  `users` counts the reads that use fd just now; the bit ZF_SLOT_SHUT
 * says that there is no fd.  Reads enter and leave with one atomic addition each and never wait;
 * only the pool, under its lock, turns the bit on (when users is 0) or off. */
#define ZF_SLOT_SHUT 0x80000000u
struct slot {
    atomic_uint users;
    atomic_bool hot; /* used since the clock hand passed */
    int fd;
    size_t at; /* in the pool's ring */
};

struct pool_place {
    uint64_t dev;
    struct place place;
};

/* Shared by a store and its files: each holds a reference. */
struct pool {
    atomic_uint refs;
    struct reach reach;
    struct pace pace;
    struct zf_cache *cache; /* of what is decompressed from the files */
    bool shared;            /* others see what is read (same.h) */
    bool strict;            /* any change of a file counts (same.h) */
    struct place place;     /* of the root */
    _Atomic uint64_t dev;   /* the same */
    uint64_t most;          /* descriptors; overrun only while more reads than that run at once */
    pthread_mutex_t lock;   /* of all below */
    zf_vec(struct pool_place) places; /* the others that links and mount points lead to */
    uint64_t limit; /* <= most: lower for a while after the process ran out of them */
    int64_t tried;  /* the second in which the limit was last moved */
    zf_vec(struct slot *) ring;
    size_t hand;        /* in the ring */
    struct pool *other; /* the next of all pools; under their lock */
};

/* Errors: as reach_init. */
struct pool *pool_new(const char *abs, const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;
struct pool *pool_ref(struct pool *p);
void pool_unref(struct pool **p);

/* Was a file of that device met? */
bool pool_knows(struct pool *p, uint64_t dev);
/* The identity of the file behind fd (O_PATH is enough); determines the place of a device that was not met yet.
 * fd: -1 = none; a place not met yet then counts as unknown. */
struct zf_identity pool_identity(struct pool *p, const struct stat *st, int fd);

/* As reach_open.  A root whose file system went away is opened again by its path when it, or another of its kind, is
 * back there; else the error is that of the first attempt.  When the process has no descriptor left, the pool keeps half as many and tries
 * again; from then on it may keep twice as many each second, until it is at its own limit or the
 * process is short again. */
int pool_open(struct pool *p, const char *path, int flags);

/* The same of a file, O_PATH, as far as its place can tell now, for statx(2) with *sync_out: one in user space is asked
 * once, not once for the name and once for the attributes. */
int pool_open_fresh(struct pool *p, const char *path, int *sync_out);

/* After an errno of somebody who opens by other means: was it that there are no descriptors, and are there some now? */
bool pool_spared(struct pool *p, int why);

/* Is this the errno of a file system that went away? */
bool pool_is_away(int why);
/* Something was met that went away: if the root did, it is opened again as by pool_open, to which the kernel may answer
 * from memory. */
void pool_revive(struct pool *p);

void slot_init(struct slot *s);
/* Borrows the descriptor until slot_leave; -1 when the slot is shut. */
int slot_enter(struct slot *s);
/* The same, and it does not count as a use that keeps the slot open. */
int slot_look(struct slot *s);
void slot_leave(struct slot *s);

/* Takes fd for a slot found shut and enters it; gives the descriptor to use (another thread's may
 * have come first).  Closes idle descriptors over the limit.  -1: out of memory, fd is closed. */
int pool_put(struct pool *p, struct slot *s, int fd);
/* Closes the slot's descriptor, unless somebody is inside. */
void pool_drop(struct pool *p, struct slot *s);

/* Calls look for each slot that has a descriptor, of all pools there are, for which hold was true: that keeps the
 * slot's owner alive, and is called under the lock of the pool. */
void pools_each(bool (*hold)(struct slot *s), void (*look)(struct slot *s));

#endif
