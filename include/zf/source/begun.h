/* SPDX-License-Identifier: Apache-2.0 */
/* The number of files that this process has started to read, for the progress line. */
#ifndef ZF_SOURCE_BEGUN_H
#define ZF_SOURCE_BEGUN_H

#include <stdatomic.h>
#include <stdint.h>

/* Counts a file once; `once` is its flag. */
void zf_begun_count(atomic_bool *once);
/* Announces that at least n more files will be read. */
void zf_begun_expect(uint64_t n);

/* n: files started so far, of all stores; of: the expected number, at least. */
struct zf_begun {
    uint64_t n, of;
};
struct zf_begun zf_begun(void);

#endif
