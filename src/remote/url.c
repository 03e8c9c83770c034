/* SPDX-License-Identifier: Apache-2.0 */
#include "url.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

size_t url_scheme(const char *address)
{
    size_t n = 0;

    while (isalnum((unsigned char)address[n]) || (n && address[n] && strchr("+-.", address[n]))) {
        n++;
    }
    return n && isalpha((unsigned char)address[0]) && strncmp(address + n, "://", 3) == 0 ? n : 0;
}

bool url_is(const char *address, const char *scheme)
{
    size_t n = url_scheme(address);

    return n && strlen(scheme) == n && strncasecmp(address, scheme, n) == 0;
}

const char *url_authority(const char *address, size_t *n_out)
{
    size_t n = url_scheme(address);
    const char *at = address + (n ? n + 3 : 0);

    *n_out = strcspn(at, "/?#");
    return at;
}

bool url_check(const char *url, struct zf_err *err)
{
    size_t n;
    const char *host = url_authority(url, &n);

    if (!url_is(url, "http") && !url_is(url, "https")) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "this is no http or https address");
    }
    if (n == 0 || host[0] == ':') {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "the address names no host");
    }
    if (memchr(host, '@', n)) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                       "an address with a user or password in it is seen by other users: put them "
                       "into ~/.netrc");
    }
    for (const char *p = url; *p; p++) {
        if (*p <= ' ' || *p >= 0x7f) {
            return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                           "the address holds a byte %02x that should be percent-encoded",
                           (unsigned char)*p);
        }
    }
    return true;
}

char *url_host(const char *url)
{
    size_t n;
    const char *at = url_authority(url, &n);
    const char *user = memchr(at, '@', n);

    if (user) {
        n -= (size_t)(user + 1 - at);
        at = user + 1;
    }
    char *out = strndup(at, n);
    for (char *p = out; p && *p; p++) {
        *p = (char)tolower((unsigned char)*p);
    }
    return out;
}

char *url_origin(const char *url)
{
    bool tls = url_is(url, "https");
    char *host = url_host(url), *out = NULL;
    /* An IPv6 address has colons of its own, in brackets. */
    const char *behind = host ? strrchr(host, ']') : NULL;
    bool port = host && strchr(behind ? behind : host, ':');

    if (!host || asprintf(&out, "%s://%s%s", tls ? "https" : "http", host,
                          port  ? ""
                          : tls ? ":443"
                                : ":80") < 0) {
        out = NULL;
    }
    free(host);
    return out;
}

char *url_shown(const char *url)
{
    size_t n, all = strcspn(url, "?#");
    const char *at = url_authority(url, &n);
    const char *user = memchr(at, '@', n);
    char *out = NULL;

    if (!user) {
        return strndup(url, all);
    }
    const char *path = user + 1;
    int n_out = asprintf(&out, "%.*s%.*s", (int)(at - url), url, (int)(url + all - path), path);
    return n_out < 0 ? NULL : out;
}
