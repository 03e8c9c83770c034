/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the two halves of the reader: jsonin_token.c turns bytes into keys and scalars, jsonin.c
 * knows which of them may come next. */
#ifndef CODEC_JSON_JSONIN_H
#define CODEC_JSON_JSONIN_H

#include <zf/base/out.h>
#include <zf/base/table.h>
#include <zf/base/vec.h>
#include <zf/codec/jsonin.h>

/* The longest token that is looked at in one piece: "\ud83d\ude00". */
#define JSONIN_AHEAD 12u

/* Of a key, so that one that comes again is known: two keyed hashes, as texts that agree in 128 bits which
 * nobody can choose are the same text. */
struct jsonin_print {
    uint64_t hash[2];
};

struct jsonin_key {
    UT_hash_handle hh; /* key: the print */
};

/* An object or array that is open. */
struct jsonin_level {
    bool object, begun;      /* begun: it has an entry already */
    size_t first;            /* of its keys in `print` */
    struct jsonin_key *many; /* its keys, once they are many; uthash */
};

struct zf_jsonin {
    const unsigned char *p; /* [n] the bytes that are in memory; of these, `at` were read */
    size_t n, at;
    uint64_t base, size;   /* place of p[0] in the document, and the document's bytes */
    struct zf_source *src; /* NULL: p is all of it */
    uint64_t src_off;      /* of the document in src */
    unsigned char *window; /* [window_size], when there is a source */
    size_t window_size;

    struct zf_out text; /* the last key or string, or the digits of a number */
    int64_t integer;
    double real;

    zf_vec(struct jsonin_level) open;
    zf_vec(struct jsonin_print) print; /* of the keys of all that are open */
    bool begun, due;                   /* the document has begun; a value must come next */
    bool bad;                          /* for the reason `err` */
    uint64_t memory, most; /* what values take at most by whoever keeps them, and what they may */
    const struct zf_limits *lim;
    struct zf_err err;
};

/* zf_jsonin_new() with a window of that many bytes, JSONIN_AHEAD at least. */
struct zf_jsonin *jsonin_new(struct zf_source *src, uint64_t off, uint64_t n, size_t window,
                             const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;

/* The place of the next byte in the document. */
static inline uint64_t jsonin_place(const struct zf_jsonin *in)
{
    return in->base + in->at;
}

/* Marks the document as bad and returns false.  Only the first failure is kept. */
bool jsonin_fail(struct zf_jsonin *in, enum zf_code code, uint64_t off, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* The same, where another byte than `expected` comes next. */
bool jsonin_unexpected(struct zf_jsonin *in, const char *expected);

/* Counts memory. */
bool jsonin_charge(struct zf_jsonin *in, uint64_t bytes);

/* The next byte behind white space, which stays to be read; -1 = the document ends. */
int jsonin_peek(struct zf_jsonin *in);

/* A string from its quote on, a number, or one of the three words. */
bool jsonin_take_string(struct zf_jsonin *in);
enum zf_json_kind jsonin_take_number(struct zf_jsonin *in);
enum zf_json_kind jsonin_take_word(struct zf_jsonin *in);

#endif
