/* SPDX-License-Identifier: Apache-2.0 */
/* The target of a link in a listing.  The rule, for a listing of the directory at `base`:
 *
 * - links of sorting (?C=N), anchors (#top), other schemes, other hosts, the directory itself, its
 *   parents and siblings are skipped, because pages have such links;
 * - paths of several components (a/b) are skipped, because no listing of this directory has them;
 * - any other link is an entry: its name is percent-decoded once, and a final '/' means a directory. */
#include "listings.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <zf/base/hex.h>

#include "url.h"

/* ---- character references -------------------------------------------------------------------- */

/* The code point of the numeric reference p[n], "38" or "x26"; 0: not a number. */
static uint32_t href_number(const char *p, size_t n)
{
    bool hex = n && (p[0] == 'x' || p[0] == 'X');
    uint32_t v = 0;

    for (size_t i = hex; i < n; i++) {
        int d = zf_hex_digit(p[i]);

        if (d < 0 || (!hex && d > 9) || v > 0x10ffff)
            return 0;
        v = v * (hex ? 16 : 10) + (uint32_t)d;
    }
    return v > 0x10ffff || (v >= 0xd800 && v < 0xe000) ? 0 : v;
}

/* The character of the reference p[n], the text between & and ;.  0: unknown. */
static uint32_t href_reference(const char *p, size_t n)
{
    static const struct {
        const char *name;
        uint32_t is;
    } known[] = {{"amp", '&'},  {"lt", '<'},    {"gt", '>'},
                 {"quot", '"'}, {"apos", '\''}, {"nbsp", 0xa0}};

    if (n > 1 && p[0] == '#')
        return href_number(p + 1, n - 1);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strlen(known[i].name) == n && memcmp(known[i].name, p, n) == 0)
            return known[i].is;
    return 0;
}

void href_text(struct zf_out *out, const char *p, size_t n)
{
    enum { LONGEST = 10 };

    for (size_t i = 0; i < n; i++) {
        size_t most = n - i < LONGEST ? n - i : LONGEST;
        const char *end = p[i] == '&' ? memchr(p + i, ';', most) : NULL;
        uint32_t c = end ? href_reference(p + i + 1, (size_t)(end - p) - i - 1) : 0;

        if (c) {
            zf_out_utf8(out, c);
            i = (size_t)(end - p);
        } else {
            zf_out_add(out, p + i, 1);
        }
    }
}

/* ---- links ----------------------------------------------------------------------------------- */

/* Removes the prefix that ref shares with base: *ref becomes relative to base.  False: it leads
 * elsewhere. */
static bool href_relative(const char *base, const char **ref, size_t *n)
{
    struct url u;
    const char *path = url_split(base, &u) && u.path.n ? u.path.p : "/";
    const char *colon = memchr(*ref, ':', *n), *slash = memchr(*ref, '/', *n);
    bool scheme = colon && (!slash || colon < slash);
    const char *front = scheme ? base : (*n && **ref == '/') ? path : "";
    size_t len = strlen(front);

    if (*n < len || (scheme && len == 0))
        return false;
    /* Case matters in the path, but not in the host. */
    size_t host = scheme ? (size_t)(path - base) : 0;
    if (scheme && (path < base || path > base + len))
        return false;
    if (strncasecmp(*ref, front, host) != 0 || strncmp(*ref + host, front + host, len - host) != 0)
        return false;
    *ref += len;
    *n -= len;
    return true;
}

bool href_entry(const char *base, const char *ref, size_t ref_n, struct zf_out *name, bool *dir_out)
{
    zf_out_cut(name, 0);
    if (memchr(ref, '?', ref_n) || memchr(ref, '#', ref_n) || !href_relative(base, &ref, &ref_n))
        return false;
    while (ref_n >= 2 && ref[0] == '.' && ref[1] == '/') {
        ref += 2;
        ref_n -= 2;
    }
    bool dir = ref_n && ref[ref_n - 1] == '/';
    ref_n -= dir;
    if (ref_n == 0 || memchr(ref, '/', ref_n) || (ref_n <= 2 && memcmp(ref, "..", ref_n) == 0))
        return false;
    if (!url_decode(name, ref, ref_n, false)) {
        zf_out_cut(name, 0);
        zf_out_add(name, ref, ref_n);
        zf_out_str(name, "/");
    }
    *dir_out = dir;
    return true;
}
