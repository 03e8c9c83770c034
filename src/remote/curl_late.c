/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "curl_late.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static struct curl_late curl_late_found;

const struct curl_late *curl_late(void)
{
    return &curl_late_found;
}

/* Why it could not be loaded; "" = it was. */
static char curl_late_why[240];

static bool curl_late_find(void *lib, const char *name, void *function)
{
    void *at = dlsym(lib, name);

    if (!at) {
        (void)snprintf(curl_late_why, sizeof curl_late_why, "%s has no %s", CURL_SONAME, name);
        return false;
    }
    memcpy(function, &at, sizeof at); /* ISO C knows no cast from an object to a function */
    return true;
}

static void curl_late_begin(void)
{
    void *lib = dlopen(CURL_SONAME, RTLD_NOW | RTLD_LOCAL);

    if (!lib) {
        const char *said = dlerror();

        (void)snprintf(curl_late_why, sizeof curl_late_why, "%s", said ? said : CURL_SONAME);
        return;
    }
#define X(name)                                                                                    \
    if (!curl_late_find(lib, "curl_" #name, &curl_late_found.name)) {                              \
        return;                                                                                    \
    }
    CURL_LATE(X)
#undef X
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != 0) {
        (void)snprintf(curl_late_why, sizeof curl_late_why, "%s does not start", CURL_SONAME);
    }
}

bool curl_late_load(struct zf_err *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, curl_late_begin);
    return !curl_late_why[0] ||
           zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                   "addresses are read by libcurl, which cannot be loaded: %s", curl_late_why);
}
