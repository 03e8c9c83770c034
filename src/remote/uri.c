/* SPDX-License-Identifier: Apache-2.0 */
#include "uri.h"

#include <strings.h>

#include <zf/base/hex.h>

/* host[:port], where the host may be an address in brackets. */
static bool uri_authority(struct uri_part text, struct uri *out)
{
    const char *at = text.n ? memrchr(text.p, '@', text.n) : NULL;

    if (at) {
        out->user = (struct uri_part){text.p, (size_t)(at - text.p)};
        text.n -= out->user.n + 1;
        text.p = at + 1;
    }
    const char *end = text.p + text.n;
    const char *from = text.n && *text.p == '[' ? memchr(text.p, ']', text.n) : text.p;
    if (!from) {
        return false;
    }
    const char *colon = memchr(from, ':', (size_t)(end - from));
    out->host = (struct uri_part){text.p, (size_t)((colon ? colon : end) - text.p)};
    if (colon) {
        out->port = (struct uri_part){colon + 1, (size_t)(end - colon - 1)};
    }
    for (size_t i = 0; i < out->port.n; i++) {
        if (out->port.p[i] < '0' || out->port.p[i] > '9') {
            return false;
        }
    }
    return out->host.n > 0;
}

bool uri_split(const char *url, struct uri *out)
{
    size_t n = strcspn(url, ":/?#");

    *out = (struct uri){0};
    if (!n || strncmp(url + n, "://", 3) != 0) {
        return false;
    }
    out->scheme = (struct uri_part){url, n};
    const char *p = url + n + 3;
    n = strcspn(p, "/?#");
    if (!uri_authority((struct uri_part){p, n}, out)) {
        return false;
    }
    p += n;
    n = strcspn(p, "?#");
    out->path = (struct uri_part){p, n};
    p += n;
    if (*p == '?') {
        out->query = (struct uri_part){p + 1, strcspn(p + 1, "#")};
    }
    return true;
}

bool uri_part_is(struct uri_part part, const char *text)
{
    return strlen(text) == part.n && strncasecmp(part.p, text, part.n) == 0;
}

/* Is the port none, or the one that the scheme means anyway? */
static bool uri_default_port(const struct uri *u)
{
    return !u->port.n || (uri_part_is(u->scheme, "https") && uri_part_is(u->port, "443")) ||
           (uri_part_is(u->scheme, "http") && uri_part_is(u->port, "80"));
}

bool uri_is_web(const struct uri *u)
{
    return (uri_part_is(u->scheme, "http") || uri_part_is(u->scheme, "https")) && !u->user.n &&
           !u->query.n;
}

void uri_lower(struct zf_out *out, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char c = p[i] >= 'A' && p[i] <= 'Z' ? (char)(p[i] + 32) : p[i];

        zf_out_add(out, &c, 1);
    }
}

void uri_host(struct zf_out *out, const struct uri *u)
{
    uri_lower(out, u->host.p, u->host.n);
    if (!uri_default_port(u)) {
        zf_out_str(out, ":");
        zf_out_add(out, u->port.p, u->port.n);
    }
}

static bool uri_plain(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

void uri_encode(struct zf_out *out, const char *p, size_t n, bool slash)
{
    static const char digit[] = "0123456789ABCDEF";

    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)p[i];
        if (uri_plain(c) || (slash && c == '/')) {
            zf_out_add(out, &p[i], 1);
        } else {
            zf_out_add(out, (char[]){'%', digit[c >> 4], digit[c & 15]}, 3);
        }
    }
}

bool uri_decode(struct zf_out *out, const char *p, size_t n, bool plus)
{
    for (size_t i = 0; i < n; i++) {
        char c = plus && p[i] == '+' ? ' ' : p[i];

        if (c == '%') {
            int high = n - i > 2 ? zf_hex_digit(p[i + 1]) : -1;
            int low = high >= 0 ? zf_hex_digit(p[i + 2]) : -1;

            c = low < 0 ? '\0' : (char)(high * 16 + low);
            i += 2;
        }
        if (!c) {
            return false;
        }
        zf_out_add(out, &c, 1);
    }
    return true;
}
