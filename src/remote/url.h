/* SPDX-License-Identifier: Apache-2.0 */
/* URLs (RFC 3986): their parts, and percent-encoding as AWS requires it: everything but letters, digits and "-._~", with
 * upper-case hex digits. */
#ifndef REMOTE_URL_H
#define REMOTE_URL_H

#include <zf/base/err.h>
#include <zf/base/out.h>

struct url_part {
    const char *p; /* borrows from the URL */
    size_t n;
};

struct url {
    struct url_part scheme; /* "https", as written */
    struct url_part user;   /* "name:password"; p NULL: there is no '@' */
    struct url_part host;   /* without the port; brackets of IPv6 stay */
    struct url_part port;   /* empty for none */
    struct url_part path;   /* "/a/b", empty if the URL ends with the host */
    struct url_part query;  /* without '?', empty for none */
};

/* Splits "scheme://[user@][host][:port][/path][?query][#fragment]"; any part but the scheme may be empty.  False: the text
 * does not begin with a scheme; *out is then empty. */
bool url_split(const char *text, struct url *out);

/* True if the URL has this scheme. */
bool url_is(const char *text, const char *scheme);
/* True if its scheme is http or https. */
bool url_is_web(const char *text);

/* True if the part equals the text, ignoring case. */
bool url_part_is(struct url_part part, const char *text);

/* Checks that the URL can be requested: http or https, visible ASCII, a host, no user.  Errors: ZF_E_USAGE. */
bool url_check(const char *text, struct zf_err *err) ZF_CHECKED;

/* True if the URL passes url_check and has no query. */
bool url_is_endpoint(const char *text);

/* The origin, "https://host[:port]" as in url_add_host; malloc'ed.  NULL: out of memory, or not a URL. */
char *url_origin(const char *text);

/* The URL without user, query and fragment, for messages; malloc'ed.  NULL: out of memory. */
char *url_shown(const char *text);

/* Adds "host[:port]" as clients send it: in lower case, without the scheme's default port. */
void url_add_host(struct zf_out *out, const struct url *u);

/* Adds p[n], ASCII letters in lower case. */
void url_lower(struct zf_out *out, const char *p, size_t n);

/* Adds p[n], encoded; slash: '/' stays. */
void url_encode(struct zf_out *out, const char *p, size_t n, bool slash);

/* Adds p[n], decoded; plus: '+' means a space.  False: '%' without two digits, or a zero byte. */
bool url_decode(struct zf_out *out, const char *p, size_t n, bool plus) ZF_CHECKED;

#endif
