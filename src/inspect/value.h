/* SPDX-License-Identifier: Apache-2.0 */
/* Elements as numbers.  p: little-endian, zf_dtype_info(t)->bytes of them, at any address. */
#ifndef INSPECT_VALUE_H
#define INSPECT_VALUE_H

#include <zf/base/dtype.h>

/* Integers, bool among them, and quantized ones that are not packed. */
bool value_is_int(enum zf_dtype t);
bool value_is_unsigned(enum zf_dtype t);
/* Integers and floating types. */
bool value_is_number(enum zf_dtype t);

/* An integer element; the bits of one from 2^63 on when the type is unsigned. */
int64_t value_int(enum zf_dtype t, const void *p);

/* An element of a type of value_is_number(), rounded for 64-bit integers. */
double value_double(enum zf_dtype t, const void *p);

/* The type of both halves of a complex one; f64 for any other. */
enum zf_dtype value_half(enum zf_dtype t);

#endif
