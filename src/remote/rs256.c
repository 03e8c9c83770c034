/* SPDX-License-Identifier: Apache-2.0 */
/* RSASSA-PKCS1-v1_5 with SHA-256, for the assertions of service accounts; by nettle's hogweed.
 * Source: RFC 5208 (PKCS #8), RFC 8017 (PKCS #1), RFC 7468 (PEM). */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "gs.h"

#include <stdlib.h>
#include <string.h>

#include <nettle/base64.h>

void rs256_base64(struct zf_out *out, const void *p, size_t n)
{
    const uint8_t *bytes = p;

    for (size_t at = 0; at < n; at += 3) {
        size_t some = n - at < 3 ? n - at : 3;
        char text[BASE64_ENCODE_RAW_LENGTH(3)];
        struct base64_encode_ctx ctx;
        base64url_encode_init(&ctx);
        size_t got = base64_encode_update(&ctx, text, some, bytes + at);
        char end[BASE64_ENCODE_FINAL_LENGTH];
        size_t got_end = base64_encode_final(&ctx, end);
        while (got_end && end[got_end - 1] == '=') {
            got_end--;
        }
        zf_out_add(out, text, got);
        zf_out_add(out, end, got_end);
    }
}

#ifdef HAVE_HOGWEED

#include <sys/random.h>

#include <nettle/asn1.h>
#include <nettle/bignum.h>
#include <nettle/rsa.h>

#define RS256_KEY 16384 /* bytes of a key in DER; one of 4096 bits has 2400 */
#define RS256_BITS 8192

/* The bytes between the two lines of a PEM text; *n_out is 0 where there are none. */
static void rs256_pem(const char *pem, const char *kind, uint8_t *der, size_t *n_out)
{
    const char *begin = strstr(pem, "-----BEGIN "),
               *end = begin ? strstr(begin, "-----END ") : NULL;
    struct base64_decode_ctx ctx;
    size_t n = RS256_KEY;

    *n_out = 0;
    if (!end || strncmp(begin + 11, kind, strlen(kind)) != 0) {
        return;
    }
    begin += 11 + strlen(kind);
    if (begin > end || BASE64_DECODE_LENGTH((size_t)(end - begin)) > RS256_KEY) {
        return;
    }
    base64_decode_init(&ctx);
    if (base64_decode_update(&ctx, &n, der, (size_t)(end - begin), begin) &&
        base64_decode_final(&ctx)) {
        *n_out = n;
    }
}

/* The RSAPrivateKey in a PrivateKeyInfo: SEQUENCE { version, algorithm, OCTET STRING }. */
static bool rs256_unwrap(const uint8_t *der, size_t n, const uint8_t **key, size_t *n_key)
{
    struct asn1_der_iterator all, in;

    if (asn1_der_iterator_first(&all, n, der) != ASN1_ITERATOR_CONSTRUCTED ||
        all.type != ASN1_SEQUENCE ||
        asn1_der_decode_constructed(&all, &in) != ASN1_ITERATOR_PRIMITIVE ||
        in.type != ASN1_INTEGER || asn1_der_iterator_next(&in) != ASN1_ITERATOR_CONSTRUCTED ||
        in.type != ASN1_SEQUENCE || asn1_der_iterator_next(&in) != ASN1_ITERATOR_PRIMITIVE ||
        in.type != ASN1_OCTETSTRING) {
        return false;
    }
    *key = in.data;
    *n_key = in.length;
    return true;
}

static void rs256_random(void *ctx, size_t n, uint8_t *out)
{
    (void)ctx;
    while (n) {
        ssize_t got = getrandom(out, n, 0);
        if (got > 0) {
            out += got;
            n -= (size_t)got;
        }
    }
}

struct rs256_pair {
    struct rsa_public_key pub;
    struct rsa_private_key key;
};

static inline void zf_auto_rs256_pair(struct rs256_pair *p)
{
    rsa_public_key_clear(&p->pub);
    rsa_private_key_clear(&p->key);
}

/* Do the numbers make a key?  hogweed asserts on some that do not (3.8, _nettle_rsa_sec_compute_root). */
static bool rs256_fits(const struct rs256_pair *pair)
{
    const struct rsa_private_key *k = &pair->key;
    mpz_t n;

    mpz_init(n);
    mpz_mul(n, k->p, k->q);
    bool good = mpz_sgn(k->p) > 0 && mpz_sgn(k->q) > 0 && mpz_odd_p(k->p) && mpz_odd_p(k->q) &&
                mpz_cmp(n, pair->pub.n) == 0 && mpz_sgn(k->a) > 0 && mpz_cmp(k->a, k->p) < 0 &&
                mpz_sgn(k->b) > 0 && mpz_cmp(k->b, k->q) < 0 && mpz_sgn(k->c) > 0 &&
                mpz_cmp(k->c, k->p) < 0 && mpz_sizeinbase(k->p, 2) >= 256 &&
                mpz_sizeinbase(k->q, 2) >= 256 && mpz_odd_p(pair->pub.e);
    mpz_clear(n);
    return good;
}

static bool rs256_load(struct rs256_pair *pair, const char *pem)
{
    uint8_t der[RS256_KEY];
    const uint8_t *key = der;
    size_t n, n_key;

    rs256_pem(pem, "PRIVATE KEY-----", der, &n);
    bool good = n && rs256_unwrap(der, n, &key, &n_key);
    if (!n) {
        rs256_pem(pem, "RSA PRIVATE KEY-----", der, &n_key);
        good = n_key > 0;
    }
    good = good && rsa_keypair_from_der(&pair->pub, &pair->key, RS256_BITS, n_key, key) &&
           rs256_fits(pair);
    explicit_bzero(der, sizeof der);
    return good;
}

bool rs256_sign(const char *pem, const void *p, size_t n, struct zf_out *out, struct zf_err *err)
{
    zf_auto(rs256_pair) struct rs256_pair pair;
    struct sha256_ctx hash;
    mpz_t sum;

    rsa_public_key_init(&pair.pub);
    rsa_private_key_init(&pair.key);
    if (!rs256_load(&pair, pem)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "the private key of the credentials is no RSA key in PEM");
    }
    sha256_init(&hash);
    sha256_update(&hash, n, p);
    mpz_init(sum);
    bool good = rsa_sha256_sign_tr(&pair.pub, &pair.key, NULL, rs256_random, &hash, sum);
    uint8_t *bytes = good ? malloc(pair.key.size) : NULL;
    if (bytes) {
        nettle_mpz_get_str_256(pair.key.size, bytes, sum);
        zf_out_add(out, bytes, pair.key.size);
    }
    free(bytes);
    mpz_clear(sum);
    return bytes ? zf_out_ok(out, err)
                 : zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "the private key of the credentials cannot sign: its numbers do not fit "
                           "together");
}

#else

bool rs256_sign(const char *pem, const void *p, size_t n, struct zf_out *out, struct zf_err *err)
{
    (void)pem, (void)p, (void)n, (void)out;
    return zf_fail(
        err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
        "service accounts sign with RSA, and this zerofs was built without hogweed (configure "
        "--with-hogweed); GOOGLE_OAUTH_ACCESS_TOKEN works");
}

#endif
