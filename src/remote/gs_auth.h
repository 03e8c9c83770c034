/* SPDX-License-Identifier: Apache-2.0 */
/* Bearer tokens for Google Cloud Storage, fetched when they are first needed and again before they run
 * out; without any, requests go out as they are. */
#ifndef ZF_REMOTE_GS_AUTH_H
#define ZF_REMOTE_GS_AUTH_H

#include "http.h"

/* Decides where tokens come from; asks nobody.  NULL: ZF_E_FORMAT, ZF_E_UNSUPPORTED, ZF_E_USAGE files
 * of credentials. */
struct auth *gs_auth_new(struct http *http, const char *bucket, struct zf_err *err) ZF_CHECKED;

#endif
