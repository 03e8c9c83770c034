/* SPDX-License-Identifier: Apache-2.0 */
/* Google's credential files, and the answers of its token services. */
#ifndef ZF_REMOTE_GS_CRED_H
#define ZF_REMOTE_GS_CRED_H

#include <time.h>

#include <zf/base/err.h>
#include <zf/base/out.h>

#define GS_CRED_BYTES (64u << 10) /* of a file */

enum gs_type { GS_SERVICE_ACCOUNT, GS_AUTHORIZED_USER };

/* A file as `gcloud` and the console write it; members are owned, NULL where the type has none. */
struct gs_cred {
    enum gs_type type;
    char *email, *key_id, *key; /* GS_SERVICE_ACCOUNT: key in PEM */
    char *token_uri;
    char *client_id, *client_secret, *refresh; /* GS_AUTHORIZED_USER */
};

/* Reads p[n].  Errors: ZF_E_FORMAT, ZF_E_UNSUPPORTED another type; no sentence says a member's value
 * but the type's. */
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

#endif
