/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/assemble/llama.h>

#include <stdlib.h>
#include <string.h>

#include <zf/assemble/degraded.h>
#include <zf/codec/json.h>

#define PARAMS "params.json"

/* Expected size of each dimension of a parameter, by the model's configuration (dim, heads, vocabulary). */
enum llama_extent {
    LLAMA_MODEL,
    LLAMA_QUERY,
    LLAMA_KEY,
    LLAMA_VOCABULARY,
    LLAMA_ANY, /* feed-forward width and rotary frequencies: not in the configuration */
};

/* Sharded along the model's width by Llama 1 and 2, along the vocabulary by Llama 3. */
#define LLAMA_EITHER 2u

struct llama_known {
    const char *name; /* if `layer`, without "layers.N." */
    bool layer;
    uint32_t ndim;
    enum llama_extent extent[2];
    enum zf_cut_kind kind;
    uint32_t dim;
};

static const struct llama_known llama_table[] = {
    {"attention.wq.weight", true, 2, {LLAMA_QUERY, LLAMA_MODEL}, ZF_CUT_DIM, 0},
    {"attention.wk.weight", true, 2, {LLAMA_KEY, LLAMA_MODEL}, ZF_CUT_DIM, 0},
    {"attention.wv.weight", true, 2, {LLAMA_KEY, LLAMA_MODEL}, ZF_CUT_DIM, 0},
    {"attention.wo.weight", true, 2, {LLAMA_MODEL, LLAMA_QUERY}, ZF_CUT_DIM, 1},
    {"feed_forward.w1.weight", true, 2, {LLAMA_ANY, LLAMA_MODEL}, ZF_CUT_DIM, 0},
    {"feed_forward.w2.weight", true, 2, {LLAMA_MODEL, LLAMA_ANY}, ZF_CUT_DIM, 1},
    {"feed_forward.w3.weight", true, 2, {LLAMA_ANY, LLAMA_MODEL}, ZF_CUT_DIM, 0},
    {"attention_norm.weight", true, 1, {LLAMA_MODEL}, ZF_CUT_COPIES, 0},
    {"ffn_norm.weight", true, 1, {LLAMA_MODEL}, ZF_CUT_COPIES, 0},
    {"norm.weight", false, 1, {LLAMA_MODEL}, ZF_CUT_COPIES, 0},
    {"output.weight", false, 2, {LLAMA_VOCABULARY, LLAMA_MODEL}, ZF_CUT_DIM, 0},
    {"tok_embeddings.weight", false, 2, {LLAMA_VOCABULARY, LLAMA_MODEL}, ZF_CUT_DIM, LLAMA_EITHER},
    {"rope.freqs", false, 1, {LLAMA_ANY}, ZF_CUT_COPIES, 0},
};

/* ---- widths ---- */

/* Reads a positive number, small enough that widths can be multiplied.  0 = absent, null or negative. */
static bool llama_number(const json_t *j, const char *key, uint64_t *out, struct zf_err *err)
{
    const json_t *v = json_object_get(j, key);

    *out = 0;
    if (!v || json_is_null(v) || (json_is_integer(v) && json_integer_value(v) < 0))
        return true;
    return (zf_json_u64(v, out) && *out <= UINT32_MAX) ||
           zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "\"%s\" is not a number below 2^32", key);
}

static bool llama_width_params(const json_t *j, struct zf_llama_width *w, struct zf_err *err)
{
    uint64_t model, heads, keys, head;

    if (!llama_number(j, "dim", &model, err) || !llama_number(j, "n_heads", &heads, err) ||
        !llama_number(j, "n_kv_heads", &keys, err) || !llama_number(j, "head_dim", &head, err) ||
        !llama_number(j, "vocab_size", &w->vocabulary, err))
        return false;
    if (model > 0 && model != w->model) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "\"dim\" is %llu, but norm.weight has %llu elements",
                       (unsigned long long)model, (unsigned long long)w->model);
    }
    if (heads > 0) {
        head = head > 0 ? head : w->model / heads;
        w->query = heads * head;
        w->key = (keys > 0 ? keys : heads) * head;
    }
    return true;
}

bool zf_llama_width_read(struct zf_store *st, uint64_t norm, const struct zf_limits *lim,
                         struct zf_llama_width *out, struct zf_err *err)
{
    uint64_t n;

    /* Without params.json: all heads together are as wide as the model, as in every Llama of Meta's. */
    *out = (struct zf_llama_width){.model = norm, .query = norm};
    if (!zf_store_find(st, PARAMS))
        return true;
    zf_auto(mem) char *text = zf_store_slurp(st, PARAMS, lim->json_bytes, &n, err);
    zf_auto(json) json_t *j = text ? zf_json_load(text, n, lim, err) : NULL;
    return (j && llama_width_params(j, out, err)) || zf_err_in(err, PARAMS);
}

/* ---- parameters ---- */

/* The length of "layers.N." at the start of a name, or 0. */
static size_t llama_layer(const char *name, size_t n)
{
    static const char word[] = "layers.";
    size_t at = sizeof word - 1;

    if (n <= at || memcmp(name, word, at) != 0)
        return 0;
    while (at < n && name[at] >= '0' && name[at] <= '9')
        at++;
    return at > sizeof word - 1 && at < n && name[at] == '.' ? at + 1 : 0;
}

static bool llama_is(const struct llama_known *k, const struct zf_tree_tensor *t)
{
    const size_t layer = llama_layer(t->name, t->name_len), n = t->name_len - layer;

    return k->layer == (layer > 0) && strlen(k->name) == n &&
           memcmp(t->name + layer, k->name, n) == 0;
}

static uint64_t llama_extent(const struct zf_llama_width *w, enum llama_extent e)
{
    switch (e) {
    case LLAMA_MODEL:
        return w->model;
    case LLAMA_QUERY:
        return w->query;
    case LLAMA_KEY:
        return w->key;
    case LLAMA_VOCABULARY:
        return w->vocabulary;
    default:
        return 0;
    }
}

/* Checks that the shards, joined along *out, have the size that the widths give. */
static bool llama_fits(struct zf_llama_width *w, const struct zf_tree_tensor *t,
                       const struct llama_known *k, struct zf_cut_rule *out, struct zf_err *err)
{
    if (t->ndim != k->ndim) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "it has %u dimensions, expected %u", t->ndim,
                       k->ndim);
    }
    *out = (struct zf_cut_rule){.kind = k->kind, .dim = k->dim};
    if (k->dim == LLAMA_EITHER)
        out->dim = t->shard[0][1] == w->model ? 0 : 1;
    for (uint32_t d = 0; d < k->ndim; d++) {
        const bool cut = out->kind == ZF_CUT_DIM && out->dim == d;
        const uint64_t want = llama_extent(w, k->extent[d]), part = t->shard[0][d];
        const uint64_t ranks = cut ? t->n_ranks : 1;

        if (want > 0 && (want % ranks != 0 || part != want / ranks)) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "the shards of %u ranks with %llu elements each along dimension %u do "
                           "not add up to the %llu of the whole tensor",
                           t->n_ranks, (unsigned long long)part, d, (unsigned long long)want);
        }
        w->proved = w->proved || (cut && want > 0);
    }
    return true;
}

static bool llama_shards_equal(const struct zf_tree_tensor *t, struct zf_err *err)
{
    for (uint32_t r = 1; r < t->n_ranks; r++) {
        if (!zf_shape_equal(t->ndim, t->shard[r], t->ndim, t->shard[0])) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "the shard of rank %u differs in shape from that of rank 0", r);
        }
    }
    return true;
}

bool zf_llama_cut(struct zf_llama_width *w, const struct zf_tree_tensor *t, struct zf_cut_rule *out,
                  struct zf_err *err)
{
    if (!llama_shards_equal(t, err))
        return false;
    for (size_t i = 0; i < sizeof llama_table / sizeof llama_table[0]; i++)
        if (llama_is(&llama_table[i], t))
            return llama_fits(w, t, &llama_table[i], out, err);
    return zf_fail(
        err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
        "the save does not record how it is sharded. Give the rules with -o tp_rules=FILE");
}

bool zf_llama_check_alone(struct zf_store *st, const struct zf_limits *lim, struct zf_build *b,
                          struct zf_err *err)
{
    static const char norm[] = "norm.weight", query[] = "layers.0.attention.wq.weight";
    const struct zf_draft *n = zf_build_find(b, (struct zf_spot){"", norm, sizeof norm - 1});
    const struct zf_draft *q = zf_build_find(b, (struct zf_spot){"", query, sizeof query - 1});
    struct zf_llama_width w;

    if (!n || !q || zf_draft_type(n).ndim != 1 || zf_draft_type(q).ndim != 2 ||
        !zf_store_has(st, PARAMS, ZF_ENTRY_FILE))
        return true;
    if (!zf_llama_width_read(st, zf_draft_type(n).shape[0], lim, &w, err)) {
        if (err->code != ZF_E_FORMAT)
            return false;
        zf_err_clear(err); /* another model's file, or not JSON: no evidence */
        return true;
    }
    const uint64_t rows = zf_draft_type(q).shape[0];
    if (zf_draft_type(q).shape[1] != w.model || rows == 0 || rows >= w.query || w.query % rows)
        return true;
    zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
            "it is missing: %s in consolidated.00.pth has %llu rows, but by " PARAMS
            " the model has %llu, so that %llu ranks saved it",
            query, (unsigned long long)rows, (unsigned long long)w.query,
            (unsigned long long)(w.query / rows));
    (void)zf_err_in(err, "consolidated.01.pth");
    return zf_forgive(b, err);
}
