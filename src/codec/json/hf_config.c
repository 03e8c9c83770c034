/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the dtypes in a config.json.  The text is scanned without a parser, because replacing a value
 * must keep every other byte, and because jansson refuses what Python writes and reads: Infinity (Mamba's
 * time_step_limit), NaN, integers of any length, duplicate keys.  The scan needs only strings, brackets,
 * colons and commas; a text with an unclosed bracket or string has no result.
 *
 * Configurations are nested: `chain` counts the outermost levels that are configurations.  Where
 * depth == chain, the scan is inside one; anything deeper (lists, quantization settings) is skipped.  A
 * "dtype" may be an object that maps parts to types: then every string in it counts. */
#include <zf/codec/hf_config.h>

#include <string.h>

struct hf_config_walk {
    const char *p;
    uint64_t at, n;
    uint64_t depth, chain;
    bool in_map;     /* depth == chain + 1 inside the object that is a "dtype" */
    bool want_value; /* after a key's colon, at the current level */
    struct {
        const char *p;
        uint64_t n;
    } key;
    struct zf_hf_dtype *out;
    uint32_t found;
    bool bad; /* not JSON, or too many values */
};

static bool hf_config_key_is(const struct hf_config_walk *w, const char *word)
{
    return w->key.n == strlen(word) && memcmp(w->key.p, word, w->key.n) == 0;
}

static bool hf_config_key_is_dtype(const struct hf_config_walk *w)
{
    return hf_config_key_is(w, "dtype") || hf_config_key_is(w, "torch_dtype");
}

/* Is the key's value the configuration of a part?  quantization_config has types of its own, which a
 * cast does not change. */
static bool hf_config_key_is_config(const struct hf_config_walk *w)
{
    static const char *const parts[] = {"encoder",          "decoder",       "text_encoder",
                                        "question_encoder", "audio_encoder", "generator"};
    static const char tail[] = "_config";
    const uint64_t len = sizeof tail - 1;

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (hf_config_key_is(w, parts[i]))
            return true;
    return w->key.n > len && memcmp(w->key.p + w->key.n - len, tail, len) == 0 &&
           !hf_config_key_is(w, "quantization_config") &&
           !hf_config_key_is(w, "compression_config");
}

/* Records the value at [off, off + len) if it is a floating-point type, or null. */
static void hf_config_take(struct hf_config_walk *w, uint64_t off, uint64_t len)
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
        if (!v.known || zf_dtype_info(v.dtype)->kind != 'f')
            return; /* "auto" */
    }
    if (w->found == ZF_HF_DTYPES) {
        w->bad = true;
        return;
    }
    w->out[w->found++] = v;
}

static bool hf_config_is_looked_at(const struct hf_config_walk *w)
{
    return w->depth > 0 && (w->depth == w->chain || (w->in_map && w->depth == w->chain + 1));
}

/* Handles a string; w->at moves past it. */
static void hf_config_step_string(struct hf_config_walk *w)
{
    uint64_t off = w->at++;

    while (w->at < w->n && w->p[w->at] != '"')
        w->at += w->p[w->at] == '\\' ? 2 : 1;
    w->at++;
    w->bad = w->bad || w->at > w->n;
    if (w->bad || !hf_config_is_looked_at(w))
        return;
    if (!w->want_value) {
        if (!w->in_map) {
            w->key.p = w->p + off + 1;
            w->key.n = w->at - off - 2;
        }
    } else if (w->in_map || hf_config_key_is_dtype(w)) {
        hf_config_take(w, off, w->at - off);
    }
}

static void hf_config_step_open(struct hf_config_walk *w, char bracket)
{
    bool here = hf_config_is_looked_at(w) && !w->in_map && w->want_value && bracket == '{';

    if (w->depth == 0 && bracket == '{')
        w->chain = 1;
    else if (here && hf_config_key_is_dtype(w))
        w->in_map = true;
    else if (here && hf_config_key_is_config(w))
        w->chain++;
    w->depth++;
    w->want_value = false;
}

static void hf_config_step_close(struct hf_config_walk *w)
{
    if (w->depth == 0) {
        w->bad = true;
        return;
    }
    if (w->in_map && w->depth == w->chain + 1)
        w->in_map = false;
    else if (w->depth == w->chain)
        w->chain--;
    w->depth--;
}

/* Is this a null in place of a type? */
static bool hf_config_is_no_type(const struct hf_config_walk *w)
{
    return hf_config_is_looked_at(w) && w->want_value && !w->in_map && hf_config_key_is_dtype(w) &&
           w->n - w->at >= 4 && memcmp(w->p + w->at, "null", 4) == 0;
}

static void hf_config_step(struct hf_config_walk *w)
{
    char c = w->p[w->at];

    if (c == '"') {
        hf_config_step_string(w);
        return;
    }
    if (c == '{' || c == '[') {
        hf_config_step_open(w, c);
    } else if (c == '}' || c == ']') {
        hf_config_step_close(w);
    } else if (hf_config_is_looked_at(w) && (c == ':' || c == ',')) {
        w->want_value = c == ':';
    } else if (hf_config_is_no_type(w)) {
        hf_config_take(w, w->at, 4);
        w->at += 3;
    }
    w->at++;
}

static void hf_config_skip_space(struct hf_config_walk *w)
{
    while (w->at < w->n && w->p[w->at] && strchr(" \t\r\n", w->p[w->at]))
        w->at++;
}

uint32_t zf_hf_config_dtypes(const char *p, uint64_t n, struct zf_hf_dtype out[ZF_HF_DTYPES])
{
    struct hf_config_walk w = {.p = p, .n = n, .out = out};

    hf_config_skip_space(&w);
    if (w.at == n || p[w.at] != '{')
        return 0;
    do {
        hf_config_step(&w);
    } while (!w.bad && w.depth > 0 && w.at < n);
    hf_config_skip_space(&w);
    return w.bad || w.depth > 0 || w.at < n ? 0 : w.found;
}
