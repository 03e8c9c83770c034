/* SPDX-License-Identifier: Apache-2.0 */
/* Which bytes of a file will be read next, as far as the reads so far tell.
 *
 * A stream is a reader that goes through a file; several may go through one file, and requests of
 * one reader come in nearly the right order, because the kernel reads ahead and several threads
 * serve.  A stream is read ahead only when its reads waited for storage, and storage that reads wait
 * for gives less than 1 GB/s to all of them together: where all is in memory nothing is asked for, and on a
 * fast disk the kernel's own reading ahead is better than ours, so that one reader's is only led on (want.h).
 * How far ahead grows as long as its reads wait nevertheless and the last step made it faster; when it
 * did not, the storage gives what it has, and more under way at once would only be in the way of
 * others. */
#ifndef FS_AHEAD_H
#define FS_AHEAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <zf/base/soon.h>

#define AHEAD_STREAMS 64

struct ahead_stream {
    uint64_t ino;    /* 0 = free */
    uint64_t begin;  /* where it set out */
    uint64_t next;   /* behind the last byte read */
    uint64_t bytes;  /* read since it set out */
    uint64_t asked;  /* all below was asked for */
    uint64_t led;    /* through all below the kernel was led (ZF_SOON_LED) */
    uint64_t window; /* how far ahead of next; 0 = not at all */
    uint64_t since;  /* `next` when the window was last thought about … */
    int64_t at;      /* … and the time, in nanoseconds */
    double pace;     /* bytes a nanosecond before it was widened; 0: it was not */
    uint64_t used;   /* the clock at its last read */
    uint64_t reads;  /* since it set out */
    bool held;       /* the last step was in vain, and taken back */
    uint32_t waits;
};

struct ahead {
    pthread_mutex_t lock;
    uint64_t most;  /* bytes that all streams together may be ahead of their readers */
    uint64_t clock; /* counts reads */
    int64_t until;  /* waiting was counted up to this time */
    int64_t behind; /* nanoseconds that were waited beyond what fast storage takes */
    struct ahead_stream at[AHEAD_STREAMS];
};

/* Bytes [off, off + n) of a file were read, from one time to another (nanoseconds of any clock). */
struct ahead_saw {
    uint64_t ino, off, n;
    int64_t began, ended;
    bool waited; /* for storage */
};

struct ahead_ask {
    uint64_t off, n; /* n = 0: nothing */
    enum zf_soon how;
};

void ahead_init(struct ahead *a, uint64_t most);
void ahead_fini(struct ahead *a);

/* Gives what to ask for now that this was read.  From any thread; never waits itself: where another
 * thread is at it, the read goes unnoticed. */
struct ahead_ask ahead_read(struct ahead *a, const struct ahead_saw *r);

#endif
