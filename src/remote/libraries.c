/* SPDX-License-Identifier: Apache-2.0 */
#include "libraries.h"

#include <pthread.h>
#include <stdio.h>

#include <zf/base/library.h>

/* ---- libcurl --------------------------------------------------------------------------------- */

static struct lib_curl lib_curl_found;
static struct zf_library lib_curl_file = {.soname = CURL_SONAME};

const struct lib_curl *lib_curl(void)
{
    return &lib_curl_found;
}

static void lib_curl_begin(void)
{
    static const struct zf_library_symbol name[] = {
#define X(name) {"curl_" #name, &lib_curl_found.name},
        CURL_FUNCTIONS(X)
#undef X
    };

    zf_library_load(&lib_curl_file, name, sizeof name / sizeof name[0]);
    if (!lib_curl_file.why[0] && curl_global_init(CURL_GLOBAL_DEFAULT) != 0) {
        (void)snprintf(lib_curl_file.why, sizeof lib_curl_file.why, "%s does not start",
                       CURL_SONAME);
    }
}

bool lib_curl_load(struct zf_err *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, lib_curl_begin);
    return !lib_curl_file.why[0] ||
           zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                   "addresses are read with libcurl, which cannot be loaded: %s",
                   lib_curl_file.why);
}

/* ---- GnuTLS ---------------------------------------------------------------------------------- */

#ifdef HAVE_GNUTLS
static struct lib_gnutls lib_gnutls_found;
static struct zf_library lib_gnutls_file = {.soname = GNUTLS_SONAME};

const struct lib_gnutls *lib_gnutls(void)
{
    return &lib_gnutls_found;
}

static void lib_gnutls_begin(void)
{
    static const struct zf_library_symbol name[] = {
#define X(name) {"gnutls_" #name, &lib_gnutls_found.name},
        GNUTLS_FUNCTIONS(X)
#undef X
    };

    zf_library_load(&lib_gnutls_file, name, sizeof name / sizeof name[0]);
}

bool lib_gnutls_load(struct zf_err *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, lib_gnutls_begin);
    return !lib_gnutls_file.why[0] ||
           zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                   "service accounts sign with GnuTLS, which cannot be loaded: %s. "
                   "GOOGLE_OAUTH_ACCESS_TOKEN works without it",
                   lib_gnutls_file.why);
}
#endif
