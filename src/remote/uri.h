/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of an absolute URL, and percent encoding as RFC 3986 and AWS want it: everything but
 * letters, digits and "-._~", with upper-case digits. */
#ifndef ZF_REMOTE_URI_H
#define ZF_REMOTE_URI_H

#include <zf/base/err.h>
#include <zf/base/out.h>

struct uri_part {
    const char *p; /* borrows from the URL */
    size_t n;
};

struct uri {
    struct uri_part scheme; /* "https", as written */
    struct uri_part user;   /* "name:password", empty for none */
    struct uri_part host;   /* without the port; brackets of IPv6 stay */
    struct uri_part port;   /* digits, empty for none */
    struct uri_part path;   /* "/a/b", empty where the URL ends with the host */
    struct uri_part query;  /* without '?', empty for none */
};

/* Splits an absolute URL; a fragment belongs to no part.  False: not of the form
 * scheme://host[:port][/path][?query]. */
bool uri_split(const char *url, struct uri *out) ZF_CHECKED;

/* True where the part is this text, letter for letter but for case. */
bool uri_part_is(struct uri_part part, const char *text);

/* Is it a plain http:// or https:// URL, without user info or query? */
bool uri_is_web(const struct uri *u);

/* Adds p[n] in lower case, as far as it is ASCII. */
void uri_lower(struct zf_out *out, const char *p, size_t n);

/* Adds "host[:port]" as clients send it: in lower case, and without a port that the scheme means anyway. */
void uri_host(struct zf_out *out, const struct uri *u);

/* Adds p[n], encoded; '/' stays where `slash` is true. */
void uri_encode(struct zf_out *out, const char *p, size_t n, bool slash);

/* Adds p[n], decoded; with `plus`, '+' means a space.  False: '%' without two digits, or a zero byte. */
bool uri_decode(struct zf_out *out, const char *p, size_t n, bool plus) ZF_CHECKED;

#endif
