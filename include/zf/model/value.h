/* SPDX-License-Identifier: Apache-2.0 */
/* Elements as numbers.  p: zf_dtype_info(t)->bytes bytes, little-endian, without alignment. */
#ifndef ZF_MODEL_VALUE_H
#define ZF_MODEL_VALUE_H

#include <zf/base/dtype.h>

/* Is it an integer type: including bool, and quantized types that are not packed? */
bool zf_value_is_int(enum zf_dtype t);
bool zf_value_is_unsigned(enum zf_dtype t);
/* Is it an integer or floating type? */
bool zf_value_is_number(enum zf_dtype t);

/* An integer element; unsigned ones from 2^63 on are returned as their bits. */
int64_t zf_value_int(enum zf_dtype t, const void *p);

/* An element of a type for which zf_value_is_number() is true; 64-bit integers are rounded. */
double zf_value_double(enum zf_dtype t, const void *p);

/* The type of both halves of a complex type; f64 for any other. */
enum zf_dtype zf_value_half(enum zf_dtype t);

#endif
