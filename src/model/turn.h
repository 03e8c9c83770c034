/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MODEL_TURN_H
#define MODEL_TURN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Is there a way for elements of so many bytes? */
bool turn_can(uint64_t bytes);

/* Element (row r, column c) of n bytes, which is at from + c * from_pitch + r * n, goes to
 * to + r * to_pitch + c * n.  Nothing has to be aligned; the two do not overlap. */
struct turn {
    unsigned char *to;
    const unsigned char *from;
    size_t to_pitch, from_pitch; /* bytes */
    size_t rows, cols;
};

void turn_matrix(const struct turn *t, size_t bytes);

#endif
