/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the two halves of the JSON reader: jsonin_token.c turns bytes into keys and scalars, jsonin.c
 * checks which of them may come next. */
#ifndef CODEC_JSON_JSONIN_H
#define CODEC_JSON_JSONIN_H

#include <zf/base/out.h>
#include <zf/base/table.h>
#include <zf/base/vec.h>
#include <zf/codec/jsonin.h>

/* Bytes of the longest token that must be in memory as a whole: "\ud83d\ude00". */
#define JSONIN_AHEAD 12u

/* A hash of a key, to find duplicates: 128 bits with a secret key, so equal hashes mean equal keys, even in
 * a crafted file. */
struct jsonin_print {
    uint64_t hash[2];
};

struct jsonin_key {
    UT_hash_handle hh; /* key: the hash */
};

/* An open object or array. */
struct jsonin_level {
    bool object, begun;      /* begun: an entry was read already */
    size_t first;            /* index of its first key in `print` */
    struct jsonin_key *many; /* hash table of its keys, if they are many; uthash */
};

struct zf_jsonin {
    const unsigned char *p; /* [n] the bytes in memory, `at` of which were consumed */
    size_t n, at;
    uint64_t base, size;   /* offset of p[0] in the document; the document's bytes */
    struct zf_source *src; /* NULL: p is the whole document */
    uint64_t src_off;      /* offset of the document in src */
    unsigned char *window; /* [window_size], only with a source */
    size_t window_size;

    struct zf_out text; /* the last key or string, or the digits of a number */
    int64_t integer;
    double real;

    zf_vec(struct jsonin_level) open;
    zf_vec(struct jsonin_print) print; /* hashes of the keys of all open objects */
    bool begun, due;                   /* the document has begun; a value must come next */
    bool bad;                          /* failed; `err` says why */
    uint64_t memory,
        most; /* upper bound of the memory for the values in the caller, and its limit */
    const struct zf_limits *lim;
    struct zf_err err;
};

/* zf_jsonin_new() with a window of that many bytes, at least JSONIN_AHEAD. */
struct zf_jsonin *jsonin_new(struct zf_source *src, uint64_t off, uint64_t n, size_t window,
                             const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;

/* The offset of the next byte in the document. */
static inline uint64_t jsonin_place(const struct zf_jsonin *in)
{
    return in->base + in->at;
}

/* Marks the document as bad and returns false.  Only the first failure is kept. */
bool jsonin_fail(struct zf_jsonin *in, enum zf_code code, uint64_t off, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Likewise, because the next byte is not `expected`. */
bool jsonin_unexpected(struct zf_jsonin *in, const char *expected);

/* Counts memory. */
bool jsonin_charge(struct zf_jsonin *in, uint64_t bytes);

/* Skips white space and returns the next byte without consuming it; -1 = the document ends. */
int jsonin_peek(struct zf_jsonin *in);

/* Consumes a string from its quote on, a number, or one of the three words. */
bool jsonin_take_string(struct zf_jsonin *in);
enum zf_json_kind jsonin_take_number(struct zf_jsonin *in);
enum zf_json_kind jsonin_take_word(struct zf_jsonin *in);

#endif
