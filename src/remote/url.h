/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses, RFC 3986. */
#ifndef REMOTE_URL_H
#define REMOTE_URL_H

#include <zf/base/err.h>
#include <zf/base/out.h>

/* The length of the scheme of "scheme://…"; 0: this is no address. */
size_t url_scheme(const char *address);

/* Is it of this scheme? */
bool url_is(const char *address, const char *scheme);

/* The authority of an address, "user@host:80", borrowed: *n_out bytes. */
const char *url_authority(const char *address, size_t *n_out);

/* Is an http or https URL as it can go out: visible ASCII, a host, no user info?
 * Errors: ZF_E_USAGE. */
bool url_check(const char *url, struct zf_err *err) ZF_CHECKED;

/* "https://host:443", lower case, the port always there; malloc'ed.  NULL: out of memory. */
char *url_origin(const char *url);

/* The host with its port where one was said: "host:8080"; malloc'ed.  NULL: out of memory. */
char *url_host(const char *url);

/* The URL without query and fragment, for people; malloc'ed.  NULL: out of memory. */
char *url_shown(const char *url);

#endif
