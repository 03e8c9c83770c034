/* SPDX-License-Identifier: Apache-2.0 */
/* Source: botocore/auth.py, SigV4Auth and S3SigV4Auth (1.43), and "Authenticating Requests (AWS
 * Signature Version 4)" of the S3 API reference. */
#include "sigv4.h"

#include <stdio.h>
#include <strings.h>

#include <nettle/hmac.h>
#include <nettle/sha2.h>

#include <zf/base/hex.h>
#include <zf/base/name.h>
#include <zf/base/vec.h>

#include "settings.h"
#include "url.h"

#define SIGV4_HASH SHA256_DIGEST_SIZE

struct sigv4_work {
    const struct sigv4_ask *ask;
    struct url u;
    char stamp[20];                /* 20260102T030405Z */
    char body[2 * SIGV4_HASH + 1]; /* its hash */
    zf_vec(const char *) lines;    /* "Name: value" of the signed headers */
    struct zf_out host, canonical, names, text, scope;
};

static inline void zf_auto_sigv4_work(struct sigv4_work *w)
{
    struct zf_out *all[] = {&w->host, &w->canonical, &w->names, &w->text, &w->scope};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        zf_auto_out(all[i]);
    zf_vec_fini(&w->lines);
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

/* By name, whatever its case. */
static int sigv4_line_cmp(const void *x, const void *y)
{
    const char *a = *(const char *const *)x, *b = *(const char *const *)y;
    const size_t n_a = strcspn(a, ":"), n_b = strcspn(b, ":");
    const int c = strncasecmp(a, b, n_a < n_b ? n_a : n_b);

    return c ? c : (n_a > n_b) - (n_a < n_b);
}

static bool sigv4_line(struct sigv4_work *w, const char *line, struct zf_err *err)
{
    const char **to = zf_vec_push(&w->lines, err);

    if (to)
        *to = line;
    return to != NULL;
}

static bool sigv4_lines(struct sigv4_work *w, const struct headers *own, struct zf_err *err)
{
    bool ok = sigv4_line(w, zf_out_text(&w->host), err);

    for (size_t i = 0; ok && i < own->n; i++)
        ok = sigv4_line(w, own->line[i], err);
    for (size_t i = 0; ok && i < w->ask->n_header; i++)
        ok = sigv4_line(w, w->ask->header[i], err);
    if (ok)
        qsort(w->lines.at, w->lines.n, sizeof *w->lines.at, sigv4_line_cmp);
    return ok;
}

/* The canonical request: method, path, query, headers, their names, and the body's hash. */
static bool sigv4_canonical(struct sigv4_work *w, const struct headers *own, struct zf_err *err)
{
    struct zf_out *to = &w->canonical;

    if (!sigv4_lines(w, own, err))
        return false;
    zf_out_fmt(to, "%s\n%s", w->ask->method, w->u.path.n ? "" : "/");
    zf_out_add(to, w->u.path.p, w->u.path.n);
    zf_out_str(to, "\n");
    zf_out_add(to, w->u.query.p, w->u.query.n);
    zf_out_str(to, "\n");
    for (size_t i = 0; i < w->lines.n; i++) {
        const char *line = w->lines.at[i], *value = line + strcspn(line, ":");

        zf_out_str(&w->names, i ? ";" : "");
        url_lower(&w->names, line, (size_t)(value - line));
        url_lower(to, line, (size_t)(value - line));
        zf_out_fmt(to, ":%s\n", value + strspn(value, ": "));
    }
    zf_out_fmt(to, "\n%s\n%s", zf_out_text(&w->names), w->body);
    return zf_out_ok(to, err) && zf_out_ok(&w->names, err);
}

/* AWS4-HMAC-SHA256, stamp, scope, hash of the canonical request. */
static void sigv4_text(struct sigv4_work *w)
{
    uint8_t hash[SIGV4_HASH];

    zf_out_add(&w->scope, w->stamp, 8);
    zf_out_fmt(&w->scope, "/%s/%s/aws4_request", w->ask->region, w->ask->service);
    zf_out_fmt(&w->text, "AWS4-HMAC-SHA256\n%s\n%s\n", w->stamp, zf_out_text(&w->scope));
    zf_sha256(zf_out_text(&w->canonical), w->canonical.n, hash);
    zf_out_hex(&w->text, hash, SIGV4_HASH);
}

/* The key of the day, the region and the service signs the text. */
static void sigv4_signature(const struct sigv4_work *w, const char *secret, uint8_t *out)
{
    struct hmac_sha256_ctx ctx;
    zf_auto(secret_out) struct zf_out first = {0};

    zf_out_fmt(&first, "AWS4%s", secret);
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
    struct zf_err why;
    struct tm tm;

    if (!url_check(w->ask->url, &why) || !url_split(w->ask->url, &w->u) ||
        !gmtime_r(&w->ask->now, &tm) || !strftime(w->stamp, sizeof w->stamp, "%Y%m%dT%H%M%SZ", &tm))
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "only an absolute URL can be signed");
    zf_sha256(w->ask->body, w->ask->n_body, hash);
    zf_hex(w->body, hash, SIGV4_HASH);
    zf_out_str(&w->host, "host: ");
    url_add_host(&w->host, &w->u);
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

    if (!sigv4_begin(&w, key, out, err) || !sigv4_canonical(&w, out, err))
        return false;
    sigv4_text(&w);
    sigv4_signature(&w, key->secret, sum);
    zf_out_fmt(&line, "AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=", key->id,
               zf_out_text(&w.scope), zf_out_text(&w.names));
    zf_out_hex(&line, sum, SIGV4_HASH);
    return zf_out_ok(&w.text, err) && zf_out_ok(&w.scope, err) && zf_out_ok(&line, err) &&
           headers_add(out, "authorization", zf_out_text(&line), err);
}
