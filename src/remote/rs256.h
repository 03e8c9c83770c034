/* SPDX-License-Identifier: Apache-2.0 */
/* RSASSA-PKCS1-v1_5 with SHA-256, for the assertions of service accounts; by nettle's hogweed. */
#ifndef ZF_REMOTE_RS256_H
#define ZF_REMOTE_RS256_H

#include <zf/base/err.h>
#include <zf/base/out.h>

/* Adds p[n] in base64url without padding (RFC 7515). */
void rs256_base64(struct zf_out *out, const void *p, size_t n);

/* Adds the signature over p[n] with a key in PEM, PKCS #8 or PKCS #1.  Errors: ZF_E_FORMAT no such key;
 * ZF_E_UNSUPPORTED built without hogweed. */
bool rs256_sign(const char *pem, const void *p, size_t n, struct zf_out *out,
                struct zf_err *err) ZF_CHECKED;

#endif
