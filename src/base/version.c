/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <zf/base/version.h>

#include <stdio.h>

#include <nettle/version.h>

#include <zf/base/pattern.h>

#ifdef HAVE_DEFLATE
#include <libdeflate.h>
#endif

void zf_version_add(struct zf_out *o, const char *name, const char *version, const char *without)
{
    zf_out_str(o, name);
    zf_out_str(o, version ? " " : " missing: ");
    zf_out_str(o, version ? version : without);
    zf_out_u8(o, '\n');
}

void zf_base_versions(struct zf_out *o)
{
    char nettle[32];
    const char *deflate = NULL;

#ifdef HAVE_DEFLATE
    deflate = LIBDEFLATE_VERSION_STRING; /* it says none when it runs */
#endif

    (void)snprintf(nettle, sizeof nettle, "%d.%d", nettle_version_major(), nettle_version_minor());
    zf_version_add(o, "nettle", nettle, NULL);
    zf_version_add(o, "PCRE2", zf_pattern_version(), NULL);
    zf_version_add(o, "libdeflate", deflate, "CRC-32 at the speed of zlib");
}
