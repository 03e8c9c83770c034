/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of tensors as text: od(1) knows neither bf16 nor the f8 types. */
#ifndef ZF_INSPECT_NUMBER_H
#define ZF_INSPECT_NUMBER_H

#include <zf/base/dtype.h>

/* Room for any element: a c128 has two numbers of at most 25 characters. */
#define ZF_NUMBER_MAX 64

/* The element at p (little-endian, zf_dtype_info(t)->bytes of them) as Python's repr writes numbers: as few
 * digits as read back to the same bits, with a point ("1.0"); "nan", "inf", "-inf"; "true", "false"; "(1.0+2.0j)".
 * Types that are only bits, and packed quantized ones, in hexadecimal. */
void zf_number_text(char out[ZF_NUMBER_MAX], enum zf_dtype t, const void *p);

/* The same for JSON, which has no NaN, infinities or complex numbers: these become strings. */
void zf_number_json(char out[ZF_NUMBER_MAX], enum zf_dtype t, const void *p);

/* The bits of the element, highest first, as hexadecimal digits. */
void zf_number_hex(char out[ZF_NUMBER_MAX], enum zf_dtype t, const void *p);

/* v as Python's repr writes it; "nan", "inf", "-inf". */
void zf_number_double(char out[ZF_NUMBER_MAX], double v);

#endif
