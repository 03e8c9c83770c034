/* SPDX-License-Identifier: Apache-2.0 */
/* Credentials for Google Cloud Storage. */
#ifndef REMOTE_GS_H
#define REMOTE_GS_H

#include <time.h>

#include <zf/base/err.h>
#include <zf/base/out.h>

#include "http.h"

/* ---- credential files (gs_cred.c) ---------------------------------------------------------------------------- */

#define GS_CRED_BYTES (64u << 10) /* of a file */

enum gs_type { GS_SERVICE_ACCOUNT, GS_AUTHORIZED_USER };

/* A file as `gcloud` and the console write it; members are owned, NULL where the type has none. */
struct gs_cred {
    enum gs_type type;
    char *email, *key_id, *key; /* GS_SERVICE_ACCOUNT: key in PEM */
    char *token_uri;
    char *client_id, *client_secret, *refresh; /* GS_AUTHORIZED_USER */
};

/* Reads p[n].  Errors: ZF_E_FORMAT, ZF_E_UNSUPPORTED another type; messages quote no member but the
 * type. */
bool gs_cred_read(struct gs_cred *out, const void *p, size_t n, struct zf_err *err) ZF_CHECKED;

/* Wipes what it held. */
void gs_cred_fini(struct gs_cred *c);

static inline void zf_auto_gs_cred(struct gs_cred *c)
{
    gs_cred_fini(c);
}

/* "access_token" and "expires_in" of a token service's answer; *token is malloc'ed.
 * Errors: ZF_E_FORMAT. */
bool gs_cred_token(const void *p, size_t n, char **token, uint64_t *seconds,
                   struct zf_err *err) ZF_CHECKED;

/* The form that is POSTed to token_uri for a token. */
bool gs_cred_form(const struct gs_cred *c, time_t now, struct zf_out *out,
                  struct zf_err *err) ZF_CHECKED;

/* ---- RS256 (rs256.c) ---------------------------------------------------------------------------------- */

/* Adds p[n] in base64url without padding (RFC 7515). */
void rs256_base64(struct zf_out *out, const void *p, size_t n);

/* Adds the signature over p[n] with a key in PEM, PKCS #8 or PKCS #1.  Errors: ZF_E_FORMAT this is no such key;
 * ZF_E_UNSUPPORTED built without GnuTLS, or it cannot be loaded. */
bool rs256_sign(const char *pem, const void *p, size_t n, struct zf_out *out,
                struct zf_err *err) ZF_CHECKED;

/* ---- signed requests (gs_auth.c) ------------------------------------------------------------------------------------- */

/* Decides where tokens will come from; makes no request.  Errors: ZF_E_FORMAT, ZF_E_UNSUPPORTED, ZF_E_USAGE files of
 * credentials. */
struct auth *gs_auth_new(struct http *http, const char *bucket, struct zf_err *err) ZF_CHECKED;

#endif
