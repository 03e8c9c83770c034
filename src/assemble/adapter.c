/* SPDX-License-Identifier: Apache-2.0 */
/* An adapter is shown only if every trained tensor has a name in PEFT's adapter file (adapter_name.h).
 * PEFT initializes tensors that a file lacks, without an error, so that an incomplete adapter would
 * load as a different one.  Trained parameters of the base model (bias="all", an unfrozen layer) keep
 * their own names in the file: PEFT loads them into the base model.
 * Source: peft/utils/save_and_load.py (0.4 … 0.21), peft_model.py get_prompt_embedding_to_save. */
#include <zf/assemble/adapter.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <zf/base/name.h>
#include <zf/base/vec.h>
#include <zf/codec/json.h>

#include "adapter_name.h"
#include "optim_key.h"

#define ADAPTERS_MOST 10000 /* per model */
/* A name in a message, for "%.*s". */
#define ADAPTER_SHOWN(s) (int)((s).name_len < 200 ? (s).name_len : 200), (s).name

static const char config_file[] = "adapter_config.json";

struct adapter {
    char name[ZF_NAME_MAX + 1]; /* as a directory */
    const char *methods
        [ADAPTER_WORDS_MOST]; /* by word: PEFT's methods that use it; NULL: not in this adapter */
    uint64_t n[ADAPTER_WORDS_MOST]; /* by word: number of tensors */
    bool own;                       /* has tensors other than whole modules of the model */
    bool trained, embeds;           /* embeds: changes an embedding or the head */
    char why[400];                  /* reason why it is not shown; "": it is */
};
struct adapters {
    zf_vec(struct adapter);
    struct zf_build *b;
    const char *dir;
    struct zf_trained trained;
    bool peft, known; /* the state of a PeftModel; the trained parameters are known */
};

static struct adapter *adapter_of(struct adapters *all, const char *name, size_t n,
                                  struct zf_err *err)
{
    char file[ZF_NAME_MAX + 1];

    zf_name_encode(file, name, n, "");
    for (size_t i = 0; i < all->n; i++)
        if (strcmp(all->at[i].name, file) == 0)
            return &all->at[i];
    if (all->n == ADAPTERS_MOST) {
        zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "there are more than %d adapters", ADAPTERS_MOST);
        return NULL;
    }
    struct adapter *made = zf_vec_push(all, err);
    if (made)
        memcpy(made->name, file, sizeof file);
    return made;
}

/* Records why the adapter is not shown; the first reason is kept. */
__attribute__((format(printf, 2, 3))) static void adapter_refuse(struct adapter *a, const char *fmt,
                                                                 ...)
{
    va_list ap;

    if (!*a->why) {
        va_start(ap, fmt);
        (void)vsnprintf(a->why, sizeof a->why, fmt, ap);
        va_end(ap);
    }
}

static bool adapter_is_trained(const struct adapters *all, const char *name, size_t n)
{
    return all->trained.is && all->trained.is(all->trained.ctx, name, n);
}

/* PEFT saves the weights of modules with these names together with an adapter on them.  Source:
 * peft/utils/other.py EMBEDDING_LAYER_NAMES (0.4 … 0.21). */
static bool adapter_is_embedding(const char *layer, size_t n)
{
    static const char *const words[] = {"embed_tokens", "lm_head"};
    const char *dot = memrchr(layer, '.', n);
    const char *leaf = dot ? dot + 1 : layer;

    return ONE_OF(leaf, (size_t)(layer + n - leaf), words);
}

/* ---- collecting ---- */

static bool adapter_collect_one(struct adapters *all, struct zf_spot s,
                                const struct adapter_name *name, struct zf_err *err)
{
    struct adapter *a = adapter_of(all, name->adapter, name->n, err);

    if (!a)
        return false;
    a->methods[name->word] = name->methods;
    a->n[name->word] += !zf_name_ends(name->out, ".bias"); /* LoRA's own biases are extra */
    a->own = a->own || adapter_is_own(name->kind);
    a->trained = a->trained || adapter_is_trained(all, s.name, s.name_len);
    a->embeds =
        a->embeds || (adapter_is_own(name->kind) && name->kind != ADAPTER_TOKENS &&
                      adapter_is_embedding(adapter_unwrapped(s.name, s.name_len), name->layer));
    if (name->kind == ADAPTER_HALF) {
        adapter_refuse(a, "\"%.*s\" holds values whose positions in the model were not saved",
                       ADAPTER_SHOWN(s));
    } else if (name->kind == ADAPTER_COMPUTED) {
        adapter_refuse(a, "PEFT saves the output of its prompt encoder, not \"%.*s\"",
                       ADAPTER_SHOWN(s));
    }
    return true;
}

static bool adapter_collect(struct adapters *all, struct zf_err *err)
{
    struct adapter_name name;
    struct zf_draft *tie;
    struct zf_spot s;
    uint64_t at = 0;

    while (zf_build_next(all->b, all->dir, &at, &s, &tie)) {
        const char *bare = adapter_unwrapped(s.name, s.name_len);

        all->known = all->known || adapter_is_trained(all, s.name, s.name_len);
        all->peft =
            all->peft || word_starts(bare, s.name_len - (size_t)(bare - s.name), "base_model.");
    }
    at = 0;
    while (zf_build_next(all->b, all->dir, &at, &s, &tie))
        if (!s.set[0] && adapter_name_read(s.name, s.name_len, all->peft, &name) &&
            !adapter_collect_one(all, s, &name, err))
            return false;
    return true;
}

/* ---- names that are not understood ---- */

/* Is name[n] inside a layer of PEFT, one that keeps the model's layer as its base_layer? */
static bool adapter_is_inside(struct adapters *all, const char *name, size_t n)
{
    static const char base[] = "base_layer";
    char at[ADAPTER_NAME_MAX + sizeof base + 8];

    for (size_t i = 0; n < ADAPTER_NAME_MAX && i < n; i++) {
        if (name[i] != '.')
            continue;
        const char *rest = name + i + 1;
        if (word_starts(rest, n - i - 1, base))
            return false;
        int len = snprintf(at, sizeof at, "%.*s.%s.weight", (int)i, name, base);
        if (zf_build_find(all->b, (struct zf_spot){"", at, (size_t)len}))
            return true;
    }
    return false;
}

/* The offset of the last component of name[n] called `word`; 0: none (the first component does not count). */
static size_t adapter_called(const char *name, size_t n, const char *word)
{
    size_t len = strlen(word);

    for (size_t k = n > len ? n - len : 0; k > 0; k--)
        if (name[k - 1] == '.' && memcmp(name + k, word, len) == 0 &&
            (k + len == n || name[k + len] == '.'))
            return k;
    return 0;
}

/* Handles a tensor without a known word: it belongs to the base model, or to an unknown method. */
static bool adapter_doubt(struct adapters *all, struct zf_spot s, struct zf_err *err)
{
    static const char base[] = "base_model.", model[] = "model.";
    const char *bare = adapter_unwrapped(s.name, s.name_len);
    size_t n = s.name_len - (size_t)(bare - s.name), last = 0, of = 0;
    bool ours = adapter_is_inside(all, s.name, s.name_len);

    for (size_t i = 0; i < all->n; i++) {
        size_t at = adapter_called(bare, n, all->at[i].name);

        of = at > last ? i : of;
        last = at > last ? at : last;
    }
    if (!ours && all->peft) { /* PEFT's own modules are siblings of the model */
        bool beside = word_starts(bare, n, base) &&
                      !word_starts(bare + sizeof base - 1, n - sizeof base + 1, model);

        ours = (beside && last) || adapter_called(bare, n, "default");
    }
    if (ours && all->n == 0 && !adapter_of(all, "default", strlen("default"), err))
        return false;
    for (size_t i = 0; ours && i < all->n; i++) {
        if (!last || i == of) {
            adapter_refuse(&all->at[i], "\"%.*s\" belongs to an unknown PEFT method",
                           ADAPTER_SHOWN(s));
        }
    }
    return true;
}

static bool adapter_collect_rest(struct adapters *all, struct zf_err *err)
{
    struct adapter_name name;
    struct zf_draft *tie;
    struct zf_spot s;
    uint64_t at = 0;

    while (zf_build_next(all->b, all->dir, &at, &s, &tie)) {
        bool asked = !all->known || adapter_is_trained(all, s.name, s.name_len);

        if (!s.set[0] && asked && !adapter_name_read(s.name, s.name_len, all->peft, &name) &&
            !adapter_doubt(all, s, err))
            return false;
    }
    return true;
}

/* ---- adapter_config.json ---- */

static const char *adapter_config(const struct adapters *all, const struct adapter *a,
                                  struct zf_store *st, char own[ZF_NAME_MAX + 40])
{
    (void)snprintf(own, ZF_NAME_MAX + 40, "%s/%s", a->name, config_file);
    if (st && zf_store_has(st, own, ZF_ENTRY_FILE))
        return own;
    /* PEFT saves the adapter "default" in the directory itself, others in subdirectories */
    bool here = all->n == 1 || strcmp(a->name, "default") == 0;
    return st && here && zf_store_has(st, config_file, ZF_ENTRY_FILE) ? config_file : NULL;
}

static bool adapter_method_is(const char *list, const char *method)
{
    size_t n = strlen(method);

    for (const char *at = list; (at = strstr(at, method)) != NULL; at += n)
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || !at[n]))
            return true;
    return !*list;
}

/* Refuses settings with which PEFT saves tensors that are not in a state dict. */
static void adapter_agree_values(struct adapter *a, const json_t *j)
{
    static const struct {
        const char *of, *needs;
    } projection[] = {{"vera_lambda_d", "vera_A"},
                      {"pvera_lambda_d", "pvera_A"},
                      {"randlora_lambda", "randlora_A"},
                      {"frod_lambda_l", "frod_V"},
                      {"tinylora_v", "tinylora_P"}};
    const json_t *ranks = json_object_get(j, "rank_pattern");

    if (a->n[adapter_word("lora_E")] && json_object_size(ranks) > 0) {
        adapter_refuse(a,
                       "%s has a rank_pattern, with which PEFT saves only some rows of each tensor",
                       config_file);
    }
    if (a->n[adapter_word("vblora_logits_A")] &&
        json_is_true(json_object_get(j, "save_only_topk_weights")))
        adapter_refuse(a, "%s sets save_only_topk_weights, with which PEFT saves computed values",
                       config_file);
    for (size_t i = 0; i < sizeof projection / sizeof projection[0]; i++) {
        if (a->n[adapter_word(projection[i].of)] && !a->n[adapter_word(projection[i].needs)] &&
            json_is_true(json_object_get(j, "save_projection"))) {
            adapter_refuse(a, "%s sets save_projection, but there is no %s", config_file,
                           projection[i].needs);
        }
    }
}

static bool adapter_agree(struct adapters *all, struct adapter *a, struct zf_store *st,
                          struct zf_err *err)
{
    const struct zf_limits lim = zf_limits_default();
    char own[ZF_NAME_MAX + 40];
    const char *path = adapter_config(all, a, st, own);
    struct zf_err why;
    uint64_t n;

    if (!path)
        return true;
    zf_auto(mem) char *text = zf_store_slurp(st, path, lim.json_bytes, &n, err);
    if (!text)
        return false;
    zf_err_clear(&why);
    zf_auto(json) json_t *j = zf_json_load(text, n, &lim, &why);
    if (!j) {
        adapter_refuse(a, "%.100s: %.250s", path, why.msg);
        return true;
    }
    const char *method = json_string_value(json_object_get(j, "peft_type"));
    for (unsigned i = 0; method && i < ADAPTER_WORDS_MOST; i++) {
        if (a->methods[i] && !adapter_method_is(a->methods[i], method)) {
            adapter_refuse(a, "%.100s has the method %.40s, but the tensors belong to %.40s", path,
                           method, a->methods[i]);
        }
    }
    adapter_agree_values(a, j);
    return true;
}

/* Refuses a LoRA of which one of the two matrices is missing. */
static void adapter_check_pairs(struct adapter *a)
{
    static const char *const pair[][2] = {{"lora_A", "lora_B"},
                                          {"lora_embedding_A", "lora_embedding_B"}};

    for (size_t i = 0; i < 2; i++) {
        uint64_t first = a->n[adapter_word(pair[i][0])], second = a->n[adapter_word(pair[i][1])];

        if (first != second) {
            adapter_refuse(a, "it has %llu %s and %llu %s", (unsigned long long)first, pair[i][0],
                           (unsigned long long)second, pair[i][1]);
        }
    }
    if (!a->own && a->trained)
        adapter_refuse(a, "it has only modules that are trained as a whole");
}

/* ---- showing ---- */

static bool adapter_show_at(struct adapters *all, const struct adapter *a, const char *name,
                            struct zf_draft *d, struct zf_err *err)
{
    char set[2 * ZF_NAME_MAX];

    (void)snprintf(set, sizeof set, "adapter/%s", a->name);
    const struct zf_spot to = {set, name, strlen(name)};
    return !a->own || *a->why || zf_build_find(all->b, to) || zf_build_show(all->b, to, d, err);
}

/* Shows a trained parameter of the base model, which keeps its own name in the adapter's file. */
static bool adapter_show_base(struct adapters *all, struct zf_spot s, struct zf_draft *d,
                              struct zf_err *err)
{
    static const char base[] = ".base_layer.";
    const char *bare = adapter_unwrapped(s.name, s.name_len);
    size_t n = s.name_len - (size_t)(bare - s.name);
    const char *at = memmem(bare, n, base, sizeof base - 1);
    bool trained = adapter_is_trained(all, s.name, s.name_len);
    bool embedding = at && adapter_is_embedding(bare, (size_t)(at - bare));
    char name[ADAPTER_NAME_MAX];

    if (n >= sizeof name)
        return true;
    (void)snprintf(name, sizeof name, "%.*s", (int)n, bare);
    for (size_t i = 0; i < all->n; i++) {
        const struct adapter *a = &all->at[i];
        bool with = embedding && a->embeds && !a->n[adapter_word("trainable_tokens_delta")];

        if (((trained && a->trained) || with) && !adapter_show_at(all, a, name, d, err))
            return false;
    }
    return true;
}

static bool adapter_show_tensors(struct adapters *all, struct zf_err *err)
{
    uint64_t n_before = zf_build_n_tensors(all->b), at = 0;
    struct zf_draft *d, *tie;
    struct adapter_name name;
    struct zf_spot s;

    while (at < n_before && (d = zf_build_next(all->b, all->dir, &at, &s, &tie))) {
        if (s.set[0])
            continue;
        bool tied = tie != NULL;
        d = tied ? tie : d;
        if (!adapter_name_read(s.name, s.name_len, all->peft, &name)) {
            if (!adapter_show_base(all, s, d, err))
                return false;
            continue;
        }
        const struct adapter *a = adapter_of(all, name.adapter, name.n, err);
        bool left = name.kind == ADAPTER_LEFT || (tied && name.kind == ADAPTER_TOKENS);
        if (!a || (!left && !adapter_show_at(all, a, name.out, d, err)))
            return false;
    }
    return true;
}

static bool adapter_add_config(struct adapters *all, const struct adapter *a, struct zf_store *st,
                               struct zf_err *err)
{
    char own[ZF_NAME_MAX + 40], to[2 * ZF_NAME_MAX];

    if (*a->why) {
        return zf_build_note(all->b, err, "%s%sadapter/%.100s/ is not there: %s", all->dir,
                             *all->dir ? "/" : "", a->name, a->why);
    }
    const char *from = a->own ? adapter_config(all, a, st, own) : NULL;
    if (!from)
        return true;
    (void)snprintf(to, sizeof to, "adapter/%s/%s", a->name, config_file);
    zf_auto(source) struct zf_source *src = zf_store_open(st, from, err);
    return src && zf_build_blob(all->b, to, src, 0, src->size, err);
}

static bool adapter_all(struct adapters *all, struct zf_store *st, struct zf_err *err)
{
    bool ok = adapter_collect(all, err) && adapter_collect_rest(all, err);

    for (size_t i = 0; ok && i < all->n; i++) {
        adapter_check_pairs(&all->at[i]);
        ok = adapter_agree(all, &all->at[i], st, err);
    }
    ok = ok && (all->n == 0 || adapter_show_tensors(all, err));
    for (size_t i = 0; ok && i < all->n; i++)
        ok = adapter_add_config(all, &all->at[i], st, err);
    return ok;
}

bool zf_adapters_show(struct zf_build *b, const char *dir, struct zf_store *st,
                      struct zf_trained trained, struct zf_err *err)
{
    struct adapters all = {.b = b, .dir = dir, .trained = trained};
    bool ok = zf_build_prefix(b, dir, err) && adapter_all(&all, st, err);

    zf_vec_fini(&all);
    return ok && zf_build_prefix(b, "", err);
}
