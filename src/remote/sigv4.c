/* SPDX-License-Identifier: Apache-2.0 */
/* Source: botocore/auth.py, SigV4Auth and S3SigV4Auth (1.43), and "Authenticating Requests (AWS
 * Signature Version 4)" of the S3 API reference. */
#include "sigv4.h"

#include <ctype.h>
#include <stdio.h>
#include <strings.h>

#include <nettle/hmac.h>
#include <nettle/sha2.h>

#include <zf/base/hex.h>
#include <zf/base/name.h>
#include <zf/base/vec.h>

#include "settings.h"
#include "uri.h"

#define SIGV4_HASH SHA256_DIGEST_SIZE

struct sigv4_pair {
    const char *name, *value; /* not terminated */
    size_t n_name, n_value;
    size_t order;
};

struct sigv4_work {
    const struct sigv4_ask *ask;
    struct uri u;
    char stamp[20];                /* 20260102T030405Z */
    char body[2 * SIGV4_HASH + 1]; /* its hash */
    struct zf_out host, canonical, names, text, scope;
    zf_vec(struct sigv4_pair) pairs;
};

static void sigv4_work_fini(struct sigv4_work *w)
{
    struct zf_out *all[] = {&w->host, &w->canonical, &w->names, &w->text, &w->scope};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        zf_auto_out(all[i]);
    }
    zf_vec_fini(&w->pairs);
}

static inline void zf_auto_sigv4_work(struct sigv4_work *w)
{
    sigv4_work_fini(w);
}

/* key[SIGV4_HASH] becomes HMAC(key, text). */
static void sigv4_hmac(uint8_t *key, const char *text, size_t n)
{
    struct hmac_sha256_ctx ctx;

    hmac_sha256_set_key(&ctx, SIGV4_HASH, key);
    hmac_sha256_update(&ctx, n, (const uint8_t *)text);
    hmac_sha256_digest(&ctx, SIGV4_HASH, key);
    explicit_bzero(&ctx, sizeof ctx);
}

static int sigv4_text_cmp(const char *a, size_t n_a, const char *b, size_t n_b)
{
    int c = memcmp(a, b, n_a < n_b ? n_a : n_b);

    return c ? c : (n_a > n_b) - (n_a < n_b);
}

/* Queries: by name, then by value. */
static int sigv4_pair_cmp(const void *x, const void *y)
{
    const struct sigv4_pair *a = x, *b = y;
    int c = sigv4_text_cmp(a->name, a->n_name, b->name, b->n_name);

    return c ? c : sigv4_text_cmp(a->value, a->n_value, b->value, b->n_value);
}

/* Headers: by name whatever its case; values of one name stay in their order. */
static int sigv4_header_cmp(const void *x, const void *y)
{
    const struct sigv4_pair *a = x, *b = y;
    size_t n = a->n_name < b->n_name ? a->n_name : b->n_name;
    int c = strncasecmp(a->name, b->name, n);

    c = c ? c : (a->n_name > b->n_name) - (a->n_name < b->n_name);
    return c ? c : (a->order > b->order) - (a->order < b->order);
}

static bool sigv4_query(struct sigv4_work *w, struct zf_err *err)
{
    struct uri_part q = w->u.query;

    bool more = q.n > 0;

    w->pairs.n = 0;
    while (more) {
        const char *amp = memchr(q.p, '&', q.n);
        size_t n = amp ? (size_t)(amp - q.p) : q.n;
        const char *eq = memchr(q.p, '=', n);
        struct sigv4_pair *pair = zf_vec_push(&w->pairs, err);
        if (!pair) {
            return false;
        }
        pair->name = q.p;
        pair->n_name = eq ? (size_t)(eq - q.p) : n;
        pair->value = eq ? eq + 1 : "";
        pair->n_value = eq ? n - pair->n_name - 1 : 0;
        more = amp != NULL;
        q.p += n + more;
        q.n -= n + more;
    }
    if (w->pairs.n) {
        qsort(w->pairs.at, w->pairs.n, sizeof *w->pairs.at, sigv4_pair_cmp);
    }
    for (size_t i = 0; i < w->pairs.n; i++) {
        const struct sigv4_pair *p = &w->pairs.at[i];
        zf_out_str(&w->canonical, i ? "&" : "");
        zf_out_add(&w->canonical, p->name, p->n_name);
        zf_out_str(&w->canonical, "=");
        zf_out_add(&w->canonical, p->value, p->n_value);
    }
    return true;
}

static bool sigv4_header_add(struct sigv4_work *w, const char *line, struct zf_err *err)
{
    const char *colon = strchr(line, ':');
    struct sigv4_pair *pair = colon ? zf_vec_push(&w->pairs, err) : NULL;

    if (!colon) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "a header without a colon cannot be signed");
    }
    if (!pair) {
        return false;
    }
    *pair =
        (struct sigv4_pair){line, colon + 1, (size_t)(colon - line), strlen(colon + 1), w->pairs.n};
    return true;
}

/* The value without white space around it, one space for several within. */
static void sigv4_trim(struct zf_out *out, const char *p, size_t n)
{
    bool space = false, any = false;

    for (size_t i = 0; i < n; i++) {
        if (isspace((unsigned char)p[i])) {
            space = any;
            continue;
        }
        if (space) {
            zf_out_str(out, " ");
        }
        zf_out_add(out, &p[i], 1);
        space = false;
        any = true;
    }
}

static void sigv4_headers_text(struct sigv4_work *w)
{
    qsort(w->pairs.at, w->pairs.n, sizeof *w->pairs.at, sigv4_header_cmp);
    for (size_t i = 0; i < w->pairs.n; i++) {
        const struct sigv4_pair *p = &w->pairs.at[i];
        bool again = i && p[-1].n_name == p->n_name && !strncasecmp(p[-1].name, p->name, p->n_name);
        if (again) {
            zf_out_str(&w->canonical, ",");
        } else {
            zf_out_str(&w->canonical, i ? "\n" : "");
            uri_lower(&w->canonical, p->name, p->n_name);
            zf_out_str(&w->canonical, ":");
            zf_out_str(&w->names, i ? ";" : "");
            uri_lower(&w->names, p->name, p->n_name);
        }
        sigv4_trim(&w->canonical, p->value, p->n_value);
    }
    zf_out_str(&w->canonical, "\n\n");
    zf_out_add(&w->canonical, zf_out_text(&w->names), w->names.n);
}

/* The canonical request: method, path, query, headers, their names, and the body's hash. */
static bool sigv4_canonical(struct sigv4_work *w, const struct headers *own, struct zf_err *err)
{
    const struct sigv4_ask *ask = w->ask;

    zf_out_str(&w->canonical, ask->method);
    zf_out_str(&w->canonical, "\n");
    zf_out_add(&w->canonical, w->u.path.n ? w->u.path.p : "/", w->u.path.n ? w->u.path.n : 1);
    zf_out_str(&w->canonical, "\n");
    if (!sigv4_query(w, err)) {
        return false;
    }
    zf_out_str(&w->canonical, "\n");
    w->pairs.n = 0;
    if (!sigv4_header_add(w, zf_out_text(&w->host), err)) {
        return false;
    }
    for (size_t i = 0; i < own->n; i++) {
        if (!sigv4_header_add(w, own->line[i], err)) {
            return false;
        }
    }
    for (size_t i = 0; i < ask->n_header; i++) {
        bool host = strncasecmp(ask->header[i], "host:", 5) == 0;
        if (!host && !sigv4_header_add(w, ask->header[i], err)) {
            return false;
        }
    }
    sigv4_headers_text(w);
    zf_out_str(&w->canonical, "\n");
    zf_out_str(&w->canonical, w->body);
    return zf_out_ok(&w->canonical, err) && zf_out_ok(&w->names, err);
}

/* AWS4-HMAC-SHA256, stamp, scope, hash of the canonical request. */
static void sigv4_text(struct sigv4_work *w)
{
    uint8_t hash[SIGV4_HASH];

    zf_out_add(&w->scope, w->stamp, 8);
    zf_out_str(&w->scope, "/");
    zf_out_str(&w->scope, w->ask->region);
    zf_out_str(&w->scope, "/");
    zf_out_str(&w->scope, w->ask->service);
    zf_out_str(&w->scope, "/aws4_request");
    zf_out_str(&w->text, "AWS4-HMAC-SHA256\n");
    zf_out_str(&w->text, w->stamp);
    zf_out_str(&w->text, "\n");
    zf_out_str(&w->text, zf_out_text(&w->scope));
    zf_out_str(&w->text, "\n");
    zf_sha256(zf_out_text(&w->canonical), w->canonical.n, hash);
    zf_out_hex(&w->text, hash, SIGV4_HASH);
}

/* The key of the day, the region and the service signs the text. */
static void sigv4_signature(const struct sigv4_work *w, const char *secret, uint8_t *out)
{
    struct hmac_sha256_ctx ctx;
    zf_auto(secret_out) struct zf_out first = {0};

    zf_out_str(&first, "AWS4");
    zf_out_str(&first, secret);
    hmac_sha256_set_key(&ctx, first.n, (const uint8_t *)zf_out_text(&first));
    hmac_sha256_update(&ctx, 8, (const uint8_t *)w->stamp);
    hmac_sha256_digest(&ctx, SIGV4_HASH, out);
    explicit_bzero(&ctx, sizeof ctx);
    sigv4_hmac(out, w->ask->region, strlen(w->ask->region));
    sigv4_hmac(out, w->ask->service, strlen(w->ask->service));
    sigv4_hmac(out, "aws4_request", 12);
    sigv4_hmac(out, zf_out_text(&w->text), w->text.n);
}

static bool sigv4_begin(struct sigv4_work *w, const struct sigv4_key *key, struct headers *out,
                        struct zf_err *err)
{
    uint8_t hash[SIGV4_HASH];
    struct tm tm;

    if (!uri_split(w->ask->url, &w->u) || !gmtime_r(&w->ask->now, &tm) ||
        !strftime(w->stamp, sizeof w->stamp, "%Y%m%dT%H%M%SZ", &tm)) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "only an absolute URL can be signed");
    }
    zf_sha256(w->ask->body, w->ask->n_body, hash);
    zf_hex(w->body, hash, SIGV4_HASH);
    zf_out_str(&w->host, "host: ");
    uri_host(&w->host, &w->u);
    return headers_add(out, "x-amz-date", w->stamp, err) &&
           headers_add(out, "x-amz-content-sha256", w->body, err) &&
           (!key->token || headers_add(out, "x-amz-security-token", key->token, err)) &&
           zf_out_ok(&w->host, err);
}

bool sigv4_sign(const struct sigv4_ask *ask, const struct sigv4_key *key, struct headers *out,
                struct zf_err *err)
{
    zf_auto(sigv4_work) struct sigv4_work w = {.ask = ask};
    zf_auto(out) struct zf_out line = {0};
    uint8_t sum[SIGV4_HASH];

    if (!sigv4_begin(&w, key, out, err) || !sigv4_canonical(&w, out, err)) {
        return false;
    }
    sigv4_text(&w);
    sigv4_signature(&w, key->secret, sum);
    zf_out_str(&line, "AWS4-HMAC-SHA256 Credential=");
    zf_out_str(&line, key->id);
    zf_out_str(&line, "/");
    zf_out_str(&line, zf_out_text(&w.scope));
    zf_out_str(&line, ", SignedHeaders=");
    zf_out_str(&line, zf_out_text(&w.names));
    zf_out_str(&line, ", Signature=");
    zf_out_hex(&line, sum, SIGV4_HASH);
    return zf_out_ok(&w.text, err) && zf_out_ok(&w.scope, err) && zf_out_ok(&line, err) &&
           headers_add(out, "authorization", zf_out_text(&line), err);
}
