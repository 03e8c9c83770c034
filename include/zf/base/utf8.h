/* SPDX-License-Identifier: Apache-2.0 */
/* Well-formed UTF-8. */
#ifndef ZF_BASE_UTF8_H
#define ZF_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the well-formed UTF-8 character at p, of which n > 0 bytes are there; 0 = there
 * is none. */
size_t zf_utf8_len(const char *p, size_t n);

/* Is p[n] valid UTF-8 (no surrogates, no overlong forms)? */
bool zf_utf8_valid(const char *p, size_t n);

#endif
