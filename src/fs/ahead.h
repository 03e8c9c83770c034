/* SPDX-License-Identifier: Apache-2.0 */
/* Read-ahead: predicts from the reads so far which bytes of a file will be read next.
 *
 * A stream is one sequential reader of a file.  A file may have several, and the requests of one stream arrive slightly
 * out of order, because the kernel reads ahead and several threads serve.  A stream is prefetched only if its reads waited
 * for storage and that storage delivers less than 1 GB/s to all readers together.  On a fast disk the kernel's own
 * read-ahead is better than ours, so there a single reader only gets hints for the kernel (ZF_PREFETCH_KERNEL, want.h).  Cached
 * data needs neither, and only sources that compute large blocks get hints (ZF_PREFETCH_COMPUTED).  The window grows while reads
 * still wait and the last growth made the stream faster.  When it did not, the storage is saturated, and more requests in
 * flight would only delay other readers. */
#ifndef FS_AHEAD_H
#define FS_AHEAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <zf/base/prefetch.h>

#define AHEAD_STREAMS 64

struct ahead_stream {
    uint64_t ino;   /* 0 = free */
    uint64_t begin; /* offset of its first read */
    uint64_t next;  /* end of the bytes read so far */
    uint64_t bytes; /* number of bytes read */
    uint64_t asked; /* prefetch was requested up to this offset */
    uint64_t led;   /* hints were given to the kernel up to this offset (ZF_PREFETCH_KERNEL) */
    uint64_t
        made; /* hints were given to sources that compute up to this offset (ZF_PREFETCH_COMPUTED) */
    uint64_t window; /* bytes to prefetch beyond `next`; 0 = no prefetch */
    uint64_t since;  /* `next` when the window last changed … */
    int64_t at;      /* … and the time of that, in nanoseconds */
    double pace;   /* bytes per nanosecond before the last growth of the window; 0: it never grew */
    uint64_t used; /* ahead.clock at its last read */
    uint64_t reads; /* number of reads */
    bool held;      /* the last growth gained nothing and was undone */
    uint32_t waits; /* reads that waited for storage, up to 2 */
};

struct ahead {
    pthread_mutex_t lock;
    uint64_t most;  /* limit of all windows together, bytes */
    uint64_t clock; /* number of reads of all streams */
    int64_t until;  /* time up to which waiting has been counted, nanoseconds */
    int64_t behind; /* nanoseconds waited in excess of the time that fast storage would need */
    struct ahead_stream at[AHEAD_STREAMS];
};

/* A finished read of bytes [off, off + n) of a file, with its start and end time (nanoseconds of any clock). */
struct ahead_saw {
    uint64_t ino, off, n;
    int64_t began, ended;
    bool waited; /* for storage */
};

struct ahead_ask {
    uint64_t off, n; /* n = 0: nothing */
    enum zf_prefetch how;
};

void ahead_init(struct ahead *a, uint64_t most);
void ahead_fini(struct ahead *a);

/* Records a read and returns the range to prefetch now.  Thread: any.  Never blocks: while another thread holds the lock,
 * the read is not recorded. */
struct ahead_ask ahead_read(struct ahead *a, const struct ahead_saw *r);

#endif
