/* SPDX-License-Identifier: Apache-2.0 */
/* What the bytes of an 8-bit type become: tables that the reference makes, once, and how they
 * follow from the two halves of the byte, so that vectors need tables of 16 alone.  Of a float the
 * upper half of the f32 (or the bf16, the f16) is a straight line over the magnitude: its lower
 * byte depends on the lower four bits only, its upper byte is a sum.  Subnormals are not on the
 * line: they are in the first row of 16.  What remains, NaN and infinity, is rare. */
#ifndef MODEL_CAST_TINY_H
#define MODEL_CAST_TINY_H

#include <zf/base/dtype.h>

struct cast_tiny {
    uint32_t size;       /* bytes of an element: 2 or 4 */
    uint16_t half[256];  /* the elements that have 2, … */
    uint32_t whole[256]; /* … or 4 */
    uint8_t low
        [256]; /* the lower byte of an element's upper half (of all of an element of 2 bytes), … */
    uint8_t high[256];  /* … the upper byte */
    uint8_t wild, rare; /* (x | wild) == rare: x is rare; of the others the lower half is zero */

    /* low[x] and high[x], unless x is rare, for row r = x >> 4 and column c = x & 15:
     *   x & line ? line_low[c] : first_low[c],   row[r] + (x & line ? line_high[c] : first_high[c]) */
    bool in_rows; /* is it so?  (Not of f8_e8m0 to f16.) */
    uint8_t line;
    uint8_t line_low[16], line_high[16], first_low[16], first_high[16], row[16];
};

/* from: an 8-bit type; to: F32, F16, BF16.  Borrowed, for ever. */
const struct cast_tiny *cast_tiny_of(enum zf_dtype from, enum zf_dtype to);

#endif
