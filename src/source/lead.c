/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the kernel read ahead farther in a file than it does by itself.
 *
 * The kernel requests the next window (8 MiB, or read_ahead_kb) when a reader reaches the first page of the last
 * one.  By then the disk has delivered that, and idles.  And at a new position it starts with small reads.  So
 * another thread reads a byte here and there, far enough ahead of the reader: the windows are requested earlier, and in
 * large folios, which POSIX_FADV_WILLNEED does not use. */
#include "file_self.h"

#include <sys/uio.h>
#include <unistd.h>

/* The start: reads of this size, until the kernel's window is large.  Their bytes are discarded. */
#define START_READ (1u << 20)
#define START_BYTES (2u << 20)
#define DROP_BYTES (16u << 10) /* on a stack, which musl gives a thread 128 KiB of */
/* After that, one byte every STEP is enough: the page that triggers the next window (PG_readahead) is the first of the
 * last window, and windows are 128 KiB, or that doubled several times, from the start of the first one
 * (page_cache_ra_order, page_cache_async_ra, Linux 6.18). */
#define STEP (128u << 10)
/* A reader that skips up to GAP, or jumps back by up to BACK, counts as the same one. */
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
