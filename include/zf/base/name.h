/* SPDX-License-Identifier: Apache-2.0 */
/* From a parameter's raw name (any bytes) to one file name, and the order in which names are
 * listed.  The rules are documented in zerofs(5), "File names". */
#ifndef ZF_BASE_NAME_H
#define ZF_BASE_NAME_H

#include <zf/base/err.h>
#include <zf/base/utf8.h>

#define ZF_NAME_MAX 255

/* Encodes raw[n] and then `suffix` (".f32", ".npy"; "" for none) as one file name of at most
 * ZF_NAME_MAX bytes: bytes below 0x20, 0x7f, '/', '%', a leading '.' and invalid UTF-8 become %XX.
 * Over 255 bytes the name is cut at a character and %XX boundary so that '~', 16 hex digits of the
 * raw name's SHA-256 and the suffix still fit.  An empty name with an empty suffix gives "%".
 * Returns the length. */
size_t zf_name_encode(char out[ZF_NAME_MAX + 1], const char *raw, size_t n, const char *suffix);

/* Undoes the %XX of file[n] into out (at least n + 1 bytes).  False when a %XX is malformed. */
bool zf_name_decode(char *out, size_t *out_len, const char *file, size_t n) ZF_CHECKED;

/* Natural order: runs of digits compare as numbers, everything else by bytes; ties fall back to
 * plain bytes, so it is a total order.  < 0, 0, > 0. */
int zf_name_cmp(const char *a, size_t an, const char *b, size_t bn);

/* True if the text ends in `tail`. */
bool zf_name_ends(const char *name, const char *tail);

/* SHA-256 of p[n]. */
void zf_sha256(const void *p, size_t n, uint8_t out[32]);

#endif
