/* SPDX-License-Identifier: Apache-2.0 */
/* Small JSON documents through jansson, behind checks it does not make: depth, size, duplicate keys, NUL,
 * trailing bytes. jansson's own types are used as they are.  What grows with the checkpoint is read by
 * zf/codec/jsonin.h. */
#ifndef ZF_CODEC_JSON_H
#define ZF_CODEC_JSON_H

#include <jansson.h>

#include <zf/base/auto.h>
#include <zf/base/err.h>
#include <zf/base/limits.h>

/* Gives a reference.  Errors: ZF_E_FORMAT with the byte; ZF_E_LIMIT json_bytes, json_depth. */
json_t *zf_json_load(const char *p, uint64_t n, const struct zf_limits *lim,
                     struct zf_err *err) ZF_CHECKED;

static inline void zf_auto_json(json_t **j)
{
    json_decref(*j);
}

/* A JSON string of any bytes, or of a text: what is no UTF-8 becomes U+FFFD.  A reference, or NULL without memory. */
json_t *zf_json_string(const char *p, size_t n);
json_t *zf_json_text(const char *p);

/* A non-negative integer; false for anything else (floats, negatives). */
bool zf_json_u64(const json_t *j, uint64_t *out) ZF_CHECKED;

#endif
