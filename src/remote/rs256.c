/* SPDX-License-Identifier: Apache-2.0 */
/* Signs the assertions of service accounts with RSASSA-PKCS1-v1_5 and SHA-256, by GnuTLS. */
#include "gs.h"

#include <stdlib.h>
#include <string.h>

#include <nettle/base64.h>

#include "libraries.h"

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
        while (got_end && end[got_end - 1] == '=')
            got_end--;
        zf_out_add(out, text, got);
        zf_out_add(out, end, got_end);
    }
}

#ifdef HAVE_GNUTLS

#define RS256_BITS 8192u
#define RS256_PEM 16384u /* bytes; a key of 8192 bits has 6,500 */

static inline void zf_auto_rs256_key(gnutls_privkey_t *key)
{
    if (*key)
        lib_gnutls()->privkey_deinit(*key);
}

bool rs256_sign(const char *pem, const void *p, size_t n, struct zf_out *out, struct zf_err *err)
{
    const struct lib_gnutls *tls = lib_gnutls();
    const size_t n_pem = strlen(pem);
    zf_auto(rs256_key) gnutls_privkey_t key = NULL;
    /* GnuTLS does not modify the inputs. */
    const gnutls_datum_t text = {(unsigned char *)(uintptr_t)pem, (unsigned)n_pem},
                         data = {(unsigned char *)(uintptr_t)p, (unsigned)n};
    gnutls_datum_t sum = {NULL, 0};
    unsigned bits = 0;

    if (!lib_gnutls_load(err))
        return false;
    if (tls->privkey_init(&key) != 0)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for a signature");
    if (n_pem > RS256_PEM ||
        tls->privkey_import_x509_raw(key, &text, GNUTLS_X509_FMT_PEM, NULL, 0) != 0 ||
        tls->privkey_get_pk_algorithm(key, &bits) != GNUTLS_PK_RSA || bits > RS256_BITS) {
        return zf_fail(
            err, ZF_E_FORMAT, ZF_OFF_NONE,
            "the private key of the credentials is not an RSA key in PEM, of %u bits at most",
            RS256_BITS);
    }
    if (tls->privkey_sign_data2(key, GNUTLS_SIGN_RSA_SHA256, 0, &data, &sum) != 0) {
        return zf_fail(
            err, ZF_E_FORMAT, ZF_OFF_NONE,
            "the private key of the credentials cannot sign: its numbers contradict each other");
    }
    zf_out_add(out, sum.data, sum.size);
    free(sum.data); /* allocated by GnuTLS, whose gnutls_free points to free() */
    return zf_out_ok(out, err);
}

#else

bool rs256_sign(const char *pem, const void *p, size_t n, struct zf_out *out, struct zf_err *err)
{
    (void)pem, (void)p, (void)n, (void)out;
    return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                   "service accounts sign with RSA, and this zerofs was built without GnuTLS "
                   "(configure --with-gnutls). GOOGLE_OAUTH_ACCESS_TOKEN works without it");
}

#endif
