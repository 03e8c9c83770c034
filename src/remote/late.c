/* SPDX-License-Identifier: Apache-2.0 */
#include "late.h"

#include <pthread.h>
#include <stdio.h>

#include <zf/base/late.h>

/* ---- libcurl --------------------------------------------------------------------------------- */

static struct late_curl late_curl_found;
static struct zf_late late_curl_lib = {.soname = CURL_SONAME};

const struct late_curl *late_curl(void)
{
    return &late_curl_found;
}

static void late_curl_begin(void)
{
    static const struct zf_late_name name[] = {
#define X(name) {"curl_" #name, &late_curl_found.name},
        LATE_CURL(X)
#undef X
    };

    zf_late_load(&late_curl_lib, name, sizeof name / sizeof name[0]);
    if (!late_curl_lib.why[0] && curl_global_init(CURL_GLOBAL_DEFAULT) != 0) {
        (void)snprintf(late_curl_lib.why, sizeof late_curl_lib.why, "%s does not start",
                       CURL_SONAME);
    }
}

bool late_curl_load(struct zf_err *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, late_curl_begin);
    return !late_curl_lib.why[0] ||
           zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                   "addresses are read with libcurl, which cannot be loaded: %s",
                   late_curl_lib.why);
}

/* ---- GnuTLS ---------------------------------------------------------------------------------- */

#ifdef HAVE_GNUTLS
static struct late_gnutls late_gnutls_found;
static struct zf_late late_gnutls_lib = {.soname = GNUTLS_SONAME};

const struct late_gnutls *late_gnutls(void)
{
    return &late_gnutls_found;
}

static void late_gnutls_begin(void)
{
    static const struct zf_late_name name[] = {
#define X(name) {"gnutls_" #name, &late_gnutls_found.name},
        LATE_GNUTLS(X)
#undef X
    };

    zf_late_load(&late_gnutls_lib, name, sizeof name / sizeof name[0]);
}

bool late_gnutls_load(struct zf_err *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, late_gnutls_begin);
    return !late_gnutls_lib.why[0] ||
           zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                   "service accounts sign with GnuTLS, which cannot be loaded: %s. "
                   "GOOGLE_OAUTH_ACCESS_TOKEN works without it",
                   late_gnutls_lib.why);
}
#endif
