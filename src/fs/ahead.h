/* SPDX-License-Identifier: Apache-2.0 */
/* Which bytes of a file will be read next, as far as the reads so far tell.
 *
 * A stream is a reader that goes through a file; several may go through one file, and requests of
 * one reader come in nearly the right order, because the kernel reads ahead and several threads
 * serve.  A stream is read ahead only when its reads waited for storage: where all is in memory
 * nothing is asked for.  How far ahead grows as long as its reads wait nevertheless and the last
 * step made it faster; when it did not, the storage gives what it has, and more under way at
 * once would only be in the way of others. */
#ifndef FS_AHEAD_H
#define FS_AHEAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AHEAD_STREAMS 64

struct ahead_stream {
    uint64_t ino;    /* 0 = free */
    uint64_t begin;  /* where it set out */
    uint64_t next;   /* behind the last byte read */
    uint64_t bytes;  /* read since it set out */
    uint64_t asked;  /* all below was asked for */
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
    struct ahead_stream at[AHEAD_STREAMS];
};

struct ahead_ask {
    uint64_t off, n; /* n = 0: nothing */
};

void ahead_init(struct ahead *a, uint64_t most);
void ahead_fini(struct ahead *a);

/* Bytes [off, off + n) of a file were read at `now` (nanoseconds of any clock); did the read wait for
 * storage?  Gives what to ask for now.  From any thread; never waits itself: where another thread is
 * at it, the read goes unnoticed. */
struct ahead_ask ahead_read(struct ahead *a, uint64_t ino, uint64_t off, uint64_t n, bool waited,
                            int64_t now);

#endif
