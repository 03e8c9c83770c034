/* SPDX-License-Identifier: Apache-2.0 */
#include "keys.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool mg_text_take(struct mg_text *t, const char *word)
{
    size_t n = strlen(word);

    if (t->n < n || memcmp(t->p, word, n) != 0)
        return false;
    t->p += n;
    t->n -= n;
    return true;
}

static bool key_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool mg_text_take_number(struct mg_text *t, uint64_t *out)
{
    size_t n = 0;

    *out = 0;
    while (n < t->n && n < 19 && key_is_digit(t->p[n]))
        *out = *out * 10 + (uint64_t)(t->p[n++] - '0');
    if (n == 0 || n > 18)
        return false;
    t->p += n;
    t->n -= n;
    return true;
}

bool mg_text_number(struct mg_text t, uint64_t *out)
{
    return mg_text_take_number(&t, out) && t.n == 0;
}

bool mg_text_take_chain(struct mg_text *t, const char *word, uint32_t *chain)
{
    struct mg_text rest = *t;
    uint64_t n;

    if (!mg_text_take(&rest, word) || !mg_text_take_number(&rest, &n) || n >= MG_NO_CHAIN ||
        !mg_text_take(&rest, "."))
        return false;
    *chain = (uint32_t)n;
    *t = rest;
    return true;
}

/* Takes the text before the first `stop` into *out, and drops `stop`. */
static bool key_take_until(struct mg_text *t, const char *stop, struct mg_text *out)
{
    const char *at = t->n ? memmem(t->p, t->n, stop, strlen(stop)) : NULL;

    if (!at)
        return false;
    *out = (struct mg_text){t->p, (size_t)(at - t->p)};
    t->p += out->n + strlen(stop);
    t->n -= out->n + strlen(stop);
    return true;
}

bool mg_text_is(struct mg_text t, const char *text)
{
    return t.n == strlen(text) && memcmp(t.p, text, t.n) == 0;
}

bool mg_text_same(struct mg_text a, struct mg_text b)
{
    return a.n == b.n && memcmp(a.p, b.p, a.n) == 0;
}

bool mg_text_ends(struct mg_text t, const char *end)
{
    size_t n = strlen(end);

    return t.n >= n && memcmp(t.p + t.n - n, end, n) == 0;
}

bool mg_key_is_buffer(struct mg_text name)
{
    return mg_text_ends(name, ".inv_freq") || mg_text_ends(name, ".expert_bias") ||
           mg_text_ends(name, ".local_tokens_per_expert") || mg_text_ends(name, "._extra_state");
}

bool mg_key_is_master(struct mg_text state)
{
    return mg_text_is(state, "param") || mg_text_is(state, "fp32_param");
}

/* The parameter's name without the "module." components of wrappers; never empty. */
static struct mg_text key_bare(struct mg_text t)
{
    struct mg_text last = t;

    while (mg_text_take(&t, "module."))
        last = t.n ? t : last;
    return last;
}

/* The index after the last `word` that begins a component of the name, or 0. */
static size_t key_behind(struct mg_text name, const char *word)
{
    size_t n = strlen(word), found = 0;

    for (size_t at = 0; at + n < name.n; at++)
        if ((at == 0 || name.p[at - 1] == '.') && memcmp(name.p + at, word, n) == 0)
            found = at + n;
    return found;
}

void mg_key_find_axes(struct mg_key *k)
{
    size_t layer = key_behind(k->name, "layers.");
    size_t expert = key_behind(k->name, "experts.experts.");

    k->layer_at = layer && !key_is_digit(k->name.p[layer]) ? layer : 0;
    k->expert_at = expert && !key_is_digit(k->name.p[expert]) ? expert : 0;
}

static void key_take_name(struct mg_key *k, enum mg_what what, struct mg_text t)
{
    struct mg_text inside = t;

    k->what = what;
    k->name = key_bare(mg_text_take(&inside, "model.") && inside.n ? inside : t);
    mg_key_find_axes(k);
}

static bool key_take_bucket(struct mg_key *k, struct mg_text t)
{
    if (!mg_text_take(&t, "distributed.dp_group_idx_") ||
        !mg_text_take_number(&t, &k->flat.group) || !mg_text_take(&t, ".gbuf_idx_") ||
        !mg_text_take_number(&t, &k->flat.gbuf) || !mg_text_take(&t, ".dtype_") ||
        !key_take_until(&t, ".bucket_idx_", &k->flat.dtype) ||
        !mg_text_take_number(&t, &k->flat.bucket) || !mg_text_take(&t, ".") || t.n == 0)
        return false;
    k->what = MG_BUCKET;
    k->state = t;
    return true;
}

/* Parses the rest of a key after "optimizer.". */
static void key_take_optimizer(struct mg_key *k, struct mg_text t)
{
    struct mg_text rest = t;

    k->what = MG_OTHER;
    k->name = t;
    if (mg_text_take(&rest, "state.")) {
        if (key_take_until(&rest, ".", &k->state) && k->state.n && rest.n)
            key_take_name(k, MG_STATE, rest);
        return;
    }
    (void)key_take_bucket(k, t);
}

/* "0.1" or "0": numbers joined by dots. */
static bool key_is_index(struct mg_text t)
{
    for (size_t i = 0; i < t.n; i++) {
        bool dot = t.p[i] == '.';

        if (!dot && !key_is_digit(t.p[i]))
            return false;
        if (dot && (i == 0 || i + 1 == t.n || t.p[i + 1] == '.'))
            return false;
    }
    return t.n > 0;
}

/* Parses from the right, since keys may contain slashes. */
static bool key_take_object(struct mg_key *k, const char *key, size_t n)
{
    const char *slash = n ? memrchr(key, '/', n) : NULL;
    struct mg_text t, offset;

    if (!slash)
        return false;
    t = (struct mg_text){slash + 1, n - (size_t)(slash - key) - 1};
    if (!mg_text_take(&t, "shard_") || !key_take_until(&t, "_", &offset) || !key_is_index(offset) ||
        !key_is_index(t))
        return false;
    k->what = MG_OBJECT;
    k->name = (struct mg_text){key, (size_t)(slash - key)};
    return true;
}

void mg_key_parse(const char *key, size_t n, struct mg_key *out)
{
    struct mg_text t = {key, n}, chained = t;
    uint32_t chain;

    *out = (struct mg_key){.chain = MG_NO_CHAIN};
    if (key_take_object(out, key, n))
        return;
    if (mg_text_take_chain(&chained, "chained_", &chain) && chained.n) {
        out->chain = chain;
        t = chained;
    }
    if (mg_text_take(&t, "optimizer.") && t.n) {
        out->container = (struct mg_text){key, (size_t)(t.p - key) - 1};
        key_take_optimizer(out, t);
    } else {
        key_take_name(out, MG_WEIGHT, (struct mg_text){key, n});
        if (out->name.n >= 9 && memcmp(out->name.p, "rng_state", 9) == 0)
            out->what = MG_OTHER;
    }
}

/* ---- flattened by torch.distributed.checkpoint ---- */

/* Parses the rest of a key after "state.": the state's name is the last component, since none has a dot. */
static bool key_take_flat_state(struct mg_key *k, struct mg_text t)
{
    const char *dot = t.n ? memrchr(t.p, '.', t.n) : NULL;

    if (!dot || dot == t.p || dot + 1 == t.p + t.n)
        return false;
    k->state = (struct mg_text){dot + 1, t.n - (size_t)(dot - t.p) - 1};
    k->name = key_bare((struct mg_text){t.p, (size_t)(dot - t.p)});
    return true;
}

void mg_fsdp_key(const char *key, size_t n, struct mg_key *out)
{
    struct mg_text t = {key, n}, rest;

    *out = (struct mg_key){.what = MG_OTHER, .chain = MG_NO_CHAIN, .name = t};
    if (mg_text_take(&t, "model.")) {
        if (t.n) { /* layers are always numbered: no axis to find */
            out->what = MG_WEIGHT;
            out->name = key_bare(t);
        }
        return;
    }
    if (!mg_text_take(&t, "optimizer."))
        return;
    (void)mg_text_take_chain(&t, "", &out->chain);
    (void)mg_text_take(&t, "optimizer.");
    out->container = (struct mg_text){key, (size_t)(t.p - key) - 1};
    rest = t;
    if (mg_text_take(&rest, "state.") && key_take_flat_state(out, rest)) {
        out->what = MG_STATE;
    } else if (mg_text_take(&t, MG_FSDP_MASTERS ".") && t.n) {
        out->what = MG_STATE;
        out->state = (struct mg_text){MG_FSDP_MASTERS, sizeof MG_FSDP_MASTERS - 1};
        out->name = t;
    }
}

/* ---- numbers in names ---- */

size_t mg_key_numbered(const struct mg_key *k, uint64_t layer, uint64_t expert, char *out,
                       size_t size)
{
    size_t a = layer == MG_NONE ? 0 : k->layer_at, b = expert == MG_NONE ? 0 : k->expert_at;
    char first[24] = "", second[24] = "";
    size_t at = 0;

    /* "layers.mlp.experts.experts.": the expert's number comes after the layer's */
    if (a)
        (void)snprintf(first, sizeof first, "%" PRIu64 ".", layer);
    if (b)
        (void)snprintf(second, sizeof second, "%" PRIu64 ".", expert);
    b = b > a ? b : a;
    const struct mg_text part[] = {{k->name.p, a},
                                   {first, strlen(first)},
                                   {k->name.p + a, b - a},
                                   {second, strlen(second)},
                                   {k->name.p + b, k->name.n - b}};
    for (size_t i = 0; i < sizeof part / sizeof part[0]; i++) {
        size_t room = at < size ? size - at : 0;

        if (room > 0 && part[i].n > 0)
            memcpy(out + at, part[i].p, part[i].n < room ? part[i].n : room);
        at += part[i].n;
    }
    if (size > 0)
        out[at < size ? at : size - 1] = '\0';
    return at;
}
