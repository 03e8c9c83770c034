/* SPDX-License-Identifier: Apache-2.0 */
/* Reports the settings in a YAML document one by one, from libyaml's events: no tree is built, aliases are not followed
 * and tags are ignored, so that a small document cannot use much memory. */
#ifndef ZF_CODEC_YAML_H
#define ZF_CODEC_YAML_H

#include <zf/base/err.h>
#include <zf/base/limits.h>

/* One scalar that is no key. */
struct zf_yaml_scalar {
    /* Keys and positions from the root, joined by dots; "?" for a key that contains a dot or zero byte, is empty, or is
     * no text.  The same path may occur twice. */
    const char *path;
    const char *value; /* terminated; may hold zero bytes */
    size_t value_len;
    bool plain; /* without quotes: it may be a number, true or null */
};
/* Texts are valid until it returns.  False stops reading, with err set. */
typedef bool zf_yaml_fn(void *ctx, const struct zf_yaml_scalar *s, struct zf_err *err);

/* True if zerofs was built with libyaml. */
bool zf_yaml_here(void);

/* Reports every scalar of the one document in text[n].
 * Errors: ZF_E_FORMAT no YAML (line and column), or more than one document; ZF_E_LIMIT json_bytes,
 * json_depth, which count for YAML as well; ZF_E_UNSUPPORTED built without libyaml. */
bool zf_yaml_scalars(const char *text, size_t n, const struct zf_limits *lim, zf_yaml_fn *fn,
                     void *ctx, struct zf_err *err) ZF_CHECKED;

#endif
