/* SPDX-License-Identifier: Apache-2.0 */
#include "optim_key.h"

#include <stdint.h>
#include <string.h>

#include <zf/base/hash.h>

/* The last is that of PyTorch's tutorials, and of Whisper's files. */
static const char *const containers[ZF_CONTAINERS] = {"model", "module", "state_dict", "net",
                                                      "model_state_dict"};

/* Optimizer keys that Megatron writes before the parameter's name. */
static const char *const state_words[] = {
    "exp_avg",         "exp_avg_sq",        "max_exp_avg_sq", "step",
    "momentum_buffer", "grad_norm_exp_avg", "fp32_param",     "master_param",
    "param",           "exp_avg_res",       "square_avg",
};

bool word_is(const char *p, size_t n, const char *word)
{
    return strlen(word) == n && memcmp(p, word, n) == 0;
}

bool word_of(const char *p, size_t n, const char *const *words, size_t n_words)
{
    for (size_t i = 0; i < n_words; i++)
        if (word_is(p, n, words[i]))
            return true;
    return false;
}

static bool optim_key_word_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool word_digits(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] < '0' || p[i] > '9')
            return false;
    return n > 0;
}

bool word_starts(const char *p, size_t n, const char *word)
{
    size_t w = strlen(word);

    return n >= w && memcmp(p, word, w) == 0;
}

/* Is p[n] a whole word that starts with "optim"? */
static bool optim_key_optimizer_word(const char *p, size_t n)
{
    if (!word_starts(p, n, "optim"))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!optim_key_word_char(p[i]))
            return false;
    return true;
}

/* The length of p[n] up to its first dot. */
static size_t optim_key_word_len(const char *p, size_t n)
{
    const char *dot = memchr(p, '.', n);

    return dot ? (size_t)(dot - p) : n;
}

const char *container_name(int i)
{
    return containers[i];
}

int container_number(const char *p, size_t n)
{
    for (int i = 0; i < ZF_CONTAINERS; i++)
        if (word_is(p, n, containers[i]))
            return i;
    return -1;
}

/* bitsandbytes saves quantized states in a nested dict, which its loader flattens again.
 * Source: bitsandbytes/optim/optimizer.py (state_dict, load_state_dict, 0.50). */
static void optim_key_flatten(struct optim_key *e)
{
    static const char word[] = "__bnb_optimizer_quant_state__";
    const size_t w = sizeof word - 1;

    if (e->key_len > w + 1 && word_starts(e->key, e->key_len, word) && e->key[w] == '.') {
        e->key += w + 1;
        e->key_len -= w + 1;
    } else if (e->name_len > w + 1 && word_is(e->name + e->name_len - w, w, word) &&
               e->name[e->name_len - w - 1] == '.') {
        e->name_len -= w + 1;
    }
}

/* Splits `text`, after ".state.", where the path's steps show where the name ends. */
static void optim_key_split_by_path(struct optim_key *e, struct zf_path path, uint32_t state)
{
    if (path.n < state + 3)
        return;
    const struct zf_step *name = &path.step[state + 1], *key = &path.step[state + 2];
    bool id = name->index || word_digits(name->p, name->n);
    if (path.n > state + 3 && !id)
        return; /* nested deeper: only the known parameter names can decide */
    e->name = e->text;
    e->name_len = name->n;
    e->key = e->text + name->n + 1;
    e->key_len = e->text_len - name->n - 1;
    if (path.n == state + 3 && !key->index && ONE_OF(name->p, name->n, state_words) &&
        !ONE_OF(key->p, key->n, state_words)) {
        struct optim_key swapped = *e;

        e->name = swapped.key;
        e->name_len = swapped.key_len;
        e->key = swapped.name;
        e->key_len = swapped.name_len;
    }
    optim_key_flatten(e);
}

/* Does key[n] start with an optimizer's name?  One other word may be before it, as in
 * `app.optim` and `chained_0.optimizer`, but not a model's container:
 * a model may have an `optim_head`. */
static bool optim_key_optimizer_head(const char *key, size_t n)
{
    size_t w = optim_key_word_len(key, n);

    if (optim_key_optimizer_word(key, w))
        return true;
    return w < n &&
           optim_key_optimizer_word(key + w + 1, optim_key_word_len(key + w + 1, n - w - 1)) &&
           container_number(key, w) < 0;
}

bool optim_key_parse(struct zf_path path, const char *key, size_t n, struct optim_key *e)
{
    static const char mark[] = ".state.";
    const size_t mark_len = sizeof mark - 1;

    *e = (struct optim_key){0};
    if (!optim_key_optimizer_head(key, n))
        return false;
    size_t at = 0;
    for (uint32_t i = 0; i < path.n; at += path.step[i].n + 1, i++) {
        if (i > 0 && i + 1 < path.n && word_is(path.step[i].p, path.step[i].n, "state")) {
            *e = (struct optim_key){.head = key, .head_len = at - 1, .text = key + at + 6};
            e->text_len = n - at - 6;
            optim_key_split_by_path(e, path, i);
            return true;
        }
    }
    for (size_t i = 0; i + mark_len < n; i++) {
        if (memcmp(key + i, mark, mark_len) == 0) {
            *e = (struct optim_key){.head = key, .head_len = i, .text = key + i + mark_len};
            e->text_len = n - i - mark_len;
            return true;
        }
    }
    return false;
}

bool optim_key_is_setting(const char *key, size_t n)
{
    static const char mark[] = ".param_groups.";
    const size_t mark_len = sizeof mark - 1;

    for (size_t i = 0; i + mark_len <= n && optim_key_optimizer_head(key, n); i++)
        if (memcmp(key + i, mark, mark_len) == 0)
            return true;
    return false;
}

/* Splits e->text at `dot`. */
static void optim_key_split_at(struct optim_key *e, size_t dot, bool key_first)
{
    const char *a = e->text, *b = e->text + dot + 1;
    size_t an = dot, bn = e->text_len - dot - 1;

    e->name = key_first ? b : a;
    e->name_len = key_first ? bn : an;
    e->key = key_first ? a : b;
    e->key_len = key_first ? an : bn;
}

bool optim_key_split(struct optim_key *e, struct zf_sorted *params)
{
    size_t last = SIZE_MAX;

    if (e->name)
        return true;
    for (size_t i = e->text_len; i-- > 0;) {
        if (e->text[i] != '.')
            continue;
        last = last == SIZE_MAX ? i : last;
        if (zf_sorted_has(params, zf_hash(0, e->text, i))) {
            optim_key_split_at(e, i, false);
            optim_key_flatten(e);
            return true;
        }
    }
    if (last == SIZE_MAX)
        return false;
    size_t first = optim_key_word_len(e->text, e->text_len);
    bool key_first = ONE_OF(e->text, first, state_words);
    optim_key_split_at(e, key_first ? first : last, key_first);
    optim_key_flatten(e);
    return true;
}
