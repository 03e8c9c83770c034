/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of a packed model.  Numbers are zf_out_var's, texts have their length in front.
 *
 *   tag, step (0, or 1 and the step), notes
 *   stretches: how many; of each: bytes, n, and source and offset [n]
 *   sets: how many; of each: path, raw_only
 *   tensors: how many; of each a byte of enum pack_flags and kind, then
 *     not hidden: number of its set
 *     name
 *     a tie, or shown elsewhere: number of the tensor; nothing else
 *     dtype, ndim, shape
 *     flat: how many pieces; of each: first, n, source, offset, or PACK_PART, tensor, its first element
 *     boxes: how many pieces; of each: start, size, source, offset, 0 or 1 and the strides
 *     value: its bytes
 *     slots: number of its stretches, at, slot
 *   files: how many; of each: path, a byte of enum pack_file, then source, offset and size, or the bytes
 *
 * A source is its number and PACK_SOURCES, or PACK_ZEROS. */
#ifndef MODEL_PACK_H
#define MODEL_PACK_H

#include "build_kind.h"

enum { PACK_ZEROS, PACK_PART, PACK_SOURCES };
enum pack_flags { PACK_KIND = 7, PACK_HIDDEN = 8, PACK_SAME = 16, PACK_TIE = 32, PACK_APART = 64 };
enum pack_file { PACK_BYTES, PACK_RANGE };

#endif
