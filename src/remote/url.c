/* SPDX-License-Identifier: Apache-2.0 */
#include "url.h"

#include <ctype.h>
#include <stdio.h>
#include <strings.h>

#include <zf/base/hex.h>

/* ---- parts ----------------------------------------------------------------------------------- */

static void url_authority(struct url *u, const char *p, const char *end)
{
    const char *at = memrchr(p, '@', (size_t)(end - p));

    if (at) {
        u->user = (struct url_part){p, (size_t)(at - p)};
        p = at + 1;
    }
    const char *bracket = p < end && *p == '[' ? memchr(p, ']', (size_t)(end - p)) : NULL;
    const char *from = bracket ? bracket : p, *colon = memchr(from, ':', (size_t)(end - from));
    u->host = (struct url_part){p, (size_t)((colon ? colon : end) - p)};
    if (colon)
        u->port = (struct url_part){colon + 1, (size_t)(end - colon - 1)};
}

bool url_split(const char *text, struct url *out)
{
    size_t n = 0;

    *out = (struct url){.scheme = {text, 0}};
    while (isalnum((unsigned char)text[n]) || (n && text[n] && strchr("+-.", text[n])))
        n++;
    if (!n || !isalpha((unsigned char)text[0]) || strncmp(text + n, "://", 3) != 0)
        return false;
    out->scheme.n = n;
    const char *host = text + n + 3, *path = host + strcspn(host, "/?#");
    url_authority(out, host, path);
    out->path = (struct url_part){path, strcspn(path, "?#")};
    if (path[out->path.n] == '?') {
        const char *query = path + out->path.n + 1;

        out->query = (struct url_part){query, strcspn(query, "#")};
    }
    return true;
}

bool url_part_is(struct url_part part, const char *text)
{
    return strlen(text) == part.n && strncasecmp(part.p, text, part.n) == 0;
}

bool url_is(const char *text, const char *scheme)
{
    struct url u;

    return url_split(text, &u) && url_part_is(u.scheme, scheme);
}

bool url_is_web(const char *text)
{
    return url_is(text, "http") || url_is(text, "https");
}

bool url_check(const char *text, struct zf_err *err)
{
    struct url u;

    if (!url_split(text, &u) || !url_is_web(text))
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "this is not an http or https address");
    if (u.user.p) {
        return zf_fail(
            err, ZF_E_USAGE, ZF_OFF_NONE,
            "other users can see a user or password in an address. Put them into ~/.netrc");
    }
    if (!u.host.n)
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "the address has no host");
    if (u.port.n && strspn(u.port.p, "0123456789") < u.port.n)
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "the port of the address is not a number");
    for (const char *p = text; *p; p++) {
        if (*p <= ' ' || *p >= 0x7f) {
            return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                           "the address holds a byte %02x that should be percent-encoded",
                           (unsigned char)*p);
        }
    }
    return true;
}

bool url_is_endpoint(const char *text)
{
    struct zf_err ignored;
    struct url u;

    return url_check(text, &ignored) && url_split(text, &u) && !u.query.n;
}

/* ---- parts as text --------------------------------------------------------------------------- */

void url_lower(struct zf_out *out, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char c = p[i] >= 'A' && p[i] <= 'Z' ? (char)(p[i] + 32) : p[i];

        zf_out_add(out, &c, 1);
    }
}

void url_add_host(struct zf_out *out, const struct url *u)
{
    const char *meant = url_part_is(u->scheme, "https") ? "443" : "80";

    url_lower(out, u->host.p, u->host.n);
    if (u->port.n && !url_part_is(u->port, meant)) {
        zf_out_str(out, ":");
        zf_out_add(out, u->port.p, u->port.n);
    }
}

char *url_origin(const char *text)
{
    zf_auto(out) struct zf_out o = {0};
    struct url u;

    if (!url_split(text, &u))
        return NULL;
    url_lower(&o, u.scheme.p, u.scheme.n);
    zf_out_str(&o, "://");
    url_add_host(&o, &u);
    return o.bad ? NULL : zf_give(o.p);
}

char *url_shown(const char *text)
{
    zf_auto(out) struct zf_out o = {0};
    const char *end = text + strcspn(text, "?#");
    struct url u;

    if (url_split(text, &u) && u.user.p) {
        zf_out_add(&o, text, (size_t)(u.user.p - text));
        text = u.host.p;
    }
    zf_out_add(&o, text, (size_t)(end - text));
    return o.bad ? NULL : zf_give(o.p);
}

/* ---- percent encoding ------------------------------------------------------------------------ */

static bool url_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("-._~", c));
}

void url_encode(struct zf_out *out, const char *p, size_t n, bool slash)
{
    static const char digit[] = "0123456789ABCDEF";

    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)p[i];

        if (url_plain(p[i]) || (slash && c == '/'))
            zf_out_add(out, &p[i], 1);
        else
            zf_out_add(out, (char[]){'%', digit[c >> 4], digit[c & 15]}, 3);
    }
}

bool url_decode(struct zf_out *out, const char *p, size_t n, bool plus)
{
    for (size_t i = 0; i < n; i++) {
        char c = plus && p[i] == '+' ? ' ' : p[i];

        if (c == '%') {
            const int high = n - i > 2 ? zf_hex_digit(p[i + 1]) : -1;
            const int low = high >= 0 ? zf_hex_digit(p[i + 2]) : -1;

            c = low < 0 ? '\0' : (char)(high * 16 + low);
            i += 2;
        }
        if (!c)
            return false;
        zf_out_add(out, &c, 1);
    }
    return true;
}
