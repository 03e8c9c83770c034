/* SPDX-License-Identifier: Apache-2.0 */
/* User names, passwords and tokens for web servers, never from the command line:
 *
 * 1. ZEROFS_HTTP_BEARER, a token: "Authorization: Bearer …";
 * 2. ZEROFS_HTTP_USERPWD, "user:password": Basic;
 * 3. the netrc file, $NETRC or ~/.netrc, by host: Basic.
 *
 * The variables are called after GDAL's GDAL_HTTP_BEARER and GDAL_HTTP_USERPWD (gdal.org,
 * user/configoptions), NETRC is curl's and Python's. */
#ifndef REMOTE_LOGIN_H
#define REMOTE_LOGIN_H

#include "auth.h"

/* For the server of this URL; *out NULL where there is nothing to say.  Errors: ZF_E_FORMAT the netrc
 * file, or a variable that is no such thing; ZF_E_NOMEM. */
bool login_new(const char *url, struct auth **out, struct zf_err *err) ZF_CHECKED;

/* With this token; takes nothing. */
struct auth *login_bearer(const char *token, struct zf_err *err) ZF_CHECKED;

/* NULL is fine. */
void login_free(struct auth *a);

#endif
