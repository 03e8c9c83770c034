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
#include <zf/source/source.h>

/* Returns a reference.  Errors: ZF_E_FORMAT with the byte; ZF_E_LIMIT json_bytes, json_depth. */
json_t *zf_json_load(const char *p, uint64_t n, const struct zf_limits *lim,
                     struct zf_err *err) ZF_CHECKED;

static inline void zf_auto_json(json_t **j)
{
    json_decref(*j);
}

/* *out: the brackets and strings of the file end where it does, and there is something in it.  False for a file that was
 * cut short or filled with zeros; the values themselves are not checked, so Python's NaN passes.
 * Errors: those of reading; ZF_E_NOMEM. */
bool zf_json_is_whole(struct zf_source *src, bool *out, struct zf_err *err) ZF_CHECKED;

/* Makes a JSON string of any bytes, or of a text; invalid UTF-8 becomes U+FFFD.  A reference, or NULL if memory ran
 * out. */
json_t *zf_json_string(const char *p, size_t n);
json_t *zf_json_text(const char *p);

/* Reads a non-negative integer; false for anything else (floats, negatives). */
bool zf_json_u64(const json_t *j, uint64_t *out) ZF_CHECKED;

#endif
