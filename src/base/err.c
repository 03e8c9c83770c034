/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <zf/base/err.h>
#include <zf/base/utf8.h>

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* A last word longer than this is cut; a shorter one is dropped. */
enum { ERR_CUT_NEAR = 48 };

/* Replaces control characters and invalid UTF-8 (a character cut at the end included): names and values from untrusted
 * files are printed to terminals and logs. */
static void err_defang(char *s)
{
    for (size_t n = strlen(s), at = 0, k; at < n; at += k) {
        k = zf_utf8_len(s + at, n - at);
        if (k == 0 || zf_utf8_obeyed(s + at, k)) {
            k = k ? k : 1;
            memset(s + at, '?', k);
        }
    }
}

/* The length at which to cut a text that is longer than n bytes: at a space if one is near, never
 * inside a character. */
static size_t err_cut_at(const char *s, size_t n)
{
    size_t space = n;

    while (space && n - space < ERR_CUT_NEAR && s[space] != ' ')
        space--;
    if (space && n - space < ERR_CUT_NEAR)
        return space;
    while (n && ((unsigned char)s[n] & 0xc0) == 0x80)
        n--;
    return n;
}

static void err_say(char *out, size_t n, const char *fmt, va_list ap)
{
    static const char more[] = "…";
    int len = vsnprintf(out, n, fmt, ap);

    if (len >= 0 && (size_t)len >= n && n > sizeof more)
        memcpy(out + err_cut_at(out, n - sizeof more), more, sizeof more);
}

void zf_say(char *out, size_t n, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    err_say(out, n, fmt, ap);
    va_end(ap);
}

static atomic_uint_least64_t err_nomem;

uint64_t zf_err_nomem_count(void)
{
    return atomic_load_explicit(&err_nomem, memory_order_relaxed);
}

bool zf_fail(struct zf_err *err, enum zf_code code, uint64_t off, const char *fmt, ...)
{
    va_list ap;

    if (code == ZF_E_NOMEM)
        atomic_fetch_add_explicit(&err_nomem, 1, memory_order_relaxed);
    err->code = code;
    err->sys = err->hint = err->limit = 0;
    err->off = off;
    err->path[0] = '\0';
    va_start(ap, fmt);
    err_say(err->msg, sizeof err->msg, fmt, ap);
    va_end(ap);
    err_defang(err->msg);
    return false;
}

void zf_err_hint(struct zf_err *err, const char *fmt, ...)
{
    char hint[200], before[sizeof err->msg];
    va_list ap;

    va_start(ap, fmt);
    err_say(hint, sizeof hint, fmt, ap);
    va_end(ap);
    memcpy(before, err->msg, sizeof before);
    before[err->hint ? err->hint : strlen(before)] = '\0';
    zf_say(err->msg, sizeof err->msg - strlen(hint) - 2, "%s", before);
    err->hint = (uint16_t)strlen(err->msg);
    (void)snprintf(err->msg + err->hint, sizeof err->msg - err->hint, "; %s", hint);
    err_defang(err->msg);
}

/* POSIX's strerror_r fills `text`; glibc's may return a static string instead. */
static const char *err_sys_text(int sys, char *text, size_t n)
{
#ifdef STRERROR_R_CHAR_P
    return strerror_r(sys, text, n);
#else
    return strerror_r(sys, text, n) == 0 ? text : "unknown error";
#endif
}

bool zf_fail_sys(struct zf_err *err, const char *what)
{
    int sys = errno;
    char text[128];

    (void)zf_fail(err,
                  sys == ENOMEM   ? ZF_E_NOMEM
                  : sys == ENOENT ? ZF_E_NOENT
                                  : ZF_E_IO,
                  ZF_OFF_NONE, "cannot %s: %s", what, err_sys_text(sys, text, sizeof text));
    err->sys = sys;
    return false;
}

/* Shortens a path in its middle, because both ends are more useful. */
static void err_cut_middle(char *out, size_t n, const char *in)
{
    size_t len = strlen(in), head = n / 3;

    if (len < n) {
        memcpy(out, in, len + 1);
        return;
    }
    size_t tail = n - 1 - head - 3;
    memcpy(out, in, head);
    memcpy(out + head, "...", 3);
    memcpy(out + head + 3, in + len - tail, tail + 1);
}

bool zf_err_in(struct zf_err *err, const char *fmt, ...)
{
    char outer[4096 + 256], joined[sizeof outer + sizeof err->path + 2];
    va_list ap;

    /* An absolute path is complete: nothing is prepended. */
    if (err->path[0] == '/')
        return false;
    va_start(ap, fmt);
    (void)vsnprintf(outer, sizeof outer, fmt, ap);
    va_end(ap);
    size_t n = strlen(outer);
    bool tight = n == 0 || err->path[0] == '\0' || err->path[0] == '!' || outer[n - 1] == '!' ||
                 outer[n - 1] == '/';
    (void)snprintf(joined, sizeof joined, "%s%s%s", outer, tight ? "" : "/", err->path);
    err_defang(joined);
    err_cut_middle(err->path, sizeof err->path, joined);
    return false;
}

const char *zf_err_text(const struct zf_err *err, char *out, size_t n)
{
    char at[40] = "";

    if (err->off != ZF_OFF_NONE)
        (void)snprintf(at, sizeof at, "byte %llu: ", (unsigned long long)err->off);
    zf_say(out, n, "%s%s%s%s", err->path, err->path[0] ? ": " : "", at, err->msg);
    return out;
}

int zf_err_errno(const struct zf_err *err)
{
    switch (err->code) {
    case ZF_E_STALE:
        return ESTALE;
    case ZF_E_NOMEM:
    case ZF_E_LIMIT:
        return ENOMEM;
    case ZF_E_NOENT:
        return ENOENT;
    case ZF_E_USAGE:
        return EINVAL;
    case ZF_OK:
    case ZF_E_IO:
    case ZF_E_FORMAT:
    case ZF_E_UNSUPPORTED:
    case ZF_E_UNKNOWN:
    case ZF_E_BUSY:
        break;
    }
    return EIO;
}

bool zf_err_unknown(const struct zf_err *err)
{
    switch (err->sys) {
    case ENOENT:
    case ENOTDIR:
    case ELOOP:
    case ENAMETOOLONG:
    case EXDEV:
        return false;
    default:
        return err->code == ZF_E_IO || err->code == ZF_E_STALE || err->code == ZF_E_NOMEM;
    }
}

int zf_err_exit(const struct zf_err *err)
{
    switch (err->code) {
    case ZF_OK:
        return 0;
    case ZF_E_USAGE:
        return 2;
    case ZF_E_UNKNOWN:
        return 3;
    case ZF_E_FORMAT:
    case ZF_E_UNSUPPORTED:
    case ZF_E_LIMIT:
        return 4;
    case ZF_E_IO:
    case ZF_E_STALE:
    case ZF_E_NOMEM:
    case ZF_E_NOENT:
    case ZF_E_BUSY:
        break;
    }
    return 5;
}
