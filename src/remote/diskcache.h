/* SPDX-License-Identifier: Apache-2.0 */
/* Disk cache of blocks of remote objects, shared by processes and kept between mounts.
 *
 *   DIR/zerofs-cache        "1\n"; locked by processes that count or evict
 *   DIR/used                disk space in use, bytes as text; an upper bound
 *   DIR/o/KEY/about         the object's URL, ETag and size, a line each
 *   DIR/o/KEY/N             blocks 16 N … 16 N + 15: a page of 16 entries, then the blocks
 *
 * KEY is the SHA-256 of the object's identity (URL, size, ETag, version), so a replaced object at the same URL has another
 * KEY.  An entry holds the length of its block and a checksum of KEY, number, length and bytes: a block that is truncated,
 * corrupted or misplaced is fetched and written again.  So nothing needs to be flushed, and processes wait for each other
 * only while counting.  Only objects with a strong ETag or a version are cached, and only if they were not modified just
 * before they were first seen. */
#ifndef REMOTE_DISKCACHE_H
#define REMOTE_DISKCACHE_H

#include <zf/base/auto.h>
#include <zf/base/err.h>

#define DISKCACHE_BLOCK (64u << 10)
#define DISKCACHE_SLOTS 16u
#define DISKCACHE_ENTRY 16u
#define DISKCACHE_HEAD 4096u

struct diskcache;

struct diskcache_key {
    char hex[65];
};

/* Identity of an object; strings without newlines or credentials. */
struct diskcache_about {
    const char *url, *etag, *version;
    uint64_t size;
};
struct diskcache_key diskcache_key_of(const struct diskcache_about *a);

/* Opens the cache; creates the directory (mode 0700) if missing.  bytes: limit of all files together; 0 = none.
 * Errors: ZF_E_USAGE other users may write to it, or it is not a cache; ZF_E_IO. */
struct diskcache *diskcache_new(const char *dir, uint64_t bytes, struct zf_err *err) ZF_CHECKED;
/* Writes all queued blocks, then frees. */
void diskcache_free(struct diskcache *c);

/* Reads block k, of n bytes, into buf.  False: it is not cached.  Thread: any. */
bool diskcache_get(struct diskcache *c, const struct diskcache_key *key, uint64_t k, void *buf,
                   size_t n);

/* Queues a copy of block k, n bytes, for another thread to write; drops it if the queue is full.  about is written with an
 * object's first block.  Never waits. */
void diskcache_put(struct diskcache *c, const struct diskcache_key *key,
                   const struct diskcache_about *about, uint64_t k, const void *p, size_t n);

/* Is the queue to the disk short enough for more read-ahead? */
bool diskcache_has_room(struct diskcache *c);
/* Waits until it is, while the disk makes progress; called by a reader before it fetches blocks that a full queue would
 * drop.  A hanging disk is waited for only once, for a second; a signal ends the wait. */
void diskcache_wait(struct diskcache *c);

/* The entry of block k: its length and checksum.  For tests. */
void diskcache_entry(const struct diskcache_key *key, uint64_t k, const void *p, size_t n,
                     uint8_t entry[DISKCACHE_ENTRY]);

/* ---- files (diskcache_files.c) --------------------------------------------------------------- */

/* Takes the lock and returns its descriptor, or -1.  Closing it releases the lock. */
int diskcache_lock(int dir);
/* Adds `more` bytes to the count and, above `most` bytes (0 = no limit), evicts the least recently used objects.  The
 * caller holds the lock.  False: no room. */
bool diskcache_count(int dir, uint64_t more, uint64_t most);
/* Opens the directory of an object; -1: error.  make: creates it if missing; *made_out (may be NULL): it was created.
 * Neither it nor its parent may be a symbolic link, so that no foreign files are written or removed. */
int diskcache_object(int dir, const char *key, bool make, bool *made_out);
/* Disk space is counted in units of this size; DISKCACHE_OBJECT is the most that an object needs besides its blocks (its
 * directory, the directory's entry, `about`). */
#define DISKCACHE_UNIT 4096u
#define DISKCACHE_OBJECT (2 * DISKCACHE_UNIT + 256u)
/* Opens and, with make, makes the directory; -1 and err. */
int diskcache_open_dir(const char *path, bool make, struct zf_err *err);

#endif
