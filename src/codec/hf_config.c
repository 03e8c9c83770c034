/* SPDX-License-Identifier: Apache-2.0 */
/* The document is parsed once by jansson, which proves that it is sound and has no key twice, and
 * then walked as text, because a value that is replaced must leave every other byte as it was and
 * jansson keeps no offsets.  On sound JSON a walk needs to know only strings, brackets, colons and
 * commas.
 *
 * Configurations nest: `chain` counts the levels from the outermost that are configurations, so
 * where depth == chain the walk stands in one, and everything deeper (lists, quantization settings)
 * is passed over.  A "dtype" may itself be an object, from part to type: then every text in it
 * counts. */
#include <zf/codec/hf_config.h>

#include <string.h>

#include <zf/codec/json.h>

struct walk {
    const char *p;
    uint64_t at, n;
    uint64_t depth, chain;
    bool in_map;     /* depth == chain + 1 inside the object that is a "dtype" */
    bool want_value; /* behind a key's colon, at the level that is looked at */
    struct {
        const char *p;
        uint64_t n;
    } key;
    struct zf_hf_dtype *out;
    uint32_t found;
    bool full;
};

static bool key_is(const struct walk *w, const char *word)
{
    return w->key.n == strlen(word) && memcmp(w->key.p, word, w->key.n) == 0;
}

static bool key_is_dtype(const struct walk *w)
{
    return key_is(w, "dtype") || key_is(w, "torch_dtype");
}

/* Does the key lead to the configuration of a part?  quantization_config tells about types of its
 * own, which a cast does not change. */
static bool key_is_config(const struct walk *w)
{
    static const char *const parts[] = {"encoder",          "decoder",       "text_encoder",
                                        "question_encoder", "audio_encoder", "generator"};
    static const char tail[] = "_config";
    const uint64_t len = sizeof tail - 1;

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (key_is(w, parts[i])) {
            return true;
        }
    }
    return w->key.n > len && memcmp(w->key.p + w->key.n - len, tail, len) == 0 &&
           !key_is(w, "quantization_config") && !key_is(w, "compression_config");
}

/* Keeps the value at [off, off + len) when it names a floating type, or none. */
static void take(struct walk *w, uint64_t off, uint64_t len)
{
    static const char prefix[] = "torch.";
    const char *name = w->p + off + 1;
    uint64_t n = len - 2, skip = sizeof prefix - 1;
    struct zf_hf_dtype v = {.off = off, .len = len, .top = w->depth == 1};

    if (w->p[off] == '"') {
        if (n > skip && memcmp(name, prefix, skip) == 0) {
            name += skip;
            n -= skip;
        }
        v.known = zf_dtype_by_torch(name, n, &v.dtype);
        if (!v.known || zf_dtype_info(v.dtype)->kind != 'f') {
            return; /* "auto" */
        }
    }
    if (w->found == ZF_HF_DTYPES) {
        w->full = true;
        return;
    }
    w->out[w->found++] = v;
}

static bool is_looked_at(const struct walk *w)
{
    return w->depth > 0 && (w->depth == w->chain || (w->in_map && w->depth == w->chain + 1));
}

/* A string, whose end is found; w->at moves behind it. */
static void step_string(struct walk *w)
{
    uint64_t off = w->at++;

    while (w->at < w->n && w->p[w->at] != '"') {
        w->at += w->p[w->at] == '\\' ? 2 : 1;
    }
    w->at++;
    if (w->at > w->n || !is_looked_at(w)) {
        return;
    }
    if (!w->want_value) {
        if (!w->in_map) {
            w->key.p = w->p + off + 1;
            w->key.n = w->at - off - 2;
        }
    } else if (w->in_map || key_is_dtype(w)) {
        take(w, off, w->at - off);
    }
}

static void step_open(struct walk *w, char bracket)
{
    bool here = is_looked_at(w) && !w->in_map && w->want_value && bracket == '{';

    if (w->depth == 0 && bracket == '{') {
        w->chain = 1;
    } else if (here && key_is_dtype(w)) {
        w->in_map = true;
    } else if (here && key_is_config(w)) {
        w->chain++;
    }
    w->depth++;
    w->want_value = false;
}

static void step_close(struct walk *w)
{
    if (w->in_map && w->depth == w->chain + 1) {
        w->in_map = false;
    } else if (w->depth == w->chain) {
        w->chain--;
    }
    w->depth--;
}

static void step(struct walk *w)
{
    char c = w->p[w->at];

    if (c == '"') {
        step_string(w);
        return;
    }
    if (c == '{' || c == '[') {
        step_open(w, c);
    } else if (c == '}' || c == ']') {
        step_close(w);
    } else if (is_looked_at(w) && (c == ':' || c == ',')) {
        w->want_value = c == ':';
    } else if (c == 'n' && is_looked_at(w) && w->want_value && !w->in_map && key_is_dtype(w)) {
        take(w, w->at, 4);
        w->at += 3;
    }
    w->at++;
}

uint32_t zf_hf_config_dtypes(const char *p, uint64_t n, const struct zf_limits *lim,
                             struct zf_hf_dtype out[ZF_HF_DTYPES])
{
    struct zf_err ignored = {.code = ZF_OK};
    zf_auto(json) json_t *sound = zf_json_load(p, n, lim, &ignored);
    struct walk w = {.p = p, .n = n, .out = out};

    if (!json_is_object(sound)) {
        return 0;
    }
    while (w.at < w.n) {
        step(&w);
    }
    return w.full ? 0 : w.found;
}
