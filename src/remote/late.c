/* SPDX-License-Identifier: Apache-2.0 */
#include "late.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* A function's name, and the pointer that is to lead to it. */
struct late_name {
    const char *name;
    void *at;
};

struct late_library {
    const char *soname;
    char why[240]; /* it could not be loaded; "" = it was */
};

static void late_load(struct late_library *l, const struct late_name *name, size_t n)
{
    void *lib = dlopen(l->soname, RTLD_NOW | RTLD_LOCAL);

    if (!lib) {
        const char *said = dlerror();

        (void)snprintf(l->why, sizeof l->why, "%s", said ? said : l->soname);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        void *at = dlsym(lib, name[i].name);

        if (!at) {
            (void)snprintf(l->why, sizeof l->why, "%s has no %s", l->soname, name[i].name);
            return;
        }
        memcpy(name[i].at, &at, sizeof at); /* ISO C knows no cast from an object to a function */
    }
}

/* ---- libcurl --------------------------------------------------------------------------------- */

static struct late_curl late_curl_found;
static struct late_library late_curl_lib = {.soname = CURL_SONAME};

const struct late_curl *late_curl(void)
{
    return &late_curl_found;
}

static void late_curl_begin(void)
{
    static const struct late_name name[] = {
#define X(name) {"curl_" #name, &late_curl_found.name},
        LATE_CURL(X)
#undef X
    };

    late_load(&late_curl_lib, name, sizeof name / sizeof name[0]);
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
                   "addresses are read by libcurl, which cannot be loaded: %s", late_curl_lib.why);
}

/* ---- GnuTLS ---------------------------------------------------------------------------------- */

#ifdef HAVE_GNUTLS
static struct late_gnutls late_gnutls_found;
static struct late_library late_gnutls_lib = {.soname = GNUTLS_SONAME};

const struct late_gnutls *late_gnutls(void)
{
    return &late_gnutls_found;
}

static void late_gnutls_begin(void)
{
    static const struct late_name name[] = {
#define X(name) {"gnutls_" #name, &late_gnutls_found.name},
        LATE_GNUTLS(X)
#undef X
    };

    late_load(&late_gnutls_lib, name, sizeof name / sizeof name[0]);
}

bool late_gnutls_load(struct zf_err *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, late_gnutls_begin);
    return !late_gnutls_lib.why[0] ||
           zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                   "service accounts sign by GnuTLS, which cannot be loaded: %s; "
                   "GOOGLE_OAUTH_ACCESS_TOKEN works",
                   late_gnutls_lib.why);
}
#endif
