/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of remote objects on disk, for later mounts and other processes.
 *
 *   DIR/zerofs-cache        "1\n", and the lock that all processes take to count and to evict
 *   DIR/used                bytes in use on the disk, as text; never less than there are
 *   DIR/o/KEY/about         the object's address, ETag and size, a line each
 *   DIR/o/KEY/N             blocks 16 N … 16 N + 15: a page of 16 entries, then the blocks
 *
 * KEY is the SHA-256 of the object's identity (address, size, ETag, version): another object under the
 * same address has another KEY.  An entry has the length of its block and a checksum of
 * KEY, number, length and bytes: a block that is torn, corrupted or in the wrong place is fetched
 * and written anew.  So nothing has to be flushed, and nobody waits for anybody but
 * while counting.  Only objects with a strong ETag or a version are kept, and only those that were not
 * written a moment before they were seen. */
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

/* Identity of an object; texts without a newline or credential. */
struct diskcache_about {
    const char *url, *etag, *version;
    uint64_t size;
};
struct diskcache_key diskcache_key_of(const struct diskcache_about *a);

/* Makes the directory (0700) if it is not there.  bytes: bound of all files; 0 = none.
 * Errors: ZF_E_USAGE other users may write to it, or it holds something else; ZF_E_IO. */
struct diskcache *diskcache_new(const char *dir, uint64_t bytes, struct zf_err *err) ZF_CHECKED;
/* Writes what was put so far. */
void diskcache_free(struct diskcache *c);

/* Is block k, of n bytes, here?  Then it is in buf.  From any thread. */
bool diskcache_get(struct diskcache *c, const struct diskcache_key *key, uint64_t k, void *buf,
                   size_t n);

/* Keeps block k in a while: copies n bytes, which another thread writes; when that is far behind, they are
 * forgotten.  about is written with an object's first block.  Never waits. */
void diskcache_put(struct diskcache *c, const struct diskcache_key *key,
                   const struct diskcache_about *about, uint64_t k, const void *p, size_t n);

/* Is the queue to the disk short enough for more read-ahead? */
bool diskcache_has_room(struct diskcache *c);
/* Waits until it is, as long as the disk goes on writing: for a reader, before it fetches blocks that the queue would
 * drop.  A disk that hangs is waited for once, a second; a signal ends the wait. */
void diskcache_wait(struct diskcache *c);

/* The entry of block k: its length and checksum.  For tests. */
void diskcache_entry(const struct diskcache_key *key, uint64_t k, const void *p, size_t n,
                     uint8_t entry[DISKCACHE_ENTRY]);

/* ---- of the files (diskcache_files.c) -------------------------------------------------------- */

/* Takes the lock; its descriptor, or -1.  Closing that gives it back. */
int diskcache_lock(int dir);
/* Under the lock: counts `more` bytes, and evicts the longest unused if there are more than
 * `most` (0 = no bound) then.  False: no room. */
bool diskcache_count(int dir, uint64_t more, uint64_t most);
/* The directory of an object, or -1; make: made if it is not there, which *made_out (or NULL) then says.
 * Neither it nor the one above may be a link: only our own files are removed or written there. */
int diskcache_object(int dir, const char *key, bool make, bool *made_out);
/* Disk space of n bytes in a file, and of an object beside its blocks (its directory, the directory's entry,
 * `about`), at most. */
#define DISKCACHE_UNIT 4096u
#define DISKCACHE_OBJECT (2 * DISKCACHE_UNIT + 256u)
/* Opens and, with make, makes the directory; -1 and err. */
int diskcache_open_dir(const char *path, bool make, struct zf_err *err);

#endif
