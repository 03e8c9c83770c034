/* SPDX-License-Identifier: Apache-2.0 */
/* The libraries of the codecs, for --version. */
#ifndef ZF_CODEC_VERSION_H
#define ZF_CODEC_VERSION_H

#include <zf/base/version.h>

/* Adds the libraries that codecs use. */
void zf_codec_versions(struct zf_out *o);

#endif
