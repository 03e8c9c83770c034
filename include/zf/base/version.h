/* SPDX-License-Identifier: Apache-2.0 */
/* The libraries in use, one per line: "libzip 1.7.3", or "libyaml missing: no sizes from settings in YAML". */
#ifndef ZF_BASE_VERSION_H
#define ZF_BASE_VERSION_H

#include <zf/base/out.h>

/* Adds the line of a library; version NULL: it is missing; `without` says what that means. */
void zf_version_add(struct zf_out *o, const char *name, const char *version, const char *without);

/* Adds the libraries that base uses. */
void zf_base_versions(struct zf_out *o);

#endif
