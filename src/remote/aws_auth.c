/* SPDX-License-Identifier: Apache-2.0 */
/* Signs requests with credentials that are fetched when first needed and renewed before they expire.  Without credentials,
 * requests are sent unsigned. */
#include "aws.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/thread.h>

#include "s3_error.h"
#include "sigv4.h"

/* Seconds before expiry at which a key is renewed; keys with a short life are renewed in their last quarter.  botocore
 * tries from 15 minutes before expiry and insists from 10 minutes on (credentials.py, 1.43). */
#define AUTH_EARLY 600
/* Seconds until a failed renewal is retried while the old key is still valid. */
#define AUTH_RETRY 10

struct aws_auth {
    struct auth auth;
    struct http *http;
    char *profile, *bucket, *store;
    /* guards all members below; held while credentials are fetched, so that only one thread fetches them */
    pthread_mutex_t lock;
    char region[40];
    bool cannot_list;    /* S3 answers 403 for missing objects to clients that may not list */
    uint64_t generation; /* number of changes of key or region */
    struct aws_conf conf;
    struct aws_plan plan; /* borrows from conf */
    char *sts;
    struct aws_key key; /* without an id, requests are not signed */
    bool own;           /* the key was given in aws_auth_opts, not by AWS's settings */
    bool asked;         /* key was fetched */
    time_t renew;       /* when to fetch again; 0: never */
};

static struct aws_auth *auth_of(struct auth *a)
{
    return (struct aws_auth *)a;
}

static void auth_fini(struct auth *a)
{
    struct aws_auth *s = auth_of(a);

    aws_conf_fini(&s->conf);
    aws_key_fini(&s->key);
    free(s->profile);
    free(s->bucket);
    free(s->store);
    free(s->sts);
    (void)pthread_mutex_destroy(&s->lock);
    free(s);
}

/* Reads the settings.  Repeated when credentials have expired, since tools write new ones to the files. */
static bool auth_plan(struct aws_auth *s, struct zf_err *err)
{
    zf_auto(aws_conf) struct aws_conf c = {0};
    struct aws_plan plan;
    char *sts = NULL;

    if (!aws_conf_load(&c, s->profile, err) || !aws_plan_make(&plan, &c, err) ||
        !aws_conf_endpoint(&c, "sts", &sts, err))
        return false;
    aws_conf_fini(&s->conf);
    free(s->sts);
    s->conf = c;
    c = (struct aws_conf){0};
    s->sts = sts;
    s->plan = plan;
    return true;
}

/* Fetches a key; under the lock. */
static bool auth_fetch(struct aws_auth *s, struct aws_key *out, struct zf_err *err)
{
    const struct aws_fetch f = {.http = s->http,
                                .plan = &s->plan,
                                .region = s->own ? NULL : aws_conf_region(&s->conf),
                                .sts = s->sts};

    if (!aws_fetch_key(&f, out, err))
        return zf_err_in(err, "credentials");
    if (out->expires && out->expires <= time(NULL)) {
        return zf_fail(err, ZF_E_IO, ZF_OFF_NONE,
                       "the credentials of %s had already expired when they arrived; is this "
                       "machine's clock right?",
                       s->plan.from);
    }
    return true;
}

static bool auth_text_same(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "") == 0;
}

/* Replaces the current key by *key, which is emptied; under the lock. */
static void auth_take(struct aws_auth *s, struct aws_key *key)
{
    bool other = !auth_text_same(s->key.id, key->id) || !auth_text_same(s->key.token, key->token);
    time_t left = key->expires - time(NULL);

    aws_key_fini(&s->key);
    s->key = *key;
    *key = (struct aws_key){0};
    s->asked = true;
    s->renew =
        s->key.expires ? s->key.expires - (left / 4 < AUTH_EARLY ? left / 4 : AUTH_EARLY) : 0;
    s->generation += other;
}

/* Fetches a key if there is none or it must be renewed; under the lock.  If that fails, a key that is still valid is kept. */
static bool auth_ready(struct aws_auth *s, time_t now, struct zf_err *err)
{
    zf_auto(aws_key) struct aws_key key = {0};

    if (s->asked && !(s->renew && now >= s->renew))
        return true;
    if (auth_fetch(s, &key, err)) {
        auth_take(s, &key);
        return true;
    }
    if (s->key.id && s->key.expires > now) {
        s->renew = now + AUTH_RETRY;
        zf_err_clear(err);
        return true;
    }
    return false;
}

static bool auth_sign_locked(struct aws_auth *s, const struct auth_ask *ask, struct headers *add,
                             uint64_t *generation, struct zf_err *err)
{
    time_t now = time(NULL);

    if (!auth_ready(s, now, err))
        return false;
    *generation = s->generation;
    if (!s->key.id)
        return true;
    struct sigv4_key key = {s->key.id, s->key.secret, s->key.token};
    struct sigv4_ask sign = {.method = ask->method,
                             .url = ask->url,
                             .header = ask->header,
                             .n_header = ask->n_header,
                             .body = ask->body,
                             .n_body = ask->n_body,
                             .region = s->region,
                             .service = "s3",
                             .now = now};
    return sigv4_sign(&sign, &key, add, err);
}

static bool auth_sign(struct auth *a, const struct auth_ask *ask, struct headers *add,
                      uint64_t *generation, struct zf_err *err)
{
    struct aws_auth *s = auth_of(a);

    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&s->lock);
    return auth_sign_locked(s, ask, add, generation, err);
}

/* Uses the region named in the reply, if any; under the lock. */
static void auth_learn(struct aws_auth *s, const struct http_reply *r)
{
    struct s3_error e;
    zf_auto(mem) char *told = r->head ? http_header(r, "x-amz-bucket-region") : NULL;

    s3_error_read(&e, r->body, r->n_body);
    const char *region = told && *told ? told : e.region;
    size_t n = strlen(region);
    /* It becomes part of a host name, so its characters are checked. */
    if (n && n < sizeof s->region && strspn(region, "abcdefghijklmnopqrstuvwxyz0123456789-") == n) {
        s->generation += strcmp(s->region, region) != 0;
        memcpy(s->region, region, n + 1);
    }
}

bool aws_auth_learn(struct auth *a, const struct http_reply *r)
{
    struct aws_auth *s = auth_of(a);

    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&s->lock);
    const uint64_t was = s->generation;
    auth_learn(s, r);
    return s->generation != was;
}

/* Fetches a new key in place of an expired one; under the lock. */
static void auth_replace(struct aws_auth *s)
{
    struct zf_err ignored = {.code = ZF_OK};
    zf_auto(aws_key) struct aws_key key = {0};

    if (!s->own && auth_plan(s, &ignored) && auth_fetch(s, &key, &ignored) && key.id)
        auth_take(s, &key);
}

static bool auth_renew(struct auth *a, uint64_t generation, const struct http_reply *refused)
{
    struct aws_auth *s = auth_of(a);
    struct s3_error e;

    s3_error_read(&e, refused->body, refused->n_body);
    const bool expired = s3_error_expired(&e) || s3_error_unknown_key(&e);
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&s->lock);
    auth_learn(s, refused);
    if (expired && s->generation == generation)
        auth_replace(s);
    return s->generation != generation;
}

static bool auth_explain(struct auth *a, const struct http_reply *r, bool listing,
                         struct zf_err *err)
{
    struct aws_auth *s = auth_of(a);
    struct s3_error e;

    s3_error_read(&e, r->body, r->n_body);
    (void)pthread_mutex_lock(&s->lock);
    bool denied = r->status == 403 && (!e.code[0] || strcmp(e.code, "AccessDenied") == 0);
    bool absent = denied && s->cannot_list && !listing;
    s->cannot_list = s->cannot_list || (denied && listing);
    struct s3_asked asked = {.store = s->store,
                             .bucket = s->bucket,
                             .from = s->key.id ? s->plan.from : NULL,
                             .region = s->region,
                             .listing = listing,
                             .now = time(NULL)};
    (void)s3_error_fail(&e, r->status, &asked, err);
    (void)pthread_mutex_unlock(&s->lock);
    err->code = absent ? ZF_E_NOENT : err->code;
    return false;
}

void aws_auth_region(struct auth *a, char *out, size_t n)
{
    struct aws_auth *s = auth_of(a);

    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&s->lock);
    snprintf(out, n, "%s", s->region);
}

static const struct auth_ops aws_auth_ops = {
    .sign = auth_sign,
    .renew = auth_renew,
    .explain = auth_explain,
    .fini = auth_fini,
};

struct auth *aws_auth_new(const struct aws_auth_opts *o, struct zf_err *err)
{
    struct aws_auth *s = calloc(1, sizeof *s);

    if (!s)
        return zf_null(zf_fail_sys(err, "sign requests"));
    s->auth.ops = &aws_auth_ops;
    s->http = o->http;
    (void)pthread_mutex_init(&s->lock, NULL);
    snprintf(s->region, sizeof s->region, "%s", o->region);
    s->profile = o->profile ? strdup(o->profile) : NULL;
    s->bucket = strdup(o->bucket);
    s->store = strdup(o->store);
    bool good = s->bucket && s->store && (!o->profile || s->profile);
    if (o->id) {
        s->own = true;
        s->plan = (struct aws_plan){
            .base = AWS_STATIC, .id = o->id, .secret = o->secret, .from = "the environment"};
    }
    if (!(good || zf_fail_sys(err, "sign requests")) || (!s->own && !auth_plan(s, err))) {
        auth_fini(&s->auth);
        return NULL;
    }
    return &s->auth;
}
