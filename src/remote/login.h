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

#include <zf/base/out.h>

#include "auth.h"

/* For the server of this URL; *out NULL where there is nothing to say.  Errors: ZF_E_FORMAT the netrc
 * file, or a variable that is no such thing; ZF_E_NOMEM. */
bool login_new(const char *url, struct auth **out, struct zf_err *err) ZF_CHECKED;

/* With this token; takes nothing. */
struct auth *login_bearer(const char *token, struct zf_err *err) ZF_CHECKED;

/* Adds a file of these to *out, which stays empty where there is none that can be read, as for curl.
 * Errors: ZF_E_LIMIT more than `most` bytes: a part of one may hold a part of a password. */
bool login_read(const char *path, size_t most, struct zf_out *out, struct zf_err *err) ZF_CHECKED;

#endif
