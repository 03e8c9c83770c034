/* SPDX-License-Identifier: Apache-2.0 */
/* How often a program looks at a text: tests count, instead of taking the time, that the work does not grow with
 * the square of what it is done for.  Linked into a test, compares.c stands in for libc's functions. */
#ifndef TESTS_SUPPORT_COMPARES_H
#define TESTS_SUPPORT_COMPARES_H

#include <stdint.h>

/* Calls of strcmp, strncmp, memcmp, strchr, strrchr and strcspn so far, by any thread. */
uint64_t compares_so_far(void);

#endif
