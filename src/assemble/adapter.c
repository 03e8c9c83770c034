/* SPDX-License-Identifier: Apache-2.0 */
/* In a model's state an adapter's name is a component of its parameters' names, because a model can
 * have several: "base_model.model.q_proj.lora_A.default.weight".  In the file of one adapter that
 * component is left out, DoRA's vector loses its ".weight" too, and of a module that is trained as a
 * whole ("score.modules_to_save.default.weight") the rest alone remains ("score.weight").  What a
 * trainer's wrappers put in front of "base_model." is not PEFT's.
 * Source: peft/utils/save_and_load.py (get_peft_model_state_dict, 0.4 … 0.21), tuners/lora/layer.py. */
#include <zf/assemble/adapter.h>

#include <stdio.h>
#include <string.h>

#include <zf/base/name.h>
#include <zf/base/vec.h>

#include "optim_key.h"

#define ADAPTER_NAME_MAX 4096 /* longer names are no parameters of one */
#define ADAPTERS_MOST 10000   /* of one model */

/* The words that an adapter's name follows. */
static bool adapter_is_part(const char *p, size_t n)
{
    static const char *const words[] = {"lora_A",           "lora_B",    "lora_embedding_A",
                                        "lora_embedding_B", "lora_bias", "lora_magnitude_vector"};

    return ONE_OF(p, n, words);
}

static size_t adapter_component(const char *p, const char *end)
{
    const char *dot = memchr(p, '.', (size_t)(end - p));

    return (size_t)((dot ? dot : end) - p);
}

/* What wrappers put in front. */
static const char *adapter_skip_wrappers(const char *name, const char *end)
{
    static const char base[] = "base_model.";
    const char *at = memmem(name, (size_t)(end - name), base, sizeof base - 1);

    return at && (at == name || at[-1] == '.') ? at : name;
}

/* Is it a parameter of an adapter?  Then *adapter [*n] is the adapter's name, borrowed from the name or a
 * constant, and out [ADAPTER_NAME_MAX] what PEFT calls it in adapter_model.safetensors. */
static bool adapter_name(const char *name, size_t len, const char **adapter, size_t *n, char *out)
{
    const char *end = name + len, *begin = adapter_skip_wrappers(name, end), *p = begin;
    size_t word = adapter_component(p, end), head;

    while (!adapter_is_part(p, word) && !word_is(p, word, "modules_to_save")) {
        if (p + word == end) {
            return false;
        }
        p += word + 1;
        word = adapter_component(p, end);
    }
    bool whole = word_is(p, word, "modules_to_save");
    bool vector = word_is(p, word, "lora_magnitude_vector");
    const char *rest = p + word + (p + word < end);
    /* in front of the adapter's name */
    head = whole ? (size_t)(p - begin) : (size_t)(p + word - begin);
    *n = adapter_component(rest, end);
    *adapter = rest;
    if (*n == 0 || word_is(rest, *n, "weight") || word_is(rest, *n, "bias")) {
        if (whole) {
            return false;
        }
        *adapter = "default"; /* left out, as in an adapter's own file */
        *n = strlen("default");
    } else {
        rest += *n + (rest + *n < end);
    }
    if (vector && word_is(rest, (size_t)(end - rest), "weight")) {
        rest = end;
    }
    int total = snprintf(out, ADAPTER_NAME_MAX, "%.*s%s%.*s",
                         (int)(head < ADAPTER_NAME_MAX ? head : ADAPTER_NAME_MAX), begin,
                         rest < end && !whole ? "." : "", (int)(end - rest), rest);
    return len < ADAPTER_NAME_MAX && total > 0 && total < ADAPTER_NAME_MAX;
}

/* ---- a tree's adapters ---- */

struct adapter {
    char name[ZF_NAME_MAX + 1]; /* as a directory */
    bool pair[2];               /* it has a lora_A, a lora_B */
};
struct adapters {
    zf_vec(struct adapter);
};

static struct adapter *adapter_of(struct adapters *all, const char *name, size_t n,
                                  struct zf_err *err)
{
    char file[ZF_NAME_MAX + 1];

    zf_name_encode(file, name, n, "");
    for (size_t i = 0; i < all->n; i++) {
        if (strcmp(all->at[i].name, file) == 0) {
            return &all->at[i];
        }
    }
    if (all->n == ADAPTERS_MOST) {
        zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "there are more than %d adapters", ADAPTERS_MOST);
        return NULL;
    }
    struct adapter *made = zf_vec_push(all, err);
    if (made) {
        memcpy(made->name, file, sizeof file);
    }
    return made;
}

static bool adapter_see(struct zf_build *b, const char *dir, struct adapters *all,
                        struct zf_err *err)
{
    struct zf_draft *tie;
    struct zf_spot s;
    uint64_t at = 0;

    while (zf_build_next(b, dir, &at, &s, &tie)) {
        char out[ADAPTER_NAME_MAX];
        const char *name;
        size_t n;

        if (s.set[0] || !adapter_name(s.name, s.name_len, &name, &n, out)) {
            continue;
        }
        struct adapter *a = adapter_of(all, name, n, err);
        if (!a) {
            return false;
        }
        a->pair[0] = a->pair[0] || strstr(out, "lora_A") || strstr(out, "lora_embedding_A");
        a->pair[1] = a->pair[1] || strstr(out, "lora_B") || strstr(out, "lora_embedding_B");
    }
    return true;
}

static bool adapter_show_tensors(struct zf_build *b, const char *dir, struct adapters *all,
                                 struct zf_err *err)
{
    uint64_t n_before = zf_build_n_tensors(b), at = 0;
    struct zf_draft *d, *tie;
    struct zf_spot s;

    while (at < n_before && (d = zf_build_next(b, dir, &at, &s, &tie))) {
        char out[ADAPTER_NAME_MAX], set[2 * ZF_NAME_MAX];
        const struct adapter *a;
        const char *name;
        size_t n;

        if (s.set[0] || !adapter_name(s.name, s.name_len, &name, &n, out)) {
            continue;
        }
        if (!(a = adapter_of(all, name, n, err))) {
            return false;
        }
        if (!a->pair[0] || !a->pair[1]) {
            continue;
        }
        (void)snprintf(set, sizeof set, "adapter/%s", a->name);
        const struct zf_spot to = {set, out, strlen(out)};
        if (!zf_build_find(b, to) && !zf_build_show(b, to, tie ? tie : d, err)) {
            return false;
        }
    }
    return true;
}

static bool adapter_show_config(struct zf_build *b, const struct adapters *all,
                                const struct adapter *a, struct zf_store *st, struct zf_err *err)
{
    static const char config[] = "adapter_config.json";
    char own[ZF_NAME_MAX + sizeof config + 1], to[ZF_NAME_MAX + sizeof config + 10];
    const char *from = own;

    (void)snprintf(own, sizeof own, "%s/%s", a->name, config);
    (void)snprintf(to, sizeof to, "adapter/%s/%s", a->name, config);
    if (!zf_store_has(st, own, ZF_ENTRY_FILE)) {
        from = config;
        /* PEFT saves the adapter "default" in the directory itself, others below it */
        if ((all->n > 1 && strcmp(a->name, "default") != 0) ||
            !zf_store_has(st, config, ZF_ENTRY_FILE)) {
            return true;
        }
    }
    zf_auto(source) struct zf_source *src = zf_store_open(st, from, err);
    return src && zf_build_blob(b, to, src, 0, src->size, err);
}

bool zf_adapters_show(struct zf_build *b, const char *dir, struct zf_store *st, struct zf_err *err)
{
    struct adapters all = {0};
    bool ok = adapter_see(b, dir, &all, err) && zf_build_prefix(b, dir, err) &&
              (all.n == 0 || adapter_show_tensors(b, dir, &all, err));

    for (size_t i = 0; ok && st && i < all.n; i++) {
        ok = !all.at[i].pair[0] || !all.at[i].pair[1] ||
             adapter_show_config(b, &all, &all.at[i], st, err);
    }
    zf_vec_fini(&all);
    return ok && zf_build_prefix(b, "", err);
}
