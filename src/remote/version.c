/* SPDX-License-Identifier: Apache-2.0 */
/* The libraries that addresses need. */
#include "config.h"

#include <zf/remote.h>

#include <stdio.h>

#include <zf/base/version.h>

#include "libraries.h"
#ifdef HAVE_EXPAT
#include <expat.h>
#endif

#define VERSION_NO_CURL "no checkpoints behind addresses"

static void version_add_curl(struct zf_out *o)
{
    struct zf_err err;

    if (!lib_curl_load(&err)) {
        char text[sizeof err.msg + sizeof VERSION_NO_CURL + 2];

        (void)snprintf(text, sizeof text, VERSION_NO_CURL ": %s", err.msg);
        zf_version_add(o, "libcurl", NULL, text);
        return;
    }
    const curl_version_info_data *curl = curl_version_info(CURLVERSION_NOW);
    char text[160];

    (void)snprintf(text, sizeof text, "%s (%s)", curl->version,
                   curl->ssl_version ? curl->ssl_version : "without TLS");
    zf_version_add(o, "libcurl", text, NULL);
}

void zf_remote_versions(struct zf_out *o)
{
    const char *expat = NULL, *gnutls = NULL;

#ifdef HAVE_EXPAT
    expat = XML_ExpatVersion();
    expat += strncmp(expat, "expat_", 6) == 0 ? 6 : 0;
#endif
#ifdef HAVE_GNUTLS
    struct zf_err err;

    gnutls = lib_gnutls_load(&err) ? lib_gnutls()->check_version(NULL) : NULL;
#endif
    version_add_curl(o);
    zf_version_add(o, "expat", expat, "no listings of buckets");
    zf_version_add(o, "GnuTLS", gnutls, "no keys of service accounts");
}
