/* SPDX-License-Identifier: Apache-2.0 */
/* The settings in a YAML document, one after the other, through libyaml's events: no tree is built, no
 * alias is followed, no tag is believed, so that a small document stays small. */
#ifndef ZF_CODEC_YAML_H
#define ZF_CODEC_YAML_H

#include <zf/base/err.h>
#include <zf/base/limits.h>

/* One scalar that is no key. */
struct zf_yaml_scalar {
    /* Keys and positions from the root, joined by dots; "?" for a key that holds a dot or a zero byte,
     * is empty, or is no text.  The same path may come twice. */
    const char *path;
    const char *value; /* terminated; may hold zero bytes */
    size_t value_len;
    bool plain; /* without quotes: may be meant as a number, true, null */
};
/* Texts are good until it returns.  False = err is set, reading ends. */
typedef bool zf_yaml_fn(void *ctx, const struct zf_yaml_scalar *s, struct zf_err *err);

/* True where zerofs was built with libyaml. */
bool zf_yaml_here(void);

/* Reports every scalar of the one document in text[n].
 * Errors: ZF_E_FORMAT no YAML (line and column), or more than one document; ZF_E_LIMIT json_bytes,
 * json_depth, which count for YAML as well; ZF_E_UNSUPPORTED built without libyaml. */
bool zf_yaml_scalars(const char *text, size_t n, const struct zf_limits *lim, zf_yaml_fn *fn,
                     void *ctx, struct zf_err *err) ZF_CHECKED;

#endif
