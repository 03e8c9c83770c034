/* SPDX-License-Identifier: Apache-2.0 */
/* Prefetching: tells a source what will be read soon, and reports whether reads waited for storage.
 *
 * Only the mount knows where a reader is going, and only the source knows whether prefetching helps:
 * cached bytes need none.  So the mount asks after each read whether it waited for storage, and
 * announces the next bytes only if it did. */
#ifndef ZF_SOURCE_WANT_H
#define ZF_SOURCE_WANT_H

#include <zf/source/source.h>

/* Prefetches bytes [off, off + n) of s, up to its end.  Returns at once: other threads fetch the
 * bytes, and failures are ignored.  Only ZF_PREFETCH_NOW may open a file in this thread, and wait as a
 * read does.  For computed bytes (inflate), the bytes they are made from are fetched. */
void zf_source_want(struct zf_source *s, uint64_t off, uint64_t n, enum zf_prefetch how);

/* Turns on or off that waiting of this thread's reads is recorded, and clears the record.  Returns
 * the old setting. */
bool zf_want_watch(bool yes);

/* Did a read of this thread wait for storage since the last call, or since watching was turned on? */
bool zf_want_waited(void);

/* For sources: is watching on in this thread; and: records that a read waited. */
bool zf_want_watched(void);
void zf_want_note_wait(void);

#endif
