/* SPDX-License-Identifier: Apache-2.0 */
/* To be preloaded: what fstat(2) said of a descriptor first is its answer until it is closed, at no cost.  So it shows
 * what the proof costs that a shard is still the file that was mounted; nothing proves it here. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../support/next.h"

#define DESCRIPTORS 4096

static struct stat first[DESCRIPTORS];
static atomic_bool known[DESCRIPTORS];

int fstat(int fd, struct stat *st)
{
    if (fd >= 0 && fd < DESCRIPTORS && atomic_load_explicit(&known[fd], memory_order_acquire)) {
        *st = first[fd];
        return 0;
    }
    int result = NEXT(fstat)(fd, st);
    if (result == 0 && fd < DESCRIPTORS) {
        first[fd] = *st;
        atomic_store_explicit(&known[fd], true, memory_order_release);
    }
    return result;
}

int close(int fd)
{
    if (fd >= 0 && fd < DESCRIPTORS)
        atomic_store_explicit(&known[fd], false, memory_order_release);
    return NEXT(close)(fd);
}
