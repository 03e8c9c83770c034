/* SPDX-License-Identifier: Apache-2.0 */
/* The structure of JSON: which token may come next.  There is no recursion: open containers are in a list,
 * and a value is skipped by reading it. */
#include "jsonin.h"

#include <string.h>

#include <zf/base/hash.h>
#include <zf/source/want.h>

/* A document of up to this size is read at once; a longer one through a window of this size. */
#define WINDOW_MAX ((size_t)1 << 20)

/* Objects with up to this many keys are searched linearly for duplicates. */
#define FEW_KEYS 16

/* An upper bound of the memory that a caller keeps per value, which is limited by the bytes on disk: for a tensor
 * or a file's part of it; for a key with its hash; for a list; for a number in one. */
enum { OBJECT_BYTES = 160, KEY_BYTES = 64, ARRAY_BYTES = 32, ITEM_BYTES = 16 };

struct zf_jsonin *jsonin_new(struct zf_source *src, uint64_t off, uint64_t n, size_t window,
                             const struct zf_limits *lim, struct zf_err *err)
{
    if (n > lim->json_bytes) {
        return zf_null(zf_fail_limit(err, ZF_LIMIT_json_bytes, 0,
                                     "JSON of %llu bytes, more than %llu (limit json_bytes)",
                                     (unsigned long long)n, (unsigned long long)lim->json_bytes));
    }
    struct zf_jsonin *in = calloc(1, sizeof *in);
    unsigned char *bytes = in && src ? malloc(window) : NULL;
    if (!in || (src && !bytes)) {
        (void)zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for %llu bytes of JSON",
                      (unsigned long long)n);
        free(in);
        return NULL;
    }
    in->src = src;
    in->src_off = off;
    in->size = n;
    in->p = in->window = bytes;
    in->window_size = window;
    in->due = true;
    in->lim = lim;
    in->most = zf_limits_meta(lim, n);
    return in;
}

struct zf_jsonin *zf_jsonin_new(struct zf_source *src, uint64_t off, uint64_t n,
                                const struct zf_limits *lim, struct zf_err *err)
{
    size_t window = n < WINDOW_MAX ? (size_t)n : WINDOW_MAX;

    if (n > WINDOW_MAX && zf_source_is_far(src)) {
        /* requests everything before the first window is read */
        zf_source_want(src, off, n, ZF_PREFETCH_ALL);
    }
    return jsonin_new(src, off, n, window > JSONIN_AHEAD ? window : JSONIN_AHEAD, lim, err);
}

struct zf_jsonin *zf_jsonin_new_text(const char *text, uint64_t n, const struct zf_limits *lim,
                                     struct zf_err *err)
{
    struct zf_jsonin *in = jsonin_new(NULL, 0, n, 0, lim, err);

    if (in) {
        in->p = (const unsigned char *)text;
        in->n = (size_t)n;
    }
    return in;
}

void zf_jsonin_free(struct zf_jsonin *in)
{
    if (!in)
        return;
    for (size_t i = 0; i < in->open.n; i++)
        zf_table_free(in->open.at[i].many);
    zf_vec_fini(&in->open);
    zf_vec_fini(&in->print);
    zf_auto_out(&in->text);
    free(in->window);
    free(in);
}

/* ---- keys ---- */

static bool jsonin_print_equal(const struct jsonin_print *a, const struct jsonin_print *b)
{
    return a->hash[0] == b->hash[0] && a->hash[1] == b->hash[1];
}

static bool jsonin_knows_key(const struct zf_jsonin *in, const struct jsonin_level *l,
                             const struct jsonin_print *key)
{
    const size_t n = in->print.n - l->first;
    const struct jsonin_print *known = n ? in->print.at + l->first : NULL;

    for (size_t k = 0; !l->many && k < n; k++)
        if (jsonin_print_equal(&known[k], key))
            return true;
    return zf_table_find(l->many, key, sizeof *key);
}

/* Remembers the key that was read; when there are too many for a linear search, puts all in a hash table. */
static bool jsonin_keep_key(struct zf_jsonin *in, struct jsonin_level *l,
                            const struct jsonin_print *key)
{
    size_t i = in->print.n;
    bool ok = true;

    if (!l->many && i - l->first < FEW_KEYS) {
        ok = zf_vec_room(&in->print, 1, &in->err);
        if (ok)
            in->print.at[in->print.n++] = *key;
    } else {
        for (i = l->many ? i : l->first; ok && i < in->print.n; i++)
            ok = zf_table_make(l->many, &in->print.at[i], sizeof *key, &in->err);
        ok = ok && zf_table_make(l->many, key, sizeof *key, &in->err);
    }
    in->bad = in->bad || !ok;
    return ok;
}

static bool jsonin_take_key(struct zf_jsonin *in, struct jsonin_level *l)
{
    uint64_t place = jsonin_place(in);

    if (!jsonin_take_string(in) || !jsonin_charge(in, KEY_BYTES + in->text.n))
        return false;
    const char *text = zf_out_text(&in->text);
    struct jsonin_print key = {{zf_hash(0, text, in->text.n), zf_hash(1, text, in->text.n)}};
    if (jsonin_knows_key(in, l, &key))
        return jsonin_fail(in, ZF_E_FORMAT, place, "duplicate object key \"%.80s\"", text);
    return jsonin_keep_key(in, l, &key);
}

/* ---- structure ---- */

static enum zf_json_kind jsonin_open(struct zf_jsonin *in, bool object)
{
    if (in->open.n >= in->lim->json_depth) {
        if (!in->bad)
            (void)zf_fail_limit(&in->err, ZF_LIMIT_json_depth, jsonin_place(in),
                                "JSON nested deeper than %llu levels (limit json_depth)",
                                (unsigned long long)in->lim->json_depth);
        in->bad = true;
        return ZF_JSON_NONE;
    }
    struct jsonin_level *l = zf_vec_push(&in->open, &in->err);
    if (!l) {
        in->bad = true;
        return ZF_JSON_NONE;
    }
    l->object = object;
    l->first = in->print.n;
    in->at++;
    if (!jsonin_charge(in, object ? OBJECT_BYTES : ARRAY_BYTES))
        return ZF_JSON_NONE;
    return object ? ZF_JSON_OBJECT : ZF_JSON_ARRAY;
}

static void jsonin_close(struct zf_jsonin *in)
{
    struct jsonin_level *l = &in->open.at[--in->open.n];

    in->at++;
    in->print.n = l->first;
    zf_table_free(l->many);
}

/* Moves to the next entry of the innermost container; false = its end, or an error. */
static bool jsonin_step(struct zf_jsonin *in)
{
    struct jsonin_level *l = &in->open.at[in->open.n - 1];
    bool object = l->object, begun = l->begun;
    int c = jsonin_peek(in);

    if (c == (object ? '}' : ']')) {
        jsonin_close(in);
        return false;
    }
    if (begun && c != ',')
        return jsonin_unexpected(in, object ? "',' or '}'" : "',' or ']'");
    in->at += begun;
    l->begun = true;
    if (!object) {
        in->due = jsonin_charge(in, ITEM_BYTES);
        return in->due;
    }
    if (jsonin_peek(in) != '"')
        return jsonin_unexpected(in, begun ? "a key" : "a key or '}'");
    if (!jsonin_take_key(in, l))
        return false;
    if (jsonin_peek(in) != ':')
        return jsonin_unexpected(in, "':'");
    in->at++;
    in->due = true;
    return true;
}

enum zf_json_kind zf_jsonin_value(struct zf_jsonin *in)
{
    int c = in->due && !in->bad ? jsonin_peek(in) : -1;

    if (!in->due || in->bad)
        return ZF_JSON_NONE;
    in->due = false;
    if (c == '{' || c == '[')
        return jsonin_open(in, c == '{');
    if (in->open.n == 0) { /* a string or number alone, which is never metadata */
        (void)jsonin_unexpected(in, "'{' or '['");
        return ZF_JSON_NONE;
    }
    if (c == '"') {
        return jsonin_take_string(in) && jsonin_charge(in, in->text.n) ? ZF_JSON_STRING
                                                                       : ZF_JSON_NONE;
    }
    return c == '-' || (c >= '0' && c <= '9') ? jsonin_take_number(in) : jsonin_take_word(in);
}

/* Skips a value that is due, and the rest of containers until only `level` are open. */
static void jsonin_pass(struct zf_jsonin *in, size_t level)
{
    while (!in->bad && (in->due || in->open.n > level))
        if (in->due)
            (void)zf_jsonin_value(in);
        else
            (void)jsonin_step(in);
}

bool zf_jsonin_next(struct zf_jsonin *in, uint32_t level)
{
    if (level == 0 || in->open.n < level)
        return false;
    jsonin_pass(in, level);
    return !in->bad && jsonin_step(in);
}

bool zf_jsonin_end(struct zf_jsonin *in, struct zf_err *err)
{
    jsonin_pass(in, 0);
    if (!in->bad && jsonin_peek(in) >= 0)
        (void)jsonin_unexpected(in, "the end");
    if (in->bad)
        *err = in->err;
    return !in->bad;
}

/* ---- values ---- */

uint32_t zf_jsonin_enter(struct zf_jsonin *in, enum zf_json_kind kind)
{
    bool container = kind == ZF_JSON_OBJECT || kind == ZF_JSON_ARRAY;

    return zf_jsonin_value(in) == kind && container ? zf_jsonin_level(in) : 0;
}

uint32_t zf_jsonin_level(const struct zf_jsonin *in)
{
    return (uint32_t)in->open.n;
}

const char *zf_jsonin_text(const struct zf_jsonin *in, size_t *n_out)
{
    if (n_out)
        *n_out = in->text.n;
    return zf_out_text(&in->text);
}

bool zf_jsonin_is(const struct zf_jsonin *in, const char *text)
{
    return in->text.n == strlen(text) && memcmp(zf_out_text(&in->text), text, in->text.n) == 0;
}

int64_t zf_jsonin_integer(const struct zf_jsonin *in)
{
    return in->integer;
}

double zf_jsonin_real(const struct zf_jsonin *in)
{
    return in->real;
}

bool zf_jsonin_u64(struct zf_jsonin *in, uint64_t *out)
{
    if (zf_jsonin_value(in) != ZF_JSON_INTEGER || in->integer < 0)
        return false;
    *out = (uint64_t)in->integer;
    return true;
}

bool zf_jsonin_string(struct zf_jsonin *in)
{
    return zf_jsonin_value(in) == ZF_JSON_STRING;
}
