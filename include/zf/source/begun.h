/* SPDX-License-Identifier: Apache-2.0 */
/* How many files this process has begun to read, for a line of progress. */
#ifndef ZF_SOURCE_BEGUN_H
#define ZF_SOURCE_BEGUN_H

#include <stdatomic.h>
#include <stdint.h>

/* Counts a file, whose flag this is, once. */
void zf_begun_count(atomic_bool *once);
/* There will be at least n more than were begun so far. */
void zf_begun_expect(uint64_t n);

/* Files that were begun, of all stores, and how many these will be at least. */
struct zf_begun {
    uint64_t n, of;
};
struct zf_begun zf_begun(void);

#endif
