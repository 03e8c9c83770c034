/* SPDX-License-Identifier: Apache-2.0 */
/* Telling a source what will be read soon, and hearing from it that a read was kept waiting.
 *
 * Only who serves knows where a reader is going, and only the source knows whether it helps to go
 * ahead of it: bytes that are in memory anyway need nobody to fetch them.  So a reader of sources
 * asks after each read whether it waited for storage, and says what comes next only when it did. */
#ifndef ZF_SOURCE_WANT_H
#define ZF_SOURCE_WANT_H

#include <zf/source/source.h>

/* Bytes [off, off + n) of s will be read soon (what lies behind its end does not count).  Returns at
 * once: what has to be fetched is, by other threads, and nobody hears whether it came.  Only ZF_SOON_NOW may
 * open a file here, and wait as a read of it does.  Of bytes
 * that are made (inflate), those that they are made from are fetched. */
void zf_source_want(struct zf_source *s, uint64_t off, uint64_t n, enum zf_soon how);

/* Says whether the waiting of this thread's reads is to be noticed from now on; forgets what was.
 * Gives what was said before. */
bool zf_want_watch(bool yes);

/* Did a read of this thread wait for storage since it was last asked, or since watching began? */
bool zf_want_waited(void);

/* For sources: is anybody watching, and: this read waited. */
bool zf_want_watched(void);
void zf_want_note_wait(void);

#endif
