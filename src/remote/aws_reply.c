/* SPDX-License-Identifier: Apache-2.0 */
/* Parses credentials from the replies of AWS services: JSON from containers and instances, XML from STS.
 *
 * Source: botocore/utils.py, ContainerMetadataFetcher and InstanceMetadataFetcher (1.43); "AssumeRole" of the
 * API reference of STS. */
#include "aws.h"

#include <stdlib.h>
#include <string.h>

#include <zf/codec/json.h>

#include "settings.h"
#include "timestamp.h"
#include "xml.h"

#define AWS_REPLY_TEXT 32768 /* bytes of one member; tokens have about 1000 */

void aws_key_fini(struct aws_key *k)
{
    secret_free(k->id);
    secret_free(k->secret);
    secret_free(k->token);
    *k = (struct aws_key){0};
}

static bool reply_take(char **out, const char *text, const char *name, struct zf_err *err)
{
    if (!text || !settings_is_word(text) || strlen(text) > AWS_REPLY_TEXT) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "the answer of the credential service has no valid %s", name);
    }
    secret_free(*out);
    *out = strdup(text);
    return *out || zf_fail_sys(err, "read credentials");
}

static bool reply_expires(struct aws_key *out, const char *text, struct zf_err *err)
{
    struct timespec t;

    if (!text || !timestamp_iso(text, &t) || t.tv_sec <= 0) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "the answer of the credential service has no expiry time");
    }
    out->expires = t.tv_sec;
    return true;
}

bool aws_reply_json(struct aws_key *out, const void *p, size_t n, struct zf_err *err)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_err why = {.code = ZF_OK};
    zf_auto(json) json_t *j = zf_json_load(p, n, &lim, &why);
    const char *code = json_string_value(json_object_get(j, "Code"));

    if (!json_is_object(j)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "the answer of the credential service is not a JSON object");
    }
    if (code && strcmp(code, "Success") != 0)
        return zf_fail(err, ZF_E_IO, ZF_OFF_NONE, "the credential service answers %.60s", code);
    return reply_take(&out->id, json_string_value(json_object_get(j, "AccessKeyId")), "AccessKeyId",
                      err) &&
           reply_take(&out->secret, json_string_value(json_object_get(j, "SecretAccessKey")),
                      "SecretAccessKey", err) &&
           reply_take(&out->token, json_string_value(json_object_get(j, "Token")), "Token", err) &&
           reply_expires(out, json_string_value(json_object_get(j, "Expiration")), err);
}

struct reply_read {
    struct aws_key *out;
    bool expires;
};

static bool reply_event(void *ctx, const struct xml_event *e, struct zf_err *err)
{
    struct reply_read *r = ctx;
    const char *at = strstr(e->path, "Result/Credentials/");

    if (e->open || !at)
        return true;
    at += strlen("Result/Credentials/");
    if (strcmp(at, "AccessKeyId") == 0)
        return reply_take(&r->out->id, e->text, at, err);
    if (strcmp(at, "SecretAccessKey") == 0)
        return reply_take(&r->out->secret, e->text, at, err);
    if (strcmp(at, "SessionToken") == 0)
        return reply_take(&r->out->token, e->text, at, err);
    if (strcmp(at, "Expiration") == 0) {
        r->expires = true;
        return reply_expires(r->out, e->text, err);
    }
    return true;
}

bool aws_reply_xml(struct aws_key *out, const void *p, size_t n, struct zf_err *err)
{
    struct reply_read r = {.out = out};

    if (!xml_walk(p, n, reply_event, &r, err))
        return zf_err_in(err, "the answer of STS");
    return (out->id && out->secret && out->token && r.expires) ||
           zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "the answer of STS lacks a complete set of credentials");
}
