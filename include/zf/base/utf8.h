/* SPDX-License-Identifier: Apache-2.0 */
/* Well-formed UTF-8. */
#ifndef ZF_BASE_UTF8_H
#define ZF_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the well-formed UTF-8 character at p, of which n > 0 bytes are there; 0 = there
 * is none. */
size_t zf_utf8_len(const char *p, size_t n);

/* True if the character at p, of len bytes as by zf_utf8_len, changes how a terminal shows the text around it: a
 * control character (C0, DEL, C1), a mark or override of the writing direction, a line separator.
 * Source: Unicode 15, UnicodeData.txt (Cc, Zl, Zp), PropList.txt (Bidi_Control). */
bool zf_utf8_obeyed(const char *p, size_t len);

/* Is p[n] valid UTF-8 (no surrogates, no overlong forms)? */
bool zf_utf8_valid(const char *p, size_t n);

#endif
