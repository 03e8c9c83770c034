/* SPDX-License-Identifier: Apache-2.0 */
/* In a model's state dict the adapter's name is a component of its parameters' names, because a model
 * can have several adapters: "base_model.model.q_proj.lora_A.default.weight".  In the file of one
 * adapter that component is left out, if it is the last or the last but one; DoRA's vector loses its
 * ".weight", too; and a module trained as a whole ("score.modules_to_save.default.weight") keeps its
 * own name ("score.weight").  Prefixes before "base_model." come from the trainer's wrappers.
 * Source: peft/utils/save_and_load.py (get_peft_model_state_dict, 0.4 … 0.21), tuners/tuners_utils.py
 * (_remove_adapter_name_from_state_dict_key) and the model.py of each method. */
#include "adapter_name.h"

#include <stdio.h>
#include <string.h>

#include "optim_key.h"

static const struct adapter_row {
    const char *word, *methods,
        *prompt; /* prompt: name in the file, for parts of a prompt encoder */
    enum adapter_kind kind;
} rows[] = {
#define ADAPTER_WORD(word, kind, methods) {word, methods, NULL, ADAPTER_##kind},
#define ADAPTER_PROMPT(rest, out, methods) {rest, methods, out, ADAPTER_PLAIN},
#include "adapter_name_words.def"
#undef ADAPTER_WORD
#undef ADAPTER_PROMPT
    {"", "", "", ADAPTER_COMPUTED}, /* any other part of a prompt encoder */
};
enum { ADAPTER_N_ROWS = sizeof rows / sizeof rows[0], ADAPTER_COMPUTED_ROW = ADAPTER_N_ROWS - 1 };
_Static_assert((int)ADAPTER_N_ROWS <= (int)ADAPTER_WORDS_MOST, "more rows than are counted");

static const char prompts[] = "prompt_encoder.";

static size_t adapter_component(const char *p, const char *end)
{
    const char *dot = memchr(p, '.', (size_t)(end - p));

    return (size_t)((dot ? dot : end) - p);
}

const char *adapter_unwrapped(const char *name, size_t len)
{
    static const char base[] = "base_model.";
    const char *at = memmem(name, len, base, sizeof base - 1);

    if (!at)
        at = memmem(name, len, prompts, sizeof prompts - 1);
    return at && (at == name || at[-1] == '.') ? at : name;
}

unsigned adapter_word(const char *word)
{
    unsigned i = 0;

    while (i < ADAPTER_COMPUTED_ROW && strcmp(rows[i].word, word) != 0)
        i++;
    return i;
}

bool adapter_is_own(enum adapter_kind kind)
{
    return kind != ADAPTER_WHOLE && kind != ADAPTER_LEFT;
}

static bool adapter_row(struct adapter_name *a, const char *p, size_t n, bool prompt)
{
    for (unsigned i = 0; n && i < ADAPTER_COMPUTED_ROW; i++) {
        if (!rows[i].prompt == !prompt && *rows[i].word == *p && word_is(p, n, rows[i].word)) {
            a->word = i;
            a->kind = rows[i].kind;
            a->methods = rows[i].methods;
            return true;
        }
    }
    return false;
}

/* prompt_encoder.<adapter>.<rest>, a PeftModel's own module. */
static bool adapter_name_prompt(const char *p, const char *end, struct adapter_name *a)
{
    p += sizeof prompts - 1;
    a->n = adapter_component(p, end);
    a->adapter = p;
    a->layer = 0;
    p += a->n + (p + a->n < end);
    if (a->n == 0 || p == end)
        return false;
    if (!adapter_row(a, p, (size_t)(end - p), true)) {
        a->word = ADAPTER_COMPUTED_ROW;
        a->kind = ADAPTER_COMPUTED;
        a->methods = "";
    }
    (void)snprintf(a->out, sizeof a->out, "%s", rows[a->word].prompt);
    return true;
}

static bool adapter_name_put(struct adapter_name *a, const char *head, size_t n, const char *dot,
                             const char *tail, size_t tail_n)
{
    int total = snprintf(a->out, sizeof a->out, "%.*s%s%.*s", (int)n, head, tail_n ? dot : "",
                         (int)tail_n, tail);

    return total > 0 && total < ADAPTER_NAME_MAX;
}

/* A name without the adapter's, as in an adapter's own file. */
static bool adapter_name_bare(struct adapter_name *a, const char *begin, const char *rest,
                              const char *end)
{
    a->adapter = "default";
    a->n = strlen("default");
    if (word_is(rows[a->word].word, strlen(rows[a->word].word), "lora_magnitude_vector"))
        end = rest < end ? rest - 1 : end;
    return adapter_name_put(a, begin, (size_t)(end - begin), "", "", 0);
}

/* Reads the rest of a name after <word>.<adapter>. */
static bool adapter_name_tail(struct adapter_name *a, const char *begin, const char *tail,
                              const char *end)
{
    const char *word = rows[a->word].word;
    size_t n = (size_t)(end - tail), word_len = strlen(word);
    size_t head = a->layer + (a->layer > 0) + word_len;
    int total;

    switch (a->kind) {
    case ADAPTER_WHOLE:
        return n > 0 && a->layer > 0 && adapter_name_put(a, begin, a->layer, ".", tail, n);
    case ADAPTER_SHARED:
        total = snprintf(a->out, sizeof a->out, "base_model.%s%s%.*s", word, n ? "." : "", (int)n,
                         tail);
        return total > 0 && total < ADAPTER_NAME_MAX;
    case ADAPTER_INSIDE:
        return adapter_name_put(a, begin, head, ".", tail, n);
    default:
        break;
    }
    if (memchr(tail, '.', n)) /* PEFT removes it only as the last component or the last but one */
        return adapter_name_put(a, begin, (size_t)(end - begin), "", "", 0);
    if (word_is(word, word_len, "lora_magnitude_vector") && word_is(tail, n, "weight"))
        n = 0;
    return adapter_name_put(a, begin, head, ".", tail, n);
}

bool adapter_name_read(const char *name, size_t len, bool peft, struct adapter_name *a)
{
    const char *end = name + len, *begin = adapter_unwrapped(name, len), *p = begin;
    size_t n = adapter_component(p, end);

    if (len >= ADAPTER_NAME_MAX)
        return false;
    if (peft && word_starts(begin, (size_t)(end - begin), prompts))
        return adapter_name_prompt(begin, end, a);
    while (!adapter_row(a, p, n, false)) {
        if (p + n == end)
            return false;
        p += n + 1;
        n = adapter_component(p, end);
    }
    const char *rest = p + n + (p + n < end);
    a->layer = p > begin ? (size_t)(p - begin) - 1 : 0;
    if (a->kind == ADAPTER_NAMELESS)
        return adapter_name_bare(a, begin, rest, end);
    a->n = adapter_component(rest, end);
    a->adapter = rest;
    const char *tail = rest + a->n + (rest + a->n < end);
    if (tail == end && (a->n == 0 || word_is(rest, a->n, "weight") || word_is(rest, a->n, "bias")))
        return word_starts(p, n, "lora_") && adapter_name_bare(a, begin, rest, end);
    if (a->kind == ADAPTER_KEYED) { /* <key>.<adapter> */
        const char *key = a->adapter;
        size_t key_n = a->n;

        if (tail == end || memchr(tail, '.', (size_t)(end - tail)))
            return false;
        a->adapter = tail;
        a->n = (size_t)(end - tail);
        return adapter_name_put(a, begin, (size_t)(p + n - begin), ".", key, key_n);
    }
    return a->n > 0 && adapter_name_tail(a, begin, tail, end);
}
