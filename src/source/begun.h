/* SPDX-License-Identifier: Apache-2.0 */
/* How many files this process has begun to read, for a line of progress. */
#ifndef SOURCE_BEGUN_H
#define SOURCE_BEGUN_H

#include <zf/source/source.h>

/* Counts the file once, however often it is said. */
void begun_count(struct zf_source *src);
/* There will be at least n more than were begun so far. */
void begun_expect(uint64_t n);

#endif
