/* SPDX-License-Identifier: Apache-2.0 */
/* What a fuzz target gives, to libFuzzer or to driver.c. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Reads one input; any outcome but a crash is right.  Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
