/* SPDX-License-Identifier: Apache-2.0 */
/* The operands that protocol 0 writes as lines of text, and UTF-8.  A function gives NULL with an
 * error whose sentence is the predicate of "opcode X …". */
#ifndef CODEC_PICKLE_TEXT_H
#define CODEC_PICKLE_TEXT_H

#include <zf/base/out.h>

#include "heap.h"

/* A STR; not UTF-8: an error. */
struct zf_pv *pickle_text_str(struct pickle_heap *h, const char *p, uint64_t n,
                              struct zf_err *err) ZF_CHECKED;
/* A str of Python 2: a STR when it is UTF-8, else BYTES. */
struct zf_pv *pickle_text_str2(struct pickle_heap *h, const char *p, uint64_t n,
                               struct zf_err *err) ZF_CHECKED;
/* Two's complement, little-endian: INT, or BIGINT without needless bytes. */
struct zf_pv *pickle_text_twos(struct pickle_heap *h, const char *p, uint64_t n,
                               struct zf_err *err) ZF_CHECKED;
/* "123", "-5", with a trailing 'L' or without. */
struct zf_pv *pickle_text_int(struct pickle_heap *h, const char *p, uint64_t n,
                              struct zf_err *err) ZF_CHECKED;
/* As Python's float() but without underscores. */
struct zf_pv *pickle_text_float(struct pickle_heap *h, const char *p, uint64_t n,
                                struct zf_err *err) ZF_CHECKED;
/* 'quoted' with backslash escapes, as repr() of a Python 2 str. */
struct zf_pv *pickle_text_quoted(struct pickle_heap *h, const char *p, uint64_t n,
                                 struct zf_err *err) ZF_CHECKED;
/* Latin-1 with \uXXXX and \UXXXXXXXX ("raw-unicode-escape"). */
struct zf_pv *pickle_text_raw_unicode(struct pickle_heap *h, const char *p, uint64_t n,
                                      struct zf_err *err) ZF_CHECKED;
/* Either's text alone, behind what is in *text. */
bool pickle_text_unquote(const char *p, uint64_t n, struct zf_out *text,
                         struct zf_err *err) ZF_CHECKED;
bool pickle_text_unescape(const char *p, uint64_t n, struct zf_out *text,
                          struct zf_err *err) ZF_CHECKED;
/* A memo key: decimal digits only. */
bool pickle_text_key(const char *p, uint64_t n, uint64_t *out) ZF_CHECKED;

#endif
