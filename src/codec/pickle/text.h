/* SPDX-License-Identifier: Apache-2.0 */
/* Text and whole numbers as values.  On failure the functions return NULL, and an error message that continues
 * "opcode X …". */
#ifndef CODEC_PICKLE_TEXT_H
#define CODEC_PICKLE_TEXT_H

#include "heap.h"

/* A STR; fails if p[n] is not UTF-8. */
struct zf_pv *pickle_text_str(struct pickle_heap *h, const char *p, uint64_t n,
                              struct zf_err *err) ZF_CHECKED;
/* A str of Python 2: a STR if it is UTF-8, else BYTES. */
struct zf_pv *pickle_text_str2(struct pickle_heap *h, const char *p, uint64_t n,
                               struct zf_err *err) ZF_CHECKED;
/* Two's complement, little-endian: INT, or BIGINT without needless bytes. */
struct zf_pv *pickle_text_twos(struct pickle_heap *h, const char *p, uint64_t n,
                               struct zf_err *err) ZF_CHECKED;
/* "123", "-5": an INT. */
struct zf_pv *pickle_text_int(struct pickle_heap *h, const char *p, uint64_t n,
                              struct zf_err *err) ZF_CHECKED;

#endif
