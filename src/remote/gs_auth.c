/* SPDX-License-Identifier: Apache-2.0 */
/* Bearer tokens for Google Cloud Storage, fetched when they are first needed and again before they run out; without any,
 * requests go out unsigned.
 *
 * Order and addresses: google-auth's google/auth/_default.py and compute_engine/_metadata.py; a token in
 * GOOGLE_OAUTH_ACCESS_TOKEN (Terraform's name) counts before all else. */
#include "gs.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <zf/base/thread.h>

#include "s3_error.h"
#include "settings.h"

/* seconds before its end that a token is renewed; google-auth's REFRESH_THRESHOLD */
#define GS_EARLY 225
#define GS_RETRY 10   /* until a failed renewal is tried again while the old token is good */
#define GS_MOST 65536 /* bytes of a reply */

enum gs_base { GS_TOKEN, GS_FILE, GS_MACHINE };

struct gs_auth {
    struct auth auth;
    struct http *http;
    char *bucket;
    pthread_mutex_t lock; /* of all below; held while a token is fetched */
    const char
        *from; /* origin of the credentials, for messages; NULL: requests are sent unsigned */
    enum gs_base base;
    struct gs_cred cred; /* GS_FILE */
    char *token;
    uint64_t generation; /* of token */
    bool asked;
    time_t renew, expires; /* 0: never */
};

static struct gs_auth *gs_of(struct auth *a)
{
    return (struct gs_auth *)a;
}

static void gs_fini(struct auth *a)
{
    struct gs_auth *g = gs_of(a);

    secret_free(g->token);
    gs_cred_fini(&g->cred);
    free(g->bucket);
    (void)pthread_mutex_destroy(&g->lock);
    free(g);
}

/* A token of the file's account. */
static bool gs_fetch_file(struct gs_auth *g, struct http_reply *r, struct zf_err *err)
{
    static const char *const header[] = {"Content-Type: application/x-www-form-urlencoded"};
    zf_auto(secret_out) struct zf_out form = {0};

    if (!gs_cred_form(&g->cred, time(NULL), &form, err))
        return false;
    struct http_ask ask = {.method = "POST",
                           .url = g->cred.token_uri,
                           .header = header,
                           .n_header = 1,
                           .body = zf_out_text(&form),
                           .n_body = form.n,
                           .max_body = GS_MOST,
                           .straight = true,
                           .timeout = 20,
                           .tries = 3};
    return http_do(g->http, &ask, r, err);
}

/* A token of the machine's account; where nothing answers, *none: this is no machine of Google's. */
static bool gs_fetch_machine(struct gs_auth *g, struct http_reply *r, bool *none,
                             struct zf_err *err)
{
    static const char *const header[] = {"Metadata-Flavor: Google"};
    const char *host = settings_env("GCE_METADATA_HOST"), *off = settings_env("NO_GCE_CHECK");
    zf_auto(out) struct zf_out url = {0};

    zf_out_fmt(&url, "http://%s/computeMetadata/v1/instance/service-accounts/default/token",
               host ? host : "metadata.google.internal");
    struct http_ask ask = {.url = zf_out_text(&url),
                           .header = header,
                           .n_header = 1,
                           .max_body = GS_MOST,
                           .straight = true,
                           .timeout = 3,
                           .tries = 1};
    *none = off && strcasecmp(off, "true") == 0;
    if (*none)
        return true;
    if (!zf_out_ok(&url, err))
        return false;
    bool good = http_do(g->http, &ask, r, err);
    *none = !good && (r->status == 0 || r->status == 404);
    if (*none)
        zf_err_clear(err);
    return good || *none;
}

static void gs_set(struct gs_auth *g, char *token, uint64_t seconds)
{
    static const char *const from[] = {"GOOGLE_OAUTH_ACCESS_TOKEN", "the credentials file",
                                       "the machine's account"};
    uint64_t early = seconds / 4 < GS_EARLY ? seconds / 4 : GS_EARLY;
    time_t now = time(NULL);

    g->generation += !g->token || !token || strcmp(g->token, token) != 0;
    secret_free(g->token);
    g->token = token;
    g->asked = true;
    g->expires = seconds ? now + (time_t)seconds : 0;
    g->renew = seconds ? g->expires - (time_t)early : 0;
    g->from = token ? from[g->base] : NULL;
}

static bool gs_fetch(struct gs_auth *g, struct zf_err *err)
{
    zf_auto(secret_reply) struct http_reply r = {.status = 0};
    const char *set = settings_env("GOOGLE_OAUTH_ACCESS_TOKEN");
    uint64_t seconds = 0;
    char *token = NULL;
    bool none = false;

    if (g->base == GS_TOKEN) {
        token = strdup(set ? set : "");
        gs_set(g, token, 0);
        return token || zf_fail_sys(err, "read credentials");
    }
    bool good =
        g->base == GS_FILE ? gs_fetch_file(g, &r, err) : gs_fetch_machine(g, &r, &none, err);
    good = good && (none || gs_cred_token(r.body, r.n_body, &token, &seconds, err));
    if (good) {
        gs_set(g, token, seconds);
        return true;
    }
    if (g->token && g->expires > time(NULL)) {
        g->renew = time(NULL) + GS_RETRY;
        zf_err_clear(err);
        return true;
    }
    return zf_err_in(err, "credentials");
}

static bool gs_sign(struct auth *a, const struct auth_ask *ask, struct headers *add,
                    uint64_t *generation, struct zf_err *err)
{
    struct gs_auth *g = gs_of(a);
    zf_auto(secret_out) struct zf_out line = {0};

    (void)ask;
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&g->lock);
    bool due = !g->asked || (g->renew && time(NULL) >= g->renew);
    bool good = (!due || gs_fetch(g, err));
    *generation = g->generation;
    if (good && g->token) {
        zf_out_fmt(&line, "Bearer %s", g->token);
        good = zf_out_ok(&line, err) && headers_add(add, "authorization", zf_out_text(&line), err);
    }
    return good;
}

/* Fetches a new token for one that was revoked early, for the first request that it fails. */
static bool gs_renew(struct auth *a, uint64_t generation, const struct http_reply *refused)
{
    struct gs_auth *g = gs_of(a);
    struct zf_err ignored = {.code = ZF_OK};

    if (refused->status != 401)
        return false;
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&g->lock);
    if (g->generation == generation && g->base != GS_TOKEN && g->token) {
        g->expires = 0; /* not kept, should the fetch fail */
        (void)gs_fetch(g, &ignored);
    }
    return g->generation != generation;
}

static bool gs_explain(struct auth *a, const struct http_reply *r, bool listing, struct zf_err *err)
{
    struct gs_auth *g = gs_of(a);
    struct s3_error e;

    s3_error_read(&e, r->body, r->n_body);
    (void)pthread_mutex_lock(&g->lock);
    struct s3_asked asked = {.store = "Google Cloud Storage",
                             .bucket = g->bucket,
                             .from = g->from,
                             .region = "auto",
                             .google = true,
                             .listing = listing,
                             .now = time(NULL)};
    (void)pthread_mutex_unlock(&g->lock);
    return s3_error_fail(&e, r->status, &asked, err);
}

static const struct auth_ops gs_auth_ops = {
    .sign = gs_sign,
    .renew = gs_renew,
    .explain = gs_explain,
    .fini = gs_fini,
};

/* The file that GOOGLE_APPLICATION_CREDENTIALS names, or the one that `gcloud auth application-default login`
 * wrote.  *found: there is one. */
static bool gs_file(struct gs_auth *g, bool *found, struct zf_err *err)
{
    const char *named = settings_env("GOOGLE_APPLICATION_CREDENTIALS");
    const char *dir = settings_env("CLOUDSDK_CONFIG"), *home = settings_env("HOME");
    zf_auto(out) struct zf_out path = {0};
    zf_auto(secret_out) struct zf_out text = {0};

    if (named || dir)
        zf_out_fmt(&path, "%s%s", named ? named : dir,
                   named ? "" : "/application_default_credentials.json");
    else
        zf_out_fmt(&path, "%s/.config/gcloud/application_default_credentials.json",
                   home ? home : "");
    if (!zf_out_ok(&path, err) || !settings_file(zf_out_text(&path), GS_CRED_BYTES, &text, err))
        return false;
    *found = text.p != NULL;
    if (!*found) {
        return !named ||
               zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                       "GOOGLE_APPLICATION_CREDENTIALS names %.200s, which does not exist", named);
    }
    return gs_cred_read(&g->cred, text.p, text.n, err) || zf_err_in(err, "%s", zf_out_text(&path));
}

struct auth *gs_auth_new(struct http *http, const char *bucket, struct zf_err *err)
{
    struct gs_auth *g = calloc(1, sizeof *g);
    bool file = false;

    if (!g)
        return zf_null(zf_fail_sys(err, "ask for objects"));
    g->auth.ops = &gs_auth_ops;
    g->http = http;
    (void)pthread_mutex_init(&g->lock, NULL);
    g->bucket = strdup(bucket);
    bool good = g->bucket || zf_fail_sys(err, "ask for objects");
    if (good && settings_env("GOOGLE_OAUTH_ACCESS_TOKEN")) {
        g->base = GS_TOKEN;
    } else if (good) {
        good = gs_file(g, &file, err);
        g->base = file ? GS_FILE : GS_MACHINE;
    }
    if (!good) {
        gs_fini(&g->auth);
        return NULL;
    }
    return &g->auth;
}
