/* SPDX-License-Identifier: Apache-2.0 */
/* Turns bytes into keys and scalars.  Every loop consumes the bytes that it has checked, so a token may
 * span several windows; what must be in memory as a whole has at most JSONIN_AHEAD bytes. */
#include "jsonin.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <zf/base/hex.h>
#include <zf/base/utf8.h>

bool jsonin_fail(struct zf_jsonin *in, enum zf_code code, uint64_t off, const char *fmt, ...)
{
    char msg[sizeof in->err.msg];
    va_list ap;

    if (!in->bad) {
        va_start(ap, fmt);
        (void)vsnprintf(msg, sizeof msg, fmt, ap);
        va_end(ap);
        in->bad = true;
        (void)zf_fail(&in->err, code, off, "%s%s", code == ZF_E_FORMAT ? "not valid JSON: " : "",
                      msg);
    }
    return false;
}

/* ---- bytes ---- */

/* Reads on until the window is full or the document ends. */
static void token_refill(struct zf_jsonin *in)
{
    size_t keep = in->n - in->at, room = in->window_size - keep;
    uint64_t left = in->size - in->base - in->n;
    size_t more = left < room ? (size_t)left : room;

    if (keep)
        memmove(in->window, in->p + in->at, keep);
    in->base += in->at;
    in->at = 0;
    in->n = keep + more;
    if (!zf_source_pread(in->src, in->window + keep, more, in->src_off + in->base + keep, &in->err))
        in->bad = true;
}

/* Returns the number of bytes in memory: at least `want`, or all that are left; 0 after an error. */
static size_t token_ahead(struct zf_jsonin *in, size_t want)
{
    if (in->n - in->at < want && in->src && in->base + in->n < in->size && !in->bad)
        token_refill(in);
    return in->bad ? 0 : in->n - in->at;
}

int jsonin_peek(struct zf_jsonin *in)
{
    while (token_ahead(in, 1) > 0) {
        unsigned char c = in->p[in->at];

        if (c != ' ' && c != '\n' && c != '\r' && c != '\t')
            return c;
        in->at++;
    }
    return -1;
}

bool jsonin_unexpected(struct zf_jsonin *in, const char *expected)
{
    int c = jsonin_peek(in);
    char found[16];

    if (c < 0)
        (void)snprintf(found, sizeof found, "the end");
    else if (c > ' ' && c < 0x7f)
        (void)snprintf(found, sizeof found, "'%c'", c);
    else
        (void)snprintf(found, sizeof found, "byte 0x%02x", (unsigned)c);
    return jsonin_fail(in, ZF_E_FORMAT, jsonin_place(in), "found %s, expected %s", found, expected);
}

bool jsonin_charge(struct zf_jsonin *in, uint64_t bytes)
{
    in->memory += bytes;
    if (in->memory > in->most && !in->bad) {
        in->bad = true;
        (void)zf_fail_limit(&in->err, ZF_LIMIT_meta_memory, ZF_OFF_NONE,
                            "%" PRIu64 " bytes of JSON need more than %" PRIu64
                            " bytes of memory, what the limits meta_memory=%" PRIu64
                            " and meta_slack=%" PRIu64 " allow",
                            in->size, in->most, in->lim->meta_memory, in->lim->meta_slack);
    }
    return in->memory <= in->most;
}

/* ---- strings ---- */

/* Consumes \uXXXX, or the two \uXXXX of a surrogate pair; p[n] begins with the backslash. */
static bool token_take_unicode(struct zf_jsonin *in, const char *p, size_t n)
{
    uint64_t place = jsonin_place(in);
    uint32_t c, low = 0;

    if (n < 6 || !zf_hex_number(p + 2, 4, &c)) {
        return jsonin_fail(in, ZF_E_FORMAT, place,
                           "\\u is not followed by four hexadecimal digits");
    }
    if (c == 0)
        return jsonin_fail(in, ZF_E_FORMAT, place, "\\u0000 in a string");
    if (c < 0xd800 || c > 0xdfff) {
        in->at += 6;
        zf_out_utf8(&in->text, c);
        return true;
    }
    if (c > 0xdbff || n < 12 || p[6] != '\\' || p[7] != 'u' || !zf_hex_number(p + 8, 4, &low) ||
        low < 0xdc00 || low > 0xdfff)
        return jsonin_fail(in, ZF_E_FORMAT, place, "\\u%04" PRIx32 " is half of a character", c);
    in->at += 12;
    zf_out_utf8(&in->text, 0x10000u + ((c & 0x3ff) << 10 | (low & 0x3ff)));
    return true;
}

static bool token_take_escape(struct zf_jsonin *in, const unsigned char *p, size_t n)
{
    static const char letter[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
    const char *known = n > 1 && p[1] ? strchr(letter, p[1]) : NULL;

    if (n > 1 && p[1] == 'u')
        return token_take_unicode(in, (const char *)p, n);
    if (!known) {
        return jsonin_fail(in, ZF_E_FORMAT, jsonin_place(in),
                           "a backslash is not followed by one of \"\\/bfnrtu");
    }
    zf_out_u8(&in->text, (uint8_t)means[known - letter]);
    in->at += 2;
    return true;
}

/* Handles an escape, a control byte or a UTF-8 sequence in a string. */
static bool token_take_special(struct zf_jsonin *in, const unsigned char *p, size_t n)
{
    size_t len = 0;

    if (*p == '\\')
        return token_take_escape(in, p, n);
    if (*p < 0x20) {
        return jsonin_fail(in, ZF_E_FORMAT, jsonin_place(in),
                           "byte 0x%02x in a string is not escaped", *p);
    }
    len = zf_utf8_len((const char *)p, n);
    if (len == 0)
        return jsonin_fail(in, ZF_E_FORMAT, jsonin_place(in), "byte 0x%02x is not UTF-8", *p);
    zf_out_add(&in->text, p, len);
    in->at += len;
    return true;
}

static bool token_is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

bool jsonin_take_string(struct zf_jsonin *in)
{
    uint64_t begin = jsonin_place(in);
    const unsigned char *p;
    size_t left, plain;

    in->at++;
    zf_out_cut(&in->text, 0);
    while ((left = token_ahead(in, JSONIN_AHEAD)) > 0) {
        p = in->p + in->at;
        for (plain = 0; plain < left && token_is_plain(p[plain]); plain++) {
        }
        zf_out_add(&in->text, p, plain);
        in->at += plain;
        if (plain < left && p[plain] == '"') {
            in->at++;
            return zf_out_ok(&in->text, &in->err) || (in->bad = true, false);
        }
        if (plain == 0 && !token_take_special(in, p, left))
            return false;
    }
    return jsonin_fail(in, ZF_E_FORMAT, jsonin_place(in),
                       "found the end inside the string that begins at byte %" PRIu64, begin);
}

/* ---- numbers and words ---- */

static const char *token_digits(const char *p)
{
    while (*p >= '0' && *p <= '9')
        p++;
    return p;
}

/* The end of the number at p according to RFC 8259, or the place where it becomes invalid: then *whole
 * is false.  *real: it has a fraction or an exponent. */
static const char *token_number_end(const char *p, bool *whole, bool *real)
{
    const char *digits = p += *p == '-';

    p = *p == '0' ? p + 1 : token_digits(p);
    *whole = p > digits;
    *real = false;
    if (*whole && *p == '.') {
        digits = p + 1;
        p = token_digits(digits);
        *whole = p > digits;
        *real = true;
    }
    if (*whole && (*p == 'e' || *p == 'E')) {
        digits = p + 1 + (p[1] == '+' || p[1] == '-');
        p = token_digits(digits);
        *whole = p > digits;
        *real = true;
    }
    return p;
}

static bool token_integer(const char *p, int64_t *out)
{
    bool minus = *p == '-', fits = true;
    int64_t v = 0;

    for (p += minus; *p && fits; p++) {
        int digit = *p - '0';

        fits = !__builtin_mul_overflow(v, 10, &v) &&
               !__builtin_add_overflow(v, minus ? -digit : digit, &v);
    }
    *out = v;
    return fits;
}

/* Collects all bytes from here on that can belong to a number. */
static void token_gather_number(struct zf_jsonin *in)
{
    size_t left, n;

    zf_out_cut(&in->text, 0);
    while ((left = token_ahead(in, 1)) > 0) {
        const unsigned char *p = in->p + in->at;

        for (n = 0; n < left && ((p[n] >= '0' && p[n] <= '9') || p[n] == '-' || p[n] == '+' ||
                                 p[n] == '.' || p[n] == 'e' || p[n] == 'E');
             n++) {
        }
        zf_out_add(&in->text, p, n);
        in->at += n;
        if (n < left)
            return;
    }
}

enum zf_json_kind jsonin_take_number(struct zf_jsonin *in)
{
    uint64_t place = jsonin_place(in);
    bool whole, real;

    token_gather_number(in);
    if (in->bad || !zf_out_ok(&in->text, &in->err)) {
        in->bad = true;
        return ZF_JSON_NONE;
    }
    const char *text = zf_out_text(&in->text), *end = token_number_end(text, &whole, &real);
    if (!whole || *end) {
        (void)jsonin_fail(in, ZF_E_FORMAT, place + (uint64_t)(end - text),
                          "\"%.40s\" is not a number", text);
    } else if (real) {
        errno = 0;
        in->real =
            strtod(text, NULL); /* setlocale() is never called, so '.' is the decimal point */
        if (errno == ERANGE && isinf(in->real)) {
            (void)jsonin_fail(in, ZF_E_FORMAT, place, "the number %.40s is larger than any float64",
                              text);
        }
    } else if (!token_integer(text, &in->integer)) {
        (void)jsonin_fail(in, ZF_E_FORMAT, place, "the integer %.40s does not fit into 64 bits",
                          text);
    }
    return in->bad ? ZF_JSON_NONE : real ? ZF_JSON_REAL : ZF_JSON_INTEGER;
}

enum zf_json_kind jsonin_take_word(struct zf_jsonin *in)
{
    static const struct {
        const char *word;
        enum zf_json_kind kind;
    } words[] = {{"true", ZF_JSON_TRUE}, {"false", ZF_JSON_FALSE}, {"null", ZF_JSON_NULL}};
    size_t left = token_ahead(in, JSONIN_AHEAD);

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t n = strlen(words[i].word);

        if (left >= n && memcmp(in->p + in->at, words[i].word, n) == 0) {
            in->at += n;
            return words[i].kind;
        }
    }
    (void)jsonin_unexpected(in, "a value");
    return ZF_JSON_NONE;
}
