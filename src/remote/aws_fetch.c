/* SPDX-License-Identifier: Apache-2.0 */
/* Fetches the credentials that a plan describes: requests to STS, containers, instances.
 *
 * Source: botocore/credentials.py and utils.py (1.43): paths, headers and time-outs of IMDSv2 and of
 * containers; "AssumeRole" and "AssumeRoleWithWebIdentity" of the API reference of STS, 2011-06-15. */
#include "aws.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sigv4.h"
#include "url.h"

#define FETCH_MOST (256u << 10) /* bytes of a reply, or of a token in a file */

/* May the service of a container be asked at this URL?  Over plain HTTP only on this machine, and at the
 * addresses that containers have for it (botocore/utils.py, ContainerMetadataFetcher, 1.43). */
static bool aws_fetch_allowed(const char *url)
{
    static const char *const hosts[] = {"169.254.170.2", "169.254.170.23", "[fd00:ec2::23]",
                                        "localhost", "[::1]"};
    struct url u;

    if (!url_split(url, &u) || u.user.n)
        return false;
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++)
        if (url_part_is(u.host, hosts[i]))
            return true;
    bool loop = u.host.n > 4 && strncmp(u.host.p, "127.", 4) == 0 &&
                strspn(u.host.p, "0123456789.") >= u.host.n;
    return url_part_is(u.scheme, "https") || loop;
}

/* Adds the "Authorization" header given by the environment, if any. */
static bool fetch_container_auth(struct headers *out, struct zf_err *err)
{
    const char *path = settings_env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    const char *token = settings_env("AWS_CONTAINER_AUTHORIZATION_TOKEN");
    zf_auto(secret_out) struct zf_out text = {0};

    if (path) {
        if (!settings_file(path, FETCH_MOST, &text, err))
            return false;
        if (!text.p) {
            return zf_fail(
                err, ZF_E_USAGE, ZF_OFF_NONE,
                "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE names %.150s, which does not exist", path);
        }
        token = text.p;
    }
    return !token || headers_add(out, "Authorization", token, err);
}

static bool fetch_container(const struct aws_fetch *f, struct aws_key *out, struct zf_err *err)
{
    const char *relative = settings_env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    const char *full = settings_env("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    zf_auto(out) struct zf_out url = {0};
    zf_auto(headers) struct headers h = {.n = 0};
    zf_auto(secret_reply) struct http_reply r = {.status = 0};

    if (relative)
        zf_out_str(&url, "http://169.254.170.2");
    zf_out_str(&url, relative ? relative : full ? full : "");
    if (!aws_fetch_allowed(zf_out_text(&url))) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                       "AWS_CONTAINER_CREDENTIALS_FULL_URI must be https, or on this machine");
    }
    if (!headers_add(&h, "Accept", "application/json", err) || !fetch_container_auth(&h, err) ||
        !zf_out_ok(&url, err))
        return false;
    /* Inside an ECS task the path alone gives access to the keys, so it is a secret. */
    struct http_ask ask = {.url = zf_out_text(&url),
                           .header = (const char *const *)h.line,
                           .n_header = h.n,
                           .max_body = FETCH_MOST,
                           .straight = true,
                           .secret = true,
                           .timeout = 6,
                           .tries = 3};
    return http_do(f->http, &ask, &r, err) && aws_reply_json(out, r.body, r.n_body, err);
}

static bool fetch_instance_ask(const struct aws_fetch *f, const char *path, const char *token,
                               struct http_reply *r, struct zf_err *err)
{
    const char *base = settings_env("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    const char *seconds = settings_env("AWS_METADATA_SERVICE_TIMEOUT");
    const char *tries = settings_env("AWS_METADATA_SERVICE_NUM_ATTEMPTS");
    double timeout = seconds ? strtod(seconds, NULL) : 1;
    zf_auto(out) struct zf_out url = {0};
    zf_auto(secret_out) struct zf_out line = {0};

    base = base ? base : "http://169.254.169.254";
    zf_out_fmt(&url, "%s%s%s", base, base[strlen(base) - 1] == '/' ? "latest/" : "/latest/", path);
    zf_out_fmt(&line, "%s%s",
               token ? "x-aws-ec2-metadata-token: " : "x-aws-ec2-metadata-token-ttl-seconds: 21600",
               token ? token : "");
    if (!zf_out_ok(&url, err) || !zf_out_ok(&line, err))
        return false;
    const char *header[] = {zf_out_text(&line)};
    struct http_ask ask = {
        .method = token ? "GET" : "PUT",
        .url = zf_out_text(&url),
        .header = header,
        .n_header = 1,
        .max_body = FETCH_MOST,
        .straight = true,
        .timeout = timeout > 0 && timeout < 60 ? timeout : 1,
        .tries = tries && atoi(tries) > 1 && atoi(tries) < 10 ? (unsigned)atoi(tries) : 1};
    return http_do(f->http, &ask, r, err);
}

/* The name or token in a reply: one line of visible ASCII. */
static bool fetch_line(struct http_reply *r, struct zf_err *err)
{
    char *text = (char *)r->body;

    if (text)
        text[strcspn(text, "\r\n")] = '\0';
    return (text && settings_is_word(text)) ||
           zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "the instance's metadata service does not answer with a line of text");
}

/* IMDSv2: fetches a token, the name of the role, and its credentials.  If nothing answers, and the settings do not require
 * it, the machine is not an EC2 instance, or has no role. */
static bool fetch_instance(const struct aws_fetch *f, struct aws_key *out, struct zf_err *err)
{
    const char *off = settings_env("AWS_EC2_METADATA_DISABLED");
    zf_auto(secret_reply) struct http_reply token = {.status = 0};
    zf_auto(http_reply) struct http_reply role = {.status = 0};
    zf_auto(secret_reply) struct http_reply key = {.status = 0};
    zf_auto(out) struct zf_out path = {0};

    zf_out_str(&path, "meta-data/iam/security-credentials/");
    if (off && strcasecmp(off, "true") == 0) {
        return !f->plan->explicit_instance ||
               zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                       "the profile takes credentials from the instance, and "
                       "AWS_EC2_METADATA_DISABLED is set");
    }
    if (!fetch_instance_ask(f, "api/token", NULL, &token, err)) {
        if (!f->plan->explicit_instance) {
            zf_err_clear(err);
            return true;
        }
        return false;
    }
    if (!fetch_line(&token, err))
        return false;
    if (!fetch_instance_ask(f, zf_out_text(&path), (const char *)token.body, &role, err)) {
        bool none = role.status == 404 && !f->plan->explicit_instance;
        if (none)
            zf_err_clear(err);
        return none;
    }
    if (!fetch_line(&role, err))
        return false;
    url_encode(&path, (const char *)role.body, strlen((const char *)role.body), true);
    return zf_out_ok(&path, err) &&
           fetch_instance_ask(f, zf_out_text(&path), (const char *)token.body, &key, err) &&
           aws_reply_json(out, key.body, key.n_body, err);
}

/* The URL of STS, with a '/' at its end. */
static void fetch_sts_url(const struct aws_fetch *f, struct zf_out *url)
{
    if (f->sts) {
        zf_out_fmt(url, "%s%s", f->sts, f->sts[strlen(f->sts) - 1] == '/' ? "" : "/");
    } else {
        bool china = f->region && strncmp(f->region, "cn-", 3) == 0;
        zf_out_fmt(url, "https://sts.%s%s%s", f->region ? f->region : "",
                   f->region ? ".amazonaws.com" : "amazonaws.com", china ? ".cn/" : "/");
    }
}

static void fetch_field(struct zf_out *body, const char *name, const char *value)
{
    if (value) {
        zf_out_fmt(body, "&%s=", name);
        url_encode(body, value, strlen(value), false);
    }
}

/* POSTs a form to STS, signed with *as unless that is NULL. */
static bool fetch_sts(const struct aws_fetch *f, const struct zf_out *body,
                      const struct aws_key *as, struct aws_key *out, struct zf_err *err)
{
    zf_auto(out) struct zf_out url = {0};
    zf_auto(headers) struct headers h = {.n = 0};
    zf_auto(secret_reply) struct http_reply r = {.status = 0};
    static const char form[] = "Content-Type: application/x-www-form-urlencoded; charset=utf-8";

    fetch_sts_url(f, &url);
    if (!zf_out_ok(&url, err) || !zf_out_ok(body, err) || !headers_add_line(&h, form, err))
        return false;
    if (as) {
        struct sigv4_key key = {as->id, as->secret, as->token};
        struct sigv4_ask sign = {.method = "POST",
                                 .url = zf_out_text(&url),
                                 .body = zf_out_text(body),
                                 .n_body = body->n,
                                 .region = f->region ? f->region : "us-east-1",
                                 .service = "sts",
                                 .now = time(NULL)};
        if (!sigv4_sign(&sign, &key, &h, err))
            return false;
    }
    struct http_ask ask = {.method = "POST",
                           .url = zf_out_text(&url),
                           .header = (const char *const *)h.line,
                           .n_header = h.n,
                           .body = zf_out_text(body),
                           .n_body = body->n,
                           .max_body = FETCH_MOST,
                           .straight = true,
                           .timeout = 20,
                           .tries = 3};
    return http_do(f->http, &ask, &r, err) && aws_reply_xml(out, r.body, r.n_body, err);
}

static void fetch_role_fields(struct zf_out *body, const struct aws_role *role)
{
    char made[40];

    snprintf(made, sizeof made, "zerofs-%lld", (long long)time(NULL));
    fetch_field(body, "RoleArn", role->arn);
    fetch_field(body, "RoleSessionName", role->session ? role->session : made);
    fetch_field(body, "ExternalId", role->external_id);
    fetch_field(body, "DurationSeconds", role->duration);
}

static bool fetch_web_identity(const struct aws_fetch *f, struct aws_key *out, struct zf_err *err)
{
    zf_auto(secret_out) struct zf_out body = {0};
    zf_auto(secret_out) struct zf_out token = {0};

    /* Read each time, because the cluster renews the token in the file. */
    if (!settings_file(f->plan->token_file, FETCH_MOST, &token, err))
        return false;
    if (!token.p) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "the web identity token %.200s does not exist",
                       f->plan->token_file);
    }
    zf_out_str(&body, "Action=AssumeRoleWithWebIdentity&Version=2011-06-15");
    fetch_role_fields(&body, &f->plan->role[0]);
    fetch_field(&body, "WebIdentityToken", token.p);
    return fetch_sts(f, &body, NULL, out, err);
}

static bool fetch_role(const struct aws_fetch *f, const struct aws_role *role, struct aws_key *key,
                       struct zf_err *err)
{
    zf_auto(out) struct zf_out body = {0};
    zf_auto(aws_key) struct aws_key as = *key;

    *key = (struct aws_key){0};
    if (!as.id) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                       "there are no credentials with which to assume the role");
    }
    zf_out_str(&body, "Action=AssumeRole&Version=2011-06-15");
    fetch_role_fields(&body, role);
    return fetch_sts(f, &body, &as, key, err);
}

static bool fetch_static(const struct aws_plan *p, struct aws_key *out, struct zf_err *err)
{
    *out = (struct aws_key){.id = strdup(p->id),
                            .secret = strdup(p->secret),
                            .token = p->token ? strdup(p->token) : NULL};
    return (out->id && out->secret && (!p->token || out->token)) ||
           zf_fail_sys(err, "read credentials");
}

bool aws_fetch_key(const struct aws_fetch *f, struct aws_key *out, struct zf_err *err)
{
    bool web = f->plan->base == AWS_WEB_IDENTITY;
    bool good = f->plan->base == AWS_STATIC      ? fetch_static(f->plan, out, err)
                : web                            ? fetch_web_identity(f, out, err)
                : f->plan->base == AWS_CONTAINER ? fetch_container(f, out, err)
                : f->plan->base == AWS_INSTANCE  ? fetch_instance(f, out, err)
                                                 : true;

    for (unsigned i = web; good && i < f->plan->n_roles; i++)
        good = fetch_role(f, &f->plan->role[i], out, err);
    return good;
}
