/* SPDX-License-Identifier: Apache-2.0 */
/* Codes: "Error responses" of the S3 API reference, "Common errors" of STS', and the XML API of Google
 * Cloud Storage, which has the same. */
#include "s3_error.h"

#include <stdio.h>
#include <string.h>

#include "timestamp.h"
#include "xml.h"

/* Texts of a server are shown: one line, and no more than fits. */
static void error_text(char *out, size_t room, const char *text)
{
    size_t n = 0;

    for (; *text && n + 1 < room; text++) {
        bool blank = (unsigned char)*text <= ' ' || *text == 0x7f;
        if (!blank || (n && out[n - 1] != ' '))
            out[n++] = blank ? ' ' : *text;
    }
    while (n && (out[n - 1] == ' ' || (*text && (out[n - 1] & 0x80))))
        n--; /* a character that was cut is none */
    out[n] = '\0';
}

/* A region or a code, which goes into URLs and messages: plain letters only. */
static void error_word(char *out, size_t room, const char *text)
{
    size_t n = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._");

    if (n < room && !text[n])
        memcpy(out, text, n + 1);
}

static bool error_event(void *ctx, const struct xml_event *e, struct zf_err *err)
{
    struct s3_error *out = ctx;
    const char *path = e->path;
    struct timespec t;

    (void)err;
    if (strncmp(path, "ErrorResponse/", 14) == 0)
        path += 14;
    if (e->open || strncmp(path, "Error/", 6) != 0)
        return true;
    path += 6;
    if (strcmp(path, "Code") == 0)
        error_word(out->code, sizeof out->code, e->text);
    else if (strcmp(path, "Message") == 0)
        error_text(out->message, sizeof out->message, e->text);
    else if (strcmp(path, "Region") == 0)
        error_word(out->region, sizeof out->region, e->text);
    else if (strcmp(path, "ServerTime") == 0 && timestamp_iso(e->text, &t))
        out->server = t.tv_sec;
    return true;
}

void s3_error_read(struct s3_error *out, const void *p, size_t n)
{
    struct zf_err ignored = {.code = ZF_OK};

    *out = (struct s3_error){0};
    if (!n || !xml_walk(p, n, error_event, out, &ignored))
        *out = (struct s3_error){0};
}

static bool error_is(const struct s3_error *e, const char *const *codes)
{
    for (; *codes; codes++)
        if (strcmp(e->code, *codes) == 0)
            return true;
    return false;
}

bool s3_error_unknown_key(const struct s3_error *e)
{
    static const char *const codes[] = {"InvalidAccessKeyId", "InvalidClientTokenId", NULL};

    return error_is(e, codes);
}

bool s3_error_expired(const struct s3_error *e)
{
    static const char *const codes[] = {"ExpiredToken",         "ExpiredTokenException",
                                        "TokenRefreshRequired", "InvalidToken",
                                        "RequestExpired",       NULL};

    return error_is(e, codes);
}

/* "(AccessDenied: Access Denied)": the server's own words. */
static void error_quote(const struct s3_error *e, long status, char *out, size_t n)
{
    snprintf(out, n, "(%ld%s%.60s%s%.110s)", status, e->code[0] ? " " : "", e->code,
             e->message[0] ? ": " : "", e->message);
}

static bool error_denied(const struct s3_asked *a, enum zf_code code, const char *said,
                         struct zf_err *err)
{
    if (!a->from) {
        return zf_fail(err, code, ZF_OFF_NONE,
                       "%s does not %s to everybody, and no credentials were found. Set %s %s",
                       a->store, a->listing ? "list the bucket" : "give the object",
                       a->google ? "GOOGLE_APPLICATION_CREDENTIALS or GOOGLE_OAUTH_ACCESS_TOKEN"
                                 : "AWS_ACCESS_KEY_ID or AWS_PROFILE",
                       said);
    }
    return zf_fail(err, code, ZF_OFF_NONE,
                   a->listing
                       ? "the credentials of %s may not list the bucket %.63s; %s is needed %s"
                       : "the credentials of %s may not read this object of the bucket %.63s, or "
                         "it does not exist; %s is needed %s",
                   a->from, a->bucket,
                   a->google    ? a->listing ? "storage.objects.list" : "storage.objects.get"
                   : a->listing ? "s3:ListBucket"
                                : "s3:GetObject",
                   said);
}

static bool error_skew(const struct s3_error *e, const struct s3_asked *a, const char *said,
                       struct zf_err *err)
{
    long long off = (long long)a->now - (long long)e->server;

    if (!e->server) {
        return zf_fail(err, ZF_E_IO, ZF_OFF_NONE,
                       "the clocks of this machine and the server differ too much. Set this "
                       "machine's clock %s",
                       said);
    }
    return zf_fail(err, ZF_E_IO, ZF_OFF_NONE,
                   "this machine's clock is %lld seconds %s the server's. Set it %s",
                   off < 0 ? -off : off, off < 0 ? "behind" : "ahead of", said);
}

static bool error_key(const struct s3_error *e, const struct s3_asked *a, const char *said,
                      struct zf_err *err)
{
    return zf_fail(
        err, ZF_E_IO, ZF_OFF_NONE,
        s3_error_unknown_key(e)
            ? "%s does not know the access key of %s; does it belong to another account or "
              "endpoint? %s"
            : "%s does not accept the signature made with the secret key of %s; is the key "
              "whole? %s",
        a->store, a->from ? a->from : "nowhere", said);
}

static bool error_region(const struct s3_error *e, const struct s3_asked *a, const char *said,
                         struct zf_err *err)
{
    return zf_fail(err, ZF_E_IO, ZF_OFF_NONE,
                   "the bucket %.63s is not in the region %.40s, but in %s. Set AWS_REGION %s",
                   a->bucket, a->region,
                   e->region[0] ? e->region : "one that the server does not name", said);
}

bool s3_error_fail(const struct s3_error *e, long status, const struct s3_asked *a,
                   struct zf_err *err)
{
    static const char *const skew[] = {"RequestTimeTooSkewed", "RequestInTheFuture", NULL};
    static const char *const keys[] = {"InvalidAccessKeyId", "SignatureDoesNotMatch",
                                       "InvalidClientTokenId", "IncompleteSignature", NULL};
    static const char *const region[] = {"PermanentRedirect", "TemporaryRedirect",
                                         "AuthorizationHeaderMalformed",
                                         "IllegalLocationConstraintException", NULL};
    char said[240];

    error_quote(e, status, said, sizeof said);
    if (strcmp(e->code, "NoSuchBucket") == 0) {
        return zf_fail(err, ZF_E_NOENT, ZF_OFF_NONE,
                       "there is no bucket %.63s; is the name right, and the endpoint? %s",
                       a->bucket, said);
    }
    if (error_is(e, skew))
        return error_skew(e, a, said, err);
    if (s3_error_expired(e)) {
        return zf_fail(err, ZF_E_IO, ZF_OFF_NONE,
                       "the credentials of %s have expired. Get new ones and mount again %s",
                       a->from ? a->from : "nowhere", said);
    }
    if (error_is(e, keys))
        return error_key(e, a, said, err);
    if (error_is(e, region) || (status == 301 && !e->code[0]))
        return error_region(e, a, said, err);
    if (strcmp(e->code, "InvalidObjectState") == 0) {
        return zf_fail(err, ZF_E_IO, ZF_OFF_NONE,
                       "the object is in an archive (Glacier). Restore it first %s", said);
    }
    if (status == 403 || status == 401)
        return error_denied(a, a->listing && status == 403 ? ZF_E_UNSUPPORTED : ZF_E_IO, said, err);
    if (status == 404)
        return zf_fail(err, ZF_E_NOENT, ZF_OFF_NONE, "there is no such object %s", said);
    return zf_fail(err, ZF_E_IO, ZF_OFF_NONE, "%s refuses %s", a->store, said);
}
