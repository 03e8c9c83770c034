/* SPDX-License-Identifier: Apache-2.0 */
/* s3://bucket/prefix, and stores with the same protocol: r2:// (Cloudflare) and weka:// as
 * OLMo names them, gs:// with HMAC keys.  Source of the variables: OLMo, olmo/util.py
 * (_get_s3_profile_name, _get_s3_endpoint_url); AWS_REQUEST_PAYER and AWS_NO_SIGN_REQUEST are
 * GDAL's names (vsis3). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "aws.h"
#include "gs.h"
#include "listings.h"
#include "place.h"
#include "unlisted.h"
#include "url.h"
#include "xml.h"

#define S3_PAGE_BYTES                                                                              \
    (16u << 20) /* of a page: 1000 keys of 1024 bytes, encoded, and the XML around them */

/* Properties of a scheme; NULL = none. */
struct s3_kind {
    const char *scheme, *store; /* "s3", "S3" for sentences */
    /* environment variable with a profile, which takes precedence over keys in the environment */
    const char *profile_variable;
    const char *
        endpoint_variable; /* environment variable with the endpoint; required unless `endpoint` is set */
    const char *endpoint; /* default endpoint */
    const char *region;   /* fixed region */
    bool google;          /* uses Google's credentials */
};

struct s3_place {
    struct place place;
    struct auth *auth;
    char *bucket, *prefix; /* prefix: no slash at either end; "" */
    char *endpoint;        /* NULL: Amazon's */
    char *pays;            /* header for requester-pays buckets; NULL: none */
    bool aws;              /* auth is from aws_auth_new */
    bool path_style;
    const struct zf_limits *lim;
    struct unlisted *unlisted; /* for clients that may read but not list */
    atomic_bool settled;       /* the region is known to be right */
};

static struct s3_place *s3_of(struct place *p)
{
    return (struct s3_place *)p;
}

static void s3_fini(struct place *p)
{
    struct s3_place *s = s3_of(p);

    unlisted_free(s->unlisted);
    auth_free(s->auth);
    free(s->bucket);
    free(s->prefix);
    free(s->endpoint);
    free(s->pays);
    place_free(p);
}

/* Adds the bucket's URL, ending in '/'.  Amazon's contains the region, which a reply may correct later. */
static void s3_bucket_url(struct s3_place *s, struct zf_out *url)
{
    char region[40] = "auto", amazon[100];
    struct url u;

    if (s->aws)
        aws_auth_region(s->auth, region, sizeof region);
    snprintf(amazon, sizeof amazon, "https://s3.%s.amazonaws.com%s", region,
             strncmp(region, "cn-", 3) == 0 ? ".cn" : "");
    if (!url_split(s->endpoint ? s->endpoint : amazon, &u)) {
        url->bad = true;
        return;
    }
    url_lower(url, u.scheme.p, u.scheme.n);
    zf_out_str(url, "://");
    if (!s->path_style) {
        url_lower(url, s->bucket, strlen(s->bucket));
        zf_out_str(url, ".");
    }
    url_add_host(url, &u);
    zf_out_add(url, u.path.p, u.path.n);
    zf_out_str(url, u.path.n && u.path.p[u.path.n - 1] == '/' ? "" : "/");
    if (s->path_style) {
        url_encode(url, s->bucket, strlen(s->bucket), false);
        zf_out_str(url, "/");
    }
}

/* Adds the key "prefix/path", without a trailing slash; "" for the bucket. */
static void s3_key(const struct s3_place *s, const char *path, struct zf_out *key)
{
    zf_out_fmt(key, "%s%s%s", s->prefix, s->prefix[0] && path[0] ? "/" : "", path);
}

/* Does the reply name another region, so that the request should be repeated there?  Notes the region. */
static bool s3_elsewhere(struct s3_place *s, const struct http_reply *r)
{
    bool moved = r->status == 301 || r->status == 307 || r->status == 400 || r->status == 403;

    return moved && s->aws && aws_auth_learn(s->auth, r);
}

/* Finds out the region of a bucket that was not listed, before its first object is read: every reply to a HEAD names it.
 * Errors are ignored, since a client that may not list may still read. */
static void s3_learn_region(struct s3_place *s)
{
    zf_auto(out) struct zf_out url = {0};
    zf_auto(http_reply) struct http_reply r = {.status = 0};
    struct zf_err ignored = {.code = ZF_OK};

    if (!s->aws || atomic_load_explicit(&s->settled, memory_order_relaxed))
        return;
    s3_bucket_url(s, &url);
    struct http_ask ask = {.method = "HEAD", .url = zf_out_text(&url), .auth = s->auth, .tries = 1};
    if (!url.bad && !http_do(s->place.http, &ask, &r, &ignored))
        (void)s3_elsewhere(s, &r);
    atomic_store_explicit(&s->settled, true, memory_order_relaxed);
}

static struct place_at s3_ask(const struct s3_place *s)
{
    return (struct place_at){
        .header = (const char *const *)&s->pays, .n_header = s->pays != NULL, .auth = s->auth};
}

static bool s3_at(struct place *p, const char *path, struct place_at *out, struct zf_err *err)
{
    struct s3_place *s = s3_of(p);
    zf_auto(out) struct zf_out key = {0};
    zf_auto(out) struct zf_out url = {0};

    *out = s3_ask(s);
    s3_learn_region(s);
    s3_key(s, path, &key);
    s3_bucket_url(s, &url);
    url_encode(&url, zf_out_text(&key), key.n, true);
    if (!zf_out_ok(&key, err) || !zf_out_ok(&url, err))
        return false;
    out->url = zf_give(url.p);
    return true;
}

/* Adds the query of a page, sorted by name as the signature requires. */
static void s3_query(const struct s3_list *l, struct zf_out *url)
{
    const char *token = zf_out_text(&l->token);

    zf_out_str(url, "?");
    if (token[0]) {
        zf_out_str(url, "continuation-token=");
        url_encode(url, token, l->token.n, false);
        zf_out_str(url, "&");
    }
    zf_out_str(url, "delimiter=%2F&encoding-type=url&list-type=2&prefix=");
    url_encode(url, l->prefix, strlen(l->prefix), false);
}

/* Sets the error of a failed listing; ZF_E_UNSUPPORTED: listing is denied, but known names may still be read.  Always
 * returns false. */
static bool s3_no_list(struct s3_place *s, const struct http_reply *r, struct zf_err *err)
{
    if (!r->status)
        return false;
    (void)s->auth->ops->explain(s->auth, r, true, err);
    if (err->code == ZF_E_UNSUPPORTED) /* the signature was accepted, so the region is right */
        atomic_store_explicit(&s->settled, true, memory_order_relaxed);
    return false;
}

static bool s3_page(struct s3_place *s, struct s3_list *l, struct zf_err *err)
{
    for (unsigned tries = 0;; tries++) {
        zf_auto(out) struct zf_out url = {0};
        zf_auto(http_reply) struct http_reply r = {.status = 0};
        s3_bucket_url(s, &url);
        s3_query(l, &url);
        if (!zf_out_ok(&url, err))
            return false;
        struct place_at at = s3_ask(s);
        at.url = url.p;
        struct http_ask ask = place_ask(&at);
        ask.max_body = S3_PAGE_BYTES;
        if (http_do(s->place.http, &ask, &r, err)) {
            atomic_store_explicit(&s->settled, true, memory_order_relaxed);
            return s3_list_page(l, r.body, r.n_body, err);
        }
        if (tries || !s3_elsewhere(s, &r))
            return s3_no_list(s, &r, err);
        zf_err_clear(err);
    }
}

static bool s3_pages(struct s3_place *s, const char *prefix, struct entries *out,
                     struct zf_err *err)
{
    zf_auto(s3_list) struct s3_list l = {.prefix = prefix, .out = out};

    out->once = true;
    do {
        if (!s3_page(s, &l, err))
            return false;
    } while (l.more);
    return out->n || l.marker || !prefix[0] ||
           zf_fail(err, ZF_E_NOENT, ZF_OFF_NONE,
                   "the bucket %.63s has no objects below \"%.150s\"; is the prefix right?",
                   s->bucket, prefix);
}

/* Requests known names where listing is denied.  If none exists, *err keeps the error of the listing. */
static bool s3_unlisted(struct s3_place *s, const char *dir, struct entries *out,
                        struct zf_err *err)
{
    struct zf_err why = {.code = ZF_OK};

    atomic_store_explicit(&s->place.lists_all, false, memory_order_relaxed);
    if (!entries_again(out, &why) || !unlisted_list(s->unlisted, dir, out, &why)) {
        if (why.code != ZF_E_NOENT)
            *err = why;
        return false;
    }
    zf_err_clear(err);
    return true;
}

static bool s3_place_list(struct place *p, const char *dir, struct entries *out, struct zf_err *err)
{
    struct s3_place *s = s3_of(p);
    zf_auto(out) struct zf_out prefix = {0};

    s3_key(s, dir, &prefix);
    zf_out_str(&prefix, prefix.n ? "/" : "");
    if (!zf_out_ok(&prefix, err))
        return false;
    return s3_pages(s, zf_out_text(&prefix), out, err) ||
           (err->code == ZF_E_UNSUPPORTED && s3_unlisted(s, dir, out, err));
}

static const struct place_ops s3_place_ops = {
    .list = s3_place_list,
    .at = s3_at,
    .fini = s3_fini,
};

/* "scheme://bucket/prefix". */
static bool s3_address(struct s3_place *s, const char *address, struct zf_err *err)
{
    const char *bucket = strstr(address, "://"), *end, *prefix;

    bucket = bucket ? bucket + 3 : address;
    end = strchrnul(bucket, '/');
    prefix = *end ? end + 1 : end;
    size_t n = (size_t)(end - bucket), n_prefix = strlen(prefix);
    while (n_prefix && prefix[n_prefix - 1] == '/')
        n_prefix--;
    /* S3 bucket names have 3 to 63 characters; old ones up to 255, with capitals and '_'. */
    if (!n || n > 255 ||
        strspn(bucket, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") < n ||
        bucket[0] == '.') {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                       "the address has no bucket, expected %.*s://BUCKET/PREFIX",
                       (int)strcspn(address, ":"), address);
    }
    s->bucket = strndup(bucket, n);
    s->prefix = strndup(prefix, n_prefix);
    if (!s->bucket || !s->prefix)
        return zf_fail_sys(err, "open the bucket");
    for (const char *p = s->prefix; *p; p += strcspn(p, "/"), p += *p == '/') {
        size_t part = strcspn(p, "/");
        if ((part == 1 && p[0] == '.') || (part == 2 && p[0] == '.' && p[1] == '.')) {
            return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                           "the address has a \"%.*s\", which a key cannot have", (int)part, p);
        }
    }
    return true;
}

/* Can the bucket's name be part of a host name?  Not with dots over https: no wildcard certificate would match. */
static bool s3_is_label(const char *bucket, bool https)
{
    size_t n = strlen(bucket);

    return n >= 3 && n <= 63 && strspn(bucket, "abcdefghijklmnopqrstuvwxyz0123456789-.") == n &&
           bucket[0] != '-' && bucket[n - 1] != '-' && bucket[n - 1] != '.' &&
           !strstr(bucket, "..") && !(https && strchr(bucket, '.'));
}

/* Sets the endpoint (the scheme's, or from AWS's settings) and the addressing style. */
static bool s3_endpoint(struct s3_place *s, const struct s3_kind *k, const struct aws_conf *c,
                        struct zf_err *err)
{
    zf_auto(mem) char *style = c->profile ? aws_conf_s3(c, "addressing_style") : NULL;
    const char *set = k->endpoint_variable ? settings_env(k->endpoint_variable) : NULL;

    set = set ? set : k->endpoint;
    if (set) {
        s->endpoint = strdup(set);
        if (!s->endpoint)
            return zf_fail_sys(err, "open the bucket");
    } else if (k->endpoint_variable) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                       "%s is not set, which gives the endpoint of %s://", k->endpoint_variable,
                       k->scheme);
    } else if (!aws_conf_endpoint(c, "s3", &s->endpoint, err)) {
        return false;
    }
    if (s->endpoint && !url_is_endpoint(s->endpoint)) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "%s is not a plain http:// or https:// URL",
                       k->endpoint_variable ? k->endpoint_variable : "the endpoint");
    }
    bool https = !s->endpoint || url_is(s->endpoint, "https");
    s->path_style =
        s->endpoint ? !style || strcmp(style, "virtual") != 0 : style && strcmp(style, "path") == 0;
    s->path_style = s->path_style || !s3_is_label(s->bucket, https);
    return true;
}

static bool s3_pays(struct s3_place *s, bool google, struct zf_err *err)
{
    const char *payer = settings_env("AWS_REQUEST_PAYER"),
               *project = settings_env("GOOGLE_CLOUD_QUOTA_PROJECT");

    if (google && project && !strpbrk(project, "\r\n")) {
        return asprintf(&s->pays, "x-goog-user-project: %s", project) >= 0 ||
               zf_fail_sys(err, "open the bucket");
    }
    if (!google && payer && strcasecmp(payer, "requester") == 0) {
        s->pays = strdup("x-amz-request-payer: requester");
        return s->pays || zf_fail_sys(err, "open the bucket");
    }
    return true;
}

/* Uses Google's credentials: HMAC keys sign as AWS keys do; all others give a bearer token. */
static bool s3_open_google(struct s3_place *s, const struct s3_kind *k, const struct place_new *n,
                           struct zf_err *err)
{
    const struct aws_conf none = {0};
    struct aws_auth_opts o = {.http = n->http,
                              .bucket = s->bucket,
                              .store = k->store,
                              .region = k->region,
                              .id = settings_env("GS_ACCESS_KEY_ID"),
                              .secret = settings_env("GS_SECRET_ACCESS_KEY")};

    if (!s3_endpoint(s, k, &none, err))
        return false;
    if (!o.id != !o.secret) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                       "only one of GS_ACCESS_KEY_ID and GS_SECRET_ACCESS_KEY is set");
    }
    s->aws = o.id != NULL;
    s->auth = s->aws ? aws_auth_new(&o, err) : gs_auth_new(n->http, s->bucket, err);
    return s->auth != NULL;
}

static bool s3_open_aws(struct s3_place *s, const struct s3_kind *k, const struct place_new *n,
                        struct zf_err *err)
{
    zf_auto(aws_conf) struct aws_conf c = {0};
    const char *profile = k->profile_variable ? settings_env(k->profile_variable) : NULL;

    if (!aws_conf_load(&c, profile, err) || !s3_endpoint(s, k, &c, err))
        return false;
    const char *region = aws_conf_region(&c);
    struct aws_auth_opts o = {
        .http = n->http,
        .profile = profile,
        .region = k->region                       ? k->region
                  : region && strlen(region) < 40 ? region
                                                  : "us-east-1",
        .bucket = s->bucket,
        .store = k->store,
    };
    s->aws = true;
    s->auth = aws_auth_new(&o, err);
    return s->auth != NULL;
}

static bool s3_open(struct s3_place *s, const struct s3_kind *k, const struct place_new *n,
                    struct zf_err *err)
{
    s->lim = n->lim;
    s->unlisted = unlisted_new(&s->place, n->lim, err);
    return s->unlisted && s3_address(s, n->address, err) && s3_pays(s, k->google, err) &&
           (k->google ? s3_open_google(s, k, n, err) : s3_open_aws(s, k, n, err));
}

/* Errors: ZF_E_USAGE invalid URL or settings; those of aws_auth_new. */
static struct place *s3_place_new(const struct s3_kind *k, const struct place_new *n,
                                  struct zf_err *err)
{
    if (!xml_ready(err))
        return NULL;
    struct s3_place *s = place_make(sizeof *s, &s3_place_ops, n, err);
    if (!s)
        return NULL;
    if (!s3_open(s, k, n, err)) {
        s3_fini(&s->place);
        return NULL;
    }
    atomic_init(&s->place.lists_all, true);
    s->place.etag_is_content_hash = s->place.lists_dots = true;
    return &s->place;
}

struct place *place_open_s3(const struct place_new *n, struct zf_err *err)
{
    return s3_place_new(
        &(struct s3_kind){.scheme = "s3", .store = "S3", .profile_variable = "S3_PROFILE"}, n, err);
}

struct place *place_open_r2(const struct place_new *n, struct zf_err *err)
{
    return s3_place_new(&(struct s3_kind){.scheme = "r2",
                                          .store = "R2",
                                          .profile_variable = "R2_PROFILE",
                                          .endpoint_variable = "R2_ENDPOINT_URL",
                                          .region = "auto"},
                        n, err);
}

struct place *place_open_weka(const struct place_new *n, struct zf_err *err)
{
    return s3_place_new(&(struct s3_kind){.scheme = "weka",
                                          .store = "WEKA",
                                          .profile_variable = "WEKA_PROFILE",
                                          .endpoint_variable = "WEKA_ENDPOINT_URL"},
                        n, err);
}

/* Google's XML API is compatible with S3.  STORAGE_EMULATOR_HOST is also read by Google's own libraries. */
struct place *place_open_gs(const struct place_new *n, struct zf_err *err)
{
    return s3_place_new(&(struct s3_kind){.scheme = "gs",
                                          .store = "Google Cloud Storage",
                                          .endpoint_variable = "STORAGE_EMULATOR_HOST",
                                          .endpoint = "https://storage.googleapis.com",
                                          .region = "auto",
                                          .google = true},
                        n, err);
}
