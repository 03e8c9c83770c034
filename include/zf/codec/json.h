/* SPDX-License-Identifier: Apache-2.0 */
/* Small JSON documents, read with jansson after checks that it does not make: depth, size, duplicate keys, NUL,
 * trailing bytes.  jansson's own types are used.  Documents that grow with the checkpoint are read by
 * zf/codec/jsonin.h. */
#ifndef ZF_CODEC_JSON_H
#define ZF_CODEC_JSON_H

#include <jansson.h>

#include <zf/base/auto.h>
#include <zf/base/err.h>
#include <zf/base/limits.h>

/* Returns a reference.  Errors: ZF_E_FORMAT with the byte; ZF_E_LIMIT json_bytes, json_depth. */
json_t *zf_json_load(const char *p, uint64_t n, const struct zf_limits *lim,
                     struct zf_err *err) ZF_CHECKED;

static inline void zf_auto_json(json_t **j)
{
    json_decref(*j);
}

/* Makes a JSON string of any bytes, or of a text; invalid UTF-8 becomes U+FFFD.  A reference, or NULL if memory ran
 * out. */
json_t *zf_json_string(const char *p, size_t n);
json_t *zf_json_text(const char *p);

/* Reads a non-negative integer; false for anything else (floats, negatives). */
bool zf_json_u64(const json_t *j, uint64_t *out) ZF_CHECKED;

#endif
