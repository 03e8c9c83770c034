/* SPDX-License-Identifier: Apache-2.0 */
/* The versions of the libraries that are loaded, which may be newer than those that were built with. */
#include "config.h"

#include <zf/codec/version.h>

#include <stdio.h>

#include <zf/codec/zarr.h>

#include <jansson.h>
#include <zip.h>
#include <zlib.h>

#ifdef HAVE_ZSTD
#include <zstd.h>
#endif
#ifdef HAVE_LZ4
#include <lz4.h>
#endif
#ifdef HAVE_YAML
#include <yaml.h>
#endif

static void version_add_blosc(struct zf_out *o)
{
    const char *why = "", *version = zf_zarr_blosc_version(&why);
    char without[320];

    (void)snprintf(without, sizeof without, "no chunks compressed by blosc: %s", why);
    zf_version_add(o, "c-blosc", version, without);
}

void zf_codec_versions(struct zf_out *o)
{
    const char *zstd = NULL, *lz4 = NULL, *yaml = NULL;

#ifdef HAVE_ZSTD
    zstd = ZSTD_versionString();
#endif
#ifdef HAVE_LZ4
    lz4 = LZ4_versionString();
#endif
#ifdef HAVE_YAML
    yaml = yaml_get_version_string();
#endif
    zf_version_add(o, "libzip", zip_libzip_version(), NULL);
    zf_version_add(o, "zlib", zlibVersion(), NULL);
    zf_version_add(o, "jansson", jansson_version_str(), NULL);
    zf_version_add(o, "libzstd", zstd, "no items or chunks compressed by zstd");
    version_add_blosc(o);
    zf_version_add(o, "liblz4", lz4, "no chunks compressed by lz4");
    zf_version_add(o, "libyaml", yaml, "no sizes from settings in YAML");
}
