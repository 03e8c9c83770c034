/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the kernel reading ahead in a file, farther than it would by itself.
 *
 * It asks a disk for the next stretch (8 MiB, or whatever read_ahead_kb says) when a reader comes by the first page of
 * the last one.  By then the disk has that, and idles.  And at a place where no reader was before it begins with small
 * reads.  So somebody reads a little, far enough ahead of the reader, just as one that goes on there would: the stretches are
 * begun sooner, and in the same large folios, which no advice (POSIX_FADV_WILLNEED) brings. */
#include "file_self.h"

#include <sys/uio.h>
#include <unistd.h>

/* How a reader begins: with reads so large, until the kernel's stretches are.  Their bytes are dropped. */
#define START_READ (1u << 20)
#define START_BYTES (2u << 20)
#define DROP_BYTES (16u << 10) /* on a stack, which musl gives a thread 128 KiB of */
/* After that a byte at such distances is enough: the page at which the kernel goes on (PG_readahead) is the first of the
 * last stretch, and stretches are 128 KiB, or that doubled several times, from where the first of them began
 * (page_cache_ra_order, page_cache_async_ra, Linux 6.18). */
#define STEP (128u << 10)
/* A reader that leaves out so much, or comes back so far, is the same one. */
#define GAP (1u << 20)
#define BACK (32u << 20)

void lead_read(int fd, uint64_t off, uint64_t n)
{
    unsigned char drop[DROP_BYTES];
    struct iovec iov[START_READ / DROP_BYTES];

    for (unsigned i = 0; i < START_READ / DROP_BYTES; i++)
        iov[i] = (struct iovec){.iov_base = drop, .iov_len = sizeof drop};
    for (uint64_t done = 0; done < n; done += START_READ) {
        const uint64_t k = n - done < START_READ ? n - done : START_READ;

        (void)preadv(fd, iov, (int)((k + DROP_BYTES - 1) / DROP_BYTES), (off_t)(off + done));
    }
}

static void lead_start(int fd, struct lead *l, uint64_t off, uint64_t n)
{
    n = ((n < START_BYTES ? n : START_BYTES) + STEP - 1) / STEP * STEP;
    lead_read(fd, off, n);
    l->next = off + n;
}

void lead(int fd, struct lead *l, uint64_t off, uint64_t n)
{
    const uint64_t end = off + n;
    char byte;

    if (l->next == 0 || off > l->next + GAP || end + BACK < l->next)
        lead_start(fd, l, off, n);
    for (; l->next < end; l->next += STEP)
        (void)pread(fd, &byte, 1, (off_t)l->next);
}
