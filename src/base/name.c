/* SPDX-License-Identifier: Apache-2.0 */
/* File names: %XX for bytes that a path cannot hold or that are awkward in a shell, a hash in names
 * that are too long, and natural order, in which 2 comes before 10. */
#include <zf/base/name.h>

#include <nettle/sha2.h>
#include <stdio.h>
#include <string.h>

#include <zf/base/hex.h>

void zf_sha256(const void *p, size_t n, uint8_t out[32])
{
    struct sha256_ctx ctx;

    sha256_init(&ctx);
    sha256_update(&ctx, n, p);
    sha256_digest(&ctx, 32, out);
}

bool zf_name_ends(const char *name, const char *tail)
{
    size_t n = strlen(name), m = strlen(tail);

    return n >= m && memcmp(name + n - m, tail, m) == 0;
}

static bool name_escaped(unsigned char c, bool first)
{
    return c < 0x20 || c == 0x7f || c == '/' || c == '%' || (c == '.' && first);
}

/* State of the encoder: `at` is the number of bytes so far, `cut` the last character boundary that
 * leaves room for the hash and suffix. */
struct encoder {
    char *out;
    size_t at, cut, keep;
};

static void name_put(struct encoder *e, const char *p, size_t n)
{
    if (e->at + n <= ZF_NAME_MAX)
        memcpy(e->out + e->at, p, n);
    e->at += n;
    if (e->at <= e->keep)
        e->cut = e->at;
}

static void name_encode(struct encoder *e, const char *raw, size_t n)
{
    for (size_t i = 0; i < n && e->at <= ZF_NAME_MAX;) {
        unsigned char c = (unsigned char)raw[i];
        size_t len = zf_utf8_len(raw + i, n - i);

        if (len == 0 || (len == 1 && name_escaped(c, e->at == 0))) {
            char hex[4];

            (void)snprintf(hex, sizeof hex, "%%%02X", c);
            name_put(e, hex, 3);
            i++;
        } else {
            name_put(e, raw + i, len);
            i += len;
        }
    }
}

size_t zf_name_encode(char out[ZF_NAME_MAX + 1], const char *raw, size_t n, const char *suffix)
{
    size_t tail = 1 + 16 + strlen(suffix);
    struct encoder e = {.out = out, .keep = tail < ZF_NAME_MAX ? ZF_NAME_MAX - tail : 0};

    name_encode(&e, raw, n);
    name_encode(&e, suffix, strlen(suffix));
    if (e.at == 0)
        name_put(&e, "%", 1);
    if (e.at <= ZF_NAME_MAX) {
        out[e.at] = '\0';
        return e.at;
    }
    uint8_t sum[32];
    zf_sha256(raw, n, sum);
    out[e.cut] = '~';
    zf_hex(out + e.cut + 1, sum, 8);
    memcpy(out + e.cut + 17, suffix, strlen(suffix) + 1);
    return e.cut + tail;
}

static int name_hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool zf_name_decode(char *out, size_t *out_len, const char *file, size_t n)
{
    size_t at = 0;

    for (size_t i = 0; i < n; i++) {
        if (file[i] != '%') {
            out[at++] = file[i];
            continue;
        }
        int hi = n - i > 2 ? name_hex_digit(file[i + 1]) : -1;
        int lo = n - i > 2 ? name_hex_digit(file[i + 2]) : -1;
        if (hi < 0 || lo < 0)
            return false;
        out[at++] = (char)(hi * 16 + lo);
        i += 2;
    }
    out[at] = '\0';
    *out_len = at;
    return true;
}

static bool name_digit(const char *p, size_t i, size_t n)
{
    return i < n && p[i] >= '0' && p[i] <= '9';
}

/* Compares the numbers at a[*i] and b[*j] and moves past them. */
static int name_cmp_number(const char *a, size_t an, size_t *i, const char *b, size_t bn, size_t *j)
{
    while (*i < an && a[*i] == '0')
        (*i)++;
    while (*j < bn && b[*j] == '0')
        (*j)++;
    size_t x = *i, y = *j;
    while (name_digit(a, *i, an))
        (*i)++;
    while (name_digit(b, *j, bn))
        (*j)++;
    size_t nx = *i - x, ny = *j - y;
    if (nx != ny)
        return nx < ny ? -1 : 1;
    return memcmp(a + x, b + y, nx);
}

int zf_name_cmp(const char *a, size_t an, const char *b, size_t bn)
{
    size_t i = 0, j;

    /* Skip the common prefix, except for digits at its end. */
    while (i < an && i < bn && a[i] == b[i])
        i++;
    while (i > 0 && name_digit(a, i - 1, an))
        i--;
    for (j = i; i < an && j < bn;) {
        if (name_digit(a, i, an) && name_digit(b, j, bn)) {
            int c = name_cmp_number(a, an, &i, b, bn, &j);

            if (c)
                return c;
        } else if (a[i] != b[j]) {
            return (unsigned char)a[i] < (unsigned char)b[j] ? -1 : 1;
        } else {
            i++;
            j++;
        }
    }
    if (i < an || j < bn)
        return i < an ? 1 : -1;
    int c = memcmp(a, b, an < bn ? an : bn);
    return c ? c : an < bn ? -1 : an > bn;
}
