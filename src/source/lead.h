/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the kernel reading ahead in a file, farther than it would by itself.
 *
 * It asks a disk for the next stretch (8 MiB, or whatever read_ahead_kb says) when a reader comes by the first page of
 * the last one.  By then the disk has that, and idles.  And at a place where no reader was before it begins with small
 * reads.  So somebody reads a little, far enough ahead of the reader, just as one that goes on there would: the stretches are
 * begun sooner, and in the same large folios, which no advice (POSIX_FADV_WILLNEED) brings. */
#ifndef SOURCE_LEAD_H
#define SOURCE_LEAD_H

#include <stdint.h>

struct lead {
    uint64_t next; /* all below was read for, back to where it began; 0: nothing was */
};

/* Bytes [off, off + n) of the file will be read soon.  Waits for storage.  Only one thread at a time for one file. */
void lead(int fd, struct lead *l, uint64_t off, uint64_t n);

/* Reads them, up to a whole 16 KiB, into the page cache only. */
void lead_read(int fd, uint64_t off, uint64_t n);

#endif
