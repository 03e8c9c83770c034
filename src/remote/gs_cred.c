/* SPDX-License-Identifier: Apache-2.0 */
/* Google's credential files, and the replies of its token services.
 *
 * Source: "Using OAuth 2.0 for Server to Server Applications" of Google's identity platform (the
 * assertion), and google-auth's google/oauth2/_client.py and _default.py (members of the files,
 * forms). */
#include "gs.h"

#include <stdlib.h>
#include <string.h>

#include <zf/codec/json.h>

#include "settings.h"
#include "url.h"

#define GS_SCOPE "https://www.googleapis.com/auth/devstorage.read_only"

void gs_cred_fini(struct gs_cred *c)
{
    char *all[] = {c->email,     c->key_id,        c->key,    c->token_uri,
                   c->client_id, c->client_secret, c->refresh};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        secret_free(all[i]);
    *c = (struct gs_cred){0};
}

static bool gs_member(const json_t *j, const char *name, const char *otherwise, char **out,
                      struct zf_err *err)
{
    const char *text = json_string_value(json_object_get(j, name));

    text = text ? text : otherwise;
    if (!text || !*text)
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "the credentials have no \"%s\"", name);
    *out = strdup(text);
    return *out || zf_fail_sys(err, "read credentials");
}

/* Checks a token URI: https, or plain http to this machine only. */
static bool gs_uri_ok(const char *url, struct zf_err *err)
{
    struct url u;
    bool good = url_split(url, &u) && !u.user.n &&
                (url_part_is(u.scheme, "https") ||
                 (url_part_is(u.scheme, "http") &&
                  (url_part_is(u.host, "127.0.0.1") || url_part_is(u.host, "localhost"))));

    return good || zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "the token_uri of the credentials is not an https URL");
}

bool gs_cred_read(struct gs_cred *out, const void *p, size_t n, struct zf_err *err)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_err why = {.code = ZF_OK};
    zf_auto(json) json_t *j = n <= GS_CRED_BYTES ? zf_json_load(p, n, &lim, &why) : NULL;
    const char *type = json_string_value(json_object_get(j, "type"));
    const char *uri = "https://oauth2.googleapis.com/token";

    if (!json_is_object(j))
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "the credentials are not a JSON object");
    if (type && strcmp(type, "service_account") == 0) {
        out->type = GS_SERVICE_ACCOUNT;
        return gs_member(j, "client_email", NULL, &out->email, err) &&
               gs_member(j, "private_key_id", "-", &out->key_id, err) &&
               gs_member(j, "private_key", NULL, &out->key, err) &&
               gs_member(j, "token_uri", uri, &out->token_uri, err) &&
               gs_uri_ok(out->token_uri, err);
    }
    if (type && strcmp(type, "authorized_user") == 0) {
        out->type = GS_AUTHORIZED_USER;
        return gs_member(j, "client_id", NULL, &out->client_id, err) &&
               gs_member(j, "client_secret", NULL, &out->client_secret, err) &&
               gs_member(j, "refresh_token", NULL, &out->refresh, err) &&
               gs_member(j, "token_uri", uri, &out->token_uri, err) &&
               gs_uri_ok(out->token_uri, err);
    }
    return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                   "the credentials have type \"%.40s\", but zerofs reads only service_account and "
                   "authorized_user. For others: export GOOGLE_OAUTH_ACCESS_TOKEN=$(gcloud auth "
                   "application-default print-access-token)",
                   type ? type : "");
}

bool gs_cred_token(const void *p, size_t n, char **token, uint64_t *seconds, struct zf_err *err)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_err why = {.code = ZF_OK};
    zf_auto(json) json_t *j = zf_json_load(p, n, &lim, &why);
    const char *text = json_string_value(json_object_get(j, "access_token"));

    *token = NULL;
    if (!text || !settings_is_word(text) ||
        !zf_json_u64(json_object_get(j, "expires_in"), seconds) || *seconds > 1u << 30) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "the answer of the token service has no access_token with its expires_in");
    }
    *token = strdup(text);
    return *token || zf_fail_sys(err, "read credentials");
}

/* Adds the unsigned part of the assertion, "header.claims", each as base64url. */
static bool gs_unsigned(const struct gs_cred *c, time_t now, struct zf_out *out, struct zf_err *err)
{
    zf_auto(json) json_t *head =
        json_pack("{s:s,s:s,s:s}", "alg", "RS256", "typ", "JWT", "kid", c->key_id);
    zf_auto(json) json_t *claims =
        json_pack("{s:s,s:s,s:s,s:I,s:I}", "iss", c->email, "scope", GS_SCOPE, "aud", c->token_uri,
                  "iat", (json_int_t)now, "exp", (json_int_t)now + 3600);
    zf_auto(mem) char *h = head ? json_dumps(head, JSON_COMPACT) : NULL;
    zf_auto(mem) char *b = claims ? json_dumps(claims, JSON_COMPACT) : NULL;

    if (!h || !b) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "the credentials contain text that is not UTF-8");
    }
    rs256_base64(out, h, strlen(h));
    zf_out_str(out, ".");
    rs256_base64(out, b, strlen(b));
    return zf_out_ok(out, err);
}

/* Adds the signed assertion of a service account (RFC 7523; RS256 of RFC 7518) that asks for read access.
 * Errors: those of rs256_sign. */
static bool gs_cred_assertion(const struct gs_cred *c, time_t now, struct zf_out *out,
                              struct zf_err *err)
{
    zf_auto(out) struct zf_out text = {0};
    zf_auto(out) struct zf_out sum = {0};

    if (!gs_unsigned(c, now, &text, err) ||
        !rs256_sign(c->key, zf_out_text(&text), text.n, &sum, err))
        return false;
    zf_out_add(out, zf_out_text(&text), text.n);
    zf_out_str(out, ".");
    rs256_base64(out, zf_out_text(&sum), sum.n);
    return zf_out_ok(out, err);
}

static void gs_field(struct zf_out *out, const char *name, const char *value)
{
    zf_out_str(out, name);
    url_encode(out, value, strlen(value), false);
}

bool gs_cred_form(const struct gs_cred *c, time_t now, struct zf_out *out, struct zf_err *err)
{
    if (c->type == GS_SERVICE_ACCOUNT) {
        zf_out_str(out,
                   "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=");
        return gs_cred_assertion(c, now, out, err);
    }
    zf_out_str(out, "grant_type=refresh_token");
    gs_field(out, "&client_id=", c->client_id);
    gs_field(out, "&client_secret=", c->client_secret);
    gs_field(out, "&refresh_token=", c->refresh);
    return zf_out_ok(out, err);
}
