/* SPDX-License-Identifier: Apache-2.0 */
/* A streaming JSON reader: the caller asks for one value after the other; only a window of the document and, for open
 * objects, a hash of each key are in memory.  For metadata, whose size depends on the checkpoint; for small documents,
 * zf/codec/json.h is easier to use.
 *
 *     uint32_t top = zf_jsonin_enter(in, ZF_JSON_OBJECT);
 *     while (zf_jsonin_next(in, top)) {           // a key of it
 *         if (zf_jsonin_is(in, "shape")) { … }    // and its value, if anybody wants it
 *     }
 *     return zf_jsonin_end(in, err);              // did all of that hold?
 *
 * Strict: RFC 8259 with valid UTF-8, no key twice in an object, no "\u0000", integers that fit
 * int64_t (they never pass through a double), an object or array at the top, nothing after it. */
#ifndef ZF_CODEC_JSONIN_H
#define ZF_CODEC_JSONIN_H

#include <zf/base/auto.h>
#include <zf/base/limits.h>
#include <zf/source/source.h>

enum zf_json_kind {
    ZF_JSON_NONE, /* there is no value here, or the document is invalid */
    ZF_JSON_NULL,
    ZF_JSON_FALSE,
    ZF_JSON_TRUE,
    ZF_JSON_INTEGER,
    ZF_JSON_REAL,
    ZF_JSON_STRING,
    ZF_JSON_OBJECT,
    ZF_JSON_ARRAY,
};

struct zf_jsonin;

/* Makes a reader of bytes [off, off + n) of src, which is borrowed.  Errors: ZF_E_LIMIT json_bytes; ZF_E_NOMEM. */
struct zf_jsonin *zf_jsonin_new(struct zf_source *src, uint64_t off, uint64_t n,
                                const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;
/* The same for text[n] in memory, which is borrowed. */
struct zf_jsonin *zf_jsonin_new_text(const char *text, uint64_t n, const struct zf_limits *lim,
                                     struct zf_err *err) ZF_CHECKED;
void zf_jsonin_free(struct zf_jsonin *in);

static inline void zf_auto_jsonin(struct zf_jsonin **in)
{
    zf_jsonin_free(*in);
}

/* Reads the next value: the document, or the value of the key or item to which zf_jsonin_next() moved.  For an object
 * or array, only its opening bracket. */
enum zf_json_kind zf_jsonin_value(struct zf_jsonin *in);

/* Reads the next value.  If it is a container of that kind, returns the number of containers that are now open,
 * including this one; 0 = it is something else. */
uint32_t zf_jsonin_enter(struct zf_jsonin *in, enum zf_json_kind kind);

/* The number of open containers; after reading a container, its level. */
uint32_t zf_jsonin_level(const struct zf_jsonin *in);

/* Moves to the next entry of the container of that level; in an object, zf_jsonin_text is then its key.  Skips what was
 * not read of the previous entry.  False: there are no more (the container is closed), level is 0, or the document is
 * invalid. */
bool zf_jsonin_next(struct zf_jsonin *in, uint32_t level);

/* The last key or string, terminated; borrowed until the next call that reads.  n_out may be NULL. */
const char *zf_jsonin_text(const struct zf_jsonin *in, size_t *n_out);
/* True if the last key or string equals `text`. */
bool zf_jsonin_is(const struct zf_jsonin *in, const char *text);
/* The last number, if it was a ZF_JSON_INTEGER, or a ZF_JSON_REAL. */
int64_t zf_jsonin_integer(const struct zf_jsonin *in);
double zf_jsonin_real(const struct zf_jsonin *in);

/* Reads the next value; true if it is a non-negative integer. */
bool zf_jsonin_u64(struct zf_jsonin *in, uint64_t *out) ZF_CHECKED;
/* Reads the next value; true if it is a string. */
bool zf_jsonin_string(struct zf_jsonin *in) ZF_CHECKED;

/* Skips the rest; true if the document is valid, and *err is unchanged.  If not, *err is replaced by the reason:
 * earlier errors, caused by values of an invalid document, do not matter.
 * Errors: ZF_E_FORMAT with the byte offset in the document (not in the source); ZF_E_LIMIT json_depth, meta_memory;
 * those of the source; ZF_E_NOMEM. */
bool zf_jsonin_end(struct zf_jsonin *in, struct zf_err *err) ZF_CHECKED;

#endif
