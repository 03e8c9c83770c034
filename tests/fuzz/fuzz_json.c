/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes are read as JSON by the stream reader and by jansson: both refuse them, or both find the same
 * values; and the stream reader says the same through a window of a few bytes as of the whole. */
#include <stdlib.h>
#include <string.h>

#include "codec/json/jsonin.h"
#include <zf/codec/json.h>

#include "fuzz.h"

/* What is being put together: containers that are open, the document first. */
struct tree {
    json_t *open[2048];
    char *key[2048]; /* of the entry that comes next in each */
};

/* A value that is no container. */
static json_t *scalar(struct zf_jsonin *in, enum zf_json_kind kind)
{
    size_t n;
    const char *text = zf_jsonin_text(in, &n);

    switch (kind) {
    case ZF_JSON_NULL:
        return json_null();
    case ZF_JSON_FALSE:
        return json_false();
    case ZF_JSON_TRUE:
        return json_true();
    case ZF_JSON_INTEGER:
        return json_integer(zf_jsonin_integer(in));
    case ZF_JSON_REAL:
        return json_real(zf_jsonin_real(in));
    case ZF_JSON_STRING:
        return json_stringn(text, n);
    default:
        return NULL;
    }
}

/* Takes v over. */
static void put(struct tree *t, uint32_t level, json_t *v)
{
    json_t *into = t->open[level];

    if (!v || (json_is_object(into) ? json_object_set_new(into, t->key[level], v)
                                    : json_array_append_new(into, v)) != 0)
        abort(); /* jansson takes no text that is not UTF-8, for one */
}

/* Reads an entry; returns the level at which to go on. */
static uint32_t read_entry(struct zf_jsonin *in, struct tree *t, uint32_t level)
{
    if (json_is_object(t->open[level])) {
        free(t->key[level]);
        t->key[level] = strdup(zf_jsonin_text(in, NULL));
    }
    enum zf_json_kind kind = zf_jsonin_value(in);
    if (kind == ZF_JSON_NONE)
        return level; /* it is bad */
    if (kind != ZF_JSON_OBJECT && kind != ZF_JSON_ARRAY) {
        put(t, level, scalar(in, kind));
        return level;
    }
    t->open[level + 1] = kind == ZF_JSON_OBJECT ? json_object() : json_array();
    put(t, level, json_incref(t->open[level + 1]));
    json_decref(t->open[level + 1]); /* its parent has it */
    return level + 1;
}

/* The document, or NULL. */
static json_t *read_all(struct zf_jsonin *in, struct zf_err *err)
{
    struct tree t = {.open = {NULL}};
    enum zf_json_kind kind = zf_jsonin_value(in);
    json_t *root = kind == ZF_JSON_OBJECT  ? json_object()
                   : kind == ZF_JSON_ARRAY ? json_array()
                                           : NULL;

    t.open[1] = root;
    for (uint32_t level = root ? 1 : 0; level > 0;)
        if (zf_jsonin_next(in, level))
            level = read_entry(in, &t, level);
        else
            level--;
    for (size_t i = 0; i < sizeof t.key / sizeof t.key[0]; i++)
        free(t.key[i]);
    if (zf_jsonin_end(in, err))
        return root;
    json_decref(root);
    return NULL;
}

/* Nobody asks for anything. */
static bool pass_over(const char *text, size_t n, const struct zf_limits *lim, struct zf_err *err)
{
    zf_auto(jsonin) struct zf_jsonin *in = zf_jsonin_new_text(text, n, lim, err);

    return in && zf_jsonin_end(in, err);
}

static json_t *read_narrow(const uint8_t *data, size_t n, const struct zf_limits *lim,
                           struct zf_err *err)
{
    zf_auto(source) struct zf_source *src =
        zf_mem_new("input", (void *)(uintptr_t)data, n, false, err);
    zf_auto(jsonin) struct zf_jsonin *in =
        src ? jsonin_new(src, 0, n, JSONIN_AHEAD, lim, err) : NULL;

    return in ? read_all(in, err) : NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_err err = {.code = ZF_OK}, narrow_err = {.code = ZF_OK}, pass_err = {.code = ZF_OK};
    const char *text = (const char *)data;
    json_error_t why;
    zf_auto(jsonin) struct zf_jsonin *in = zf_jsonin_new_text(text, size, &lim, &err);

    if (!in)
        return 0;
    zf_auto(json) json_t *ours = read_all(in, &err);
    zf_auto(json) json_t *narrow = read_narrow(data, size, &lim, &narrow_err);
    if (!ours != !narrow || (ours && !json_equal(ours, narrow)) || err.code != narrow_err.code ||
        err.off != narrow_err.off || strcmp(err.msg, narrow_err.msg) != 0)
        abort();
    if (pass_over(text, size, &lim, &pass_err) != (ours != NULL) || pass_err.off != err.off ||
        (!ours && (!err.msg[0] || (err.off != ZF_OFF_NONE && err.off > size))))
        abort();
    if (err.code == ZF_E_LIMIT || err.code == ZF_E_NOMEM)
        return 0;
    if (memchr(text, '\0', size)) { /* one behind a number jansson does not see (2.14) */
        if (ours)
            abort();
        return 0;
    }
    zf_auto(json) json_t *theirs = json_loadb(text, size, JSON_REJECT_DUPLICATES, &why);
    if (!ours != !theirs || (ours && !json_equal(ours, theirs)))
        abort();
    return 0;
}
