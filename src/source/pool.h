/* SPDX-License-Identifier: Apache-2.0 */
/* A bounded set of open descriptors.  A checkpoint may have more shards than a process may have
 * descriptors, so idle ones are closed, and reopened when they are needed. */
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

/* The files that a directory store may open: all beneath its root and, if the root is a snapshot in a Hugging Face
 * cache, beneath that cache's directory.  Other file systems mounted there, and the targets of links that lead out of
 * it, only by option. */
struct reach {
    int root;       /* O_PATH descriptor of the root */
    char *abs;      /* its absolute path, links resolved */
    int cache;      /* O_PATH descriptor of the cache directory, or -1 */
    size_t n_cache; /* abs[0, n_cache) is the cache directory's path */
    bool xdev;      /* -o xdev: enter other file systems */
    bool links;     /* -o links: follow links that lead out */
    char *pointed;  /* a path named by the user, allowed on any file system; or NULL */
};

/* `abs` is absolute with links resolved.  The caller sets xdev, links and pointed afterwards; the
 * latter is freed with the rest.  Errors: ZF_E_IO, ZF_E_NOENT, ZF_E_NOMEM. */
bool reach_init(struct reach *r, const char *abs, struct zf_err *err) ZF_CHECKED;
/* Reopens the directories by their paths, after their file system went away; `is` decides whether a new root is
 * accepted.  False: the old descriptors stay. */
bool reach_again(struct reach *r, bool (*is)(const void *ctx, int fd), const void *ctx);
void reach_fini(struct reach *r);

/* As beneath_open; path "" = the root. */
int reach_open(const struct reach *r, const char *path, int flags);

/* Reports errno of a failed reach_open of `path`, as zf_fail_sys does, with a better message for
 * EXDEV. */
bool reach_fail(const struct reach *r, const char *path, const char *what, struct zf_err *err);

/* A file's descriptor in the pool.  `users` counts the reads that use fd now; the bit ZF_SLOT_SHUT
 * says that there is no fd.  Reads enter and leave with one atomic addition each and never wait;
 * only the pool, under its lock, sets the bit (when users is 0) or clears it. */
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
    struct zf_cache *cache; /* of blocks decompressed from the files */
    bool shared;            /* other users may read through the mount (same.h) */
    bool strict;            /* -o changed=strict (same.h) */
    struct place place;     /* file system of the root */
    _Atomic uint64_t dev;   /* device number of the root */
    uint64_t most;          /* descriptors; exceeded only while more reads than that run at once */
    pthread_mutex_t lock;   /* protects all below */
    zf_vec(struct pool_place) places; /* other file systems that links and mount points lead to */
    uint64_t limit; /* <= most: lower for a while after the process ran out of descriptors */
    int64_t tried;  /* the second in which the limit last changed */
    zf_vec(struct slot *) ring;
    size_t hand;        /* clock hand, an index of the ring */
    struct pool *other; /* next in the list of all pools; under its lock */
};

/* Errors: as reach_init. */
struct pool *pool_new(const char *abs, const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;
struct pool *pool_ref(struct pool *p);
void pool_unref(struct pool **p);

/* Is the file system of that device known already? */
bool pool_knows(struct pool *p, uint64_t dev);
/* The identity of the file behind fd (O_PATH is enough); determines the file system of a device not seen before.
 * fd: -1 = none; a device not seen before then counts as unknown. */
struct zf_identity pool_identity(struct pool *p, const struct stat *st, int fd);

/* As reach_open.  If the root's file system went away and it, or another of its type, is mounted again, the root is
 * reopened by its path; else the error is that of the first attempt.  When the process is out of descriptors, the pool
 * halves its limit and tries again; the limit then doubles each second, up to its maximum or until the process is out
 * of them again. */
int pool_open(struct pool *p, const char *path, int flags);

/* As pool_open with O_PATH, with attributes as fresh as the file system can give them, by statx(2) with *sync_out: a
 * FUSE file system gets one request, not one for the name and one for the attributes. */
int pool_open_fresh(struct pool *p, const char *path, int *sync_out);

/* After a failed open(2) outside of the pool with errno `why`: was the process out of descriptors, and did the pool
 * close some? */
bool pool_spared(struct pool *p, int why);

/* Is this the errno of a file system that went away? */
bool pool_is_away(int why);
/* After such an errno: reopens the root as pool_open does, if its own file system went away.  (pool_open may not notice,
 * since the kernel may answer it from its cache.) */
void pool_revive(struct pool *p);

void slot_init(struct slot *s);
/* Borrows the descriptor until slot_leave; -1 when the slot is shut. */
int slot_enter(struct slot *s);
/* As slot_enter, but not counted as a use that keeps the slot open. */
int slot_look(struct slot *s);
void slot_leave(struct slot *s);

/* Gives fd to a slot that was found shut, and enters it; returns the descriptor to use (another
 * thread's may have come first).  Closes idle descriptors over the limit.  -1: out of memory, fd is
 * closed. */
int pool_put(struct pool *p, struct slot *s, int fd);
/* Closes the slot's descriptor, unless a read is inside. */
void pool_drop(struct pool *p, struct slot *s);

/* Calls look for each slot with a descriptor, of all pools, for which hold returned true.  hold keeps the slot's owner
 * alive, and is called under the pool's lock. */
void pools_each(bool (*hold)(struct slot *s), void (*look)(struct slot *s));

#endif
