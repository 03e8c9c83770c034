/* SPDX-License-Identifier: Apache-2.0 */
/* Only hashes of names are kept, and searched after all names were seen.  A hash collision could at worst make a file name
 * longer than needed; bytes never depend on it. */
#include <zf/assemble/names.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/arena.h>
#include <zf/base/hash.h>
#include <zf/base/name.h>
#include <zf/base/sorted.h>
#include <zf/base/table.h>
#include <zf/base/vec.h>

#include "optim_key.h"

/* DistributedDataParallel holds the model as its submodule "module". */
static const char ddp_word[] = "module.";

/* FSDP1 removes its prefix from the state dicts it makes, but not from every list of names that is saved with them (the
 * `param_names` of an optimizer).  Source: torch/distributed/fsdp/_common_utils.py, FSDP_PREFIX
 * (1.12 … 2.14). */
static const char fsdp_word[] = "_fsdp_wrapped_module.";

/* The key around container and optimizers in some saves, with much else of the trainer.  Source: composer/trainer/
 * trainer.py and core/state.py (0.32), {"state": {"model", "optimizers", …}, "rng"}. */
static const char *const outer_words[] = {"state"};

static const char *const master_words[] = {"fp32_param", "param", "master_param"};

#define OPTIM "optim/"

static const char *const own_names[] = {
    "optim",
    "stored",
    "adapter",
    "stacked",
    "trained",
    "bucket",
    "extra",
    "state",
    "npy",
    "hf",
    "as",
    "model.safetensors",
    "pytorch_model.bin",
};

/* Memory for a path without fsdp_word. */
struct wrappers {
    struct zf_out text;
    zf_vec(struct zf_step) step;
};

struct name_id {
    UT_hash_handle hh; /* key: a hash of head and id */
    const char *p;     /* the name, in the arena */
    size_t n;
};

struct zf_names {
    bool has[ZF_CONTAINERS], settled;
    struct zf_sorted params;  /* names of what is no optimizer entry */
    struct zf_sorted masters; /* names that have a master copy */
    struct zf_sorted entries; /* pairs: (key, name) or any number, head */
    struct name_id *ids;      /* uthash */
    struct names_pending *pending;
    struct zf_arena *arena;
    struct zf_out key, set, name, word;
    struct wrappers wrappers;
};

/* ---- paths ---- */

bool zf_path_join(struct zf_out *out, struct zf_path path, struct zf_err *err)
{
    zf_out_cut(out, 0);
    for (uint32_t i = 0; i < path.n; i++) {
        zf_out_str(out, i ? "." : "");
        zf_out_add(out, path.step[i].p, path.step[i].n);
    }
    return zf_out_ok(out, err);
}

const char *zf_path_encoded(struct zf_arena *a, const char *dir, const char *name, size_t n,
                            const char *suffix, struct zf_err *err)
{
    char file[ZF_NAME_MAX + 1];

    (void)zf_name_encode(file, name, n, suffix);
    return zf_arena_fmt(a, err, "%s/%s", dir, file);
}

static bool wrappers_in(struct zf_path path)
{
    bool found = false;

    for (uint32_t i = 0; !found && i < path.n; i++)
        found = memmem(path.step[i].p, path.step[i].n, fsdp_word, sizeof fsdp_word - 1) != NULL;
    return found;
}

/* Appends p[n] without fsdp_word. */
static void wrappers_copy(struct zf_out *out, const char *p, size_t n)
{
    const size_t word = sizeof fsdp_word - 1;

    for (const char *at; (at = memmem(p, n, fsdp_word, word));) {
        zf_out_add(out, p, (size_t)(at - p));
        n -= (size_t)(at - p) + word;
        p = at + word;
    }
    zf_out_add(out, p, n);
}

/* Removes fsdp_word from every step of *path, which then points into w, until the next call; a path without it is not
 * changed. */
static bool wrappers_off(struct wrappers *w, struct zf_path *path, struct zf_err *err)
{
    size_t at = 0;

    if (!wrappers_in(*path))
        return true;
    w->step.n = 0;
    zf_out_cut(&w->text, 0);
    if (!zf_vec_room(&w->step, path->n, err))
        return false;
    for (uint32_t i = 0; i < path->n; i++) {
        wrappers_copy(&w->text, path->step[i].p, path->step[i].n);
        w->step.at[i] = path->step[i];
        w->step.at[i].n = w->text.n - at;
        at = w->text.n;
    }
    if (!zf_out_ok(&w->text, err))
        return false;
    const char *text = zf_out_text(&w->text);
    for (uint32_t i = 0; i < path->n; i++) {
        w->step.at[i].p = text;
        text += w->step.at[i].n;
    }
    path->step = w->step.at;
    return true;
}

/* The path without an outer word, if a container or an optimizer is below it. */
static struct zf_path names_inside(struct zf_path path)
{
    const struct zf_step *s = path.step;

    if (path.n > 2 && !s[0].index && !s[1].index && ONE_OF(s[0].p, s[0].n, outer_words) &&
        (container_number(s[1].p, s[1].n) >= 0 || word_starts(s[1].p, s[1].n, "optim")))
        return (struct zf_path){.step = s + 1, .n = path.n - 1};
    return path;
}

uint64_t zf_path_hash(struct zf_path path)
{
    uint64_t h = path.n;

    for (uint32_t i = 0; i < path.n; i++)
        h = zf_hash(h, path.step[i].p, path.step[i].n);
    return h;
}

bool zf_names_extra_state(const char *key, size_t n)
{
    static const char tail[] = "_extra_state";
    size_t t = sizeof tail - 1;

    return n >= t && memcmp(key + n - t, tail, t) == 0;
}

/* ---- names seen ---- */

static uint64_t names_hash(const char *a, size_t an, const char *b, size_t bn)
{
    return zf_hash(zf_hash(0, a, an), b, bn);
}

static bool names_put(struct zf_sorted *s, const char *p, size_t n, struct zf_err *err)
{
    return zf_sorted_add(s, zf_hash(0, p, n), err);
}

/* An entry that waits until all names were seen: a flat one cannot be split, nor an id named, before. */
struct names_pending {
    struct names_pending *next;
    struct optim_key entry;
};

/* Removes "module." from the name of an optimizer entry: with DDP, optimizers use longer names than
 * the model's state dict.  A longer name that is a parameter's is kept. */
static void names_drop_ddp(struct zf_names *names, struct optim_key *e)
{
    const size_t w = sizeof ddp_word - 1;

    if (word_starts(e->name, e->name_len, ddp_word) &&
        !zf_sorted_has(&names->params, zf_hash(0, e->name, e->name_len)) &&
        zf_sorted_has(&names->params, zf_hash(0, e->name + w, e->name_len - w))) {
        e->name += w;
        e->name_len -= w;
    }
}

/* Sets the entry's name as shown: an integer id becomes the name of its parameter. */
static void names_reduce_entry(struct zf_names *names, struct optim_key *e)
{
    if (word_digits(e->name, e->name_len)) {
        const struct name_id *known =
            zf_table_find_id(names->ids, names_hash(e->head, e->head_len, e->name, e->name_len));
        if (known) {
            e->name = known->p;
            e->name_len = known->n;
        }
    }
    names_drop_ddp(names, e);
}

/* Is the entry a named parameter's master copy?  One with an unnamed id stays with the optimizer. */
static bool names_is_master(const struct optim_key *e)
{
    return ONE_OF(e->key, e->key_len, master_words) && !word_digits(e->name, e->name_len);
}

/* Numbers that nothing names count in each optimizer for itself: with a second optimizer none is clear without its head,
 * whatever states the two keep. */
static uint64_t names_entry_hash(const struct optim_key *e)
{
    const bool number = word_digits(e->name, e->name_len);

    return number ? names_hash("", 0, "", 0) : names_hash(e->key, e->key_len, e->name, e->name_len);
}

static bool names_remember_entry(struct zf_names *names, struct optim_key *e, struct zf_err *err)
{
    if (!optim_key_split(e, &names->params))
        return true;
    names_reduce_entry(names, e);
    if (!zf_sorted_add_pair(&names->entries, names_entry_hash(e), zf_hash(0, e->head, e->head_len),
                            err))
        return false;
    return !names_is_master(e) || names_put(&names->masters, e->name, e->name_len, err);
}

static bool names_postpone(struct zf_names *names, const struct optim_key *e, struct zf_err *err)
{
    struct names_pending *p = zf_arena_get(names->arena, 1, sizeof *p, err);

    if (!p)
        return false;
    p->entry = *e;
    p->entry.head = zf_arena_str(names->arena, e->head, e->head_len, err);
    if (!p->entry.head)
        return false;
    p->entry.text = zf_arena_str(names->arena, e->text, e->text_len, err);
    if (!p->entry.text)
        return false;
    if (e->name) {
        p->entry.name = p->entry.text + (e->name - e->text);
        p->entry.key = p->entry.text + (e->key - e->text);
    }
    p->next = names->pending;
    names->pending = p;
    return true;
}

static bool names_add(struct zf_names *names, struct zf_path path, struct zf_err *err)
{
    struct optim_key e;
    const char *key = zf_out_text(&names->key);
    size_t n = names->key.n;

    if (optim_key_parse(path, key, n, &e)) {
        /* Names and ids are complete only after all files were seen. */
        bool named = e.name && !word_digits(e.name, e.name_len) &&
                     !word_starts(e.name, e.name_len, ddp_word);
        return named ? names_remember_entry(names, &e, err) : names_postpone(names, &e, err);
    }
    int c = path.n > 1 ? container_number(path.step[0].p, path.step[0].n) : -1;
    if (c >= 0 && !path.step[1].index) {
        size_t at = path.step[0].n + 1;

        names->has[c] = true;
        if (!names_put(&names->params, key + at, n - at, err))
            return false;
    }
    return names_put(&names->params, key, n, err);
}

bool zf_names_add(struct zf_names *names, struct zf_path path, struct zf_err *err)
{
    if (!wrappers_off(&names->wrappers, &path, err))
        return false;
    path = names_inside(path);
    return zf_path_join(&names->key, path, err) && names_add(names, path, err);
}

bool zf_names_is_entry(struct zf_names *names, struct zf_path path)
{
    struct zf_err err;
    struct optim_key e;

    path = names_inside(path);
    return zf_path_join(&names->key, path, &err) &&
           optim_key_parse(path, zf_out_text(&names->key), names->key.n, &e);
}

bool zf_names_is_setting(struct zf_names *names, struct zf_path path)
{
    struct zf_err err;

    return !zf_names_is_entry(names, path) && zf_path_join(&names->key, names_inside(path), &err) &&
           optim_key_is_setting(zf_out_text(&names->key), names->key.n);
}

bool zf_names_add_flat(struct zf_names *names, const char *key, size_t n, struct zf_err *err)
{
    struct zf_step s = {.p = key, .n = n};

    return zf_names_add(names, (struct zf_path){.step = &s, .n = 1}, err);
}

bool zf_names_id(struct zf_names *names, const char *head, uint64_t id, const char *name,
                 size_t name_len, struct zf_err *err)
{
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%llu", (unsigned long long)id);
    struct zf_step step = {.p = name, .n = name_len};
    struct zf_path path = {.step = &step, .n = 1};
    bool bare = wrappers_off(&names->wrappers, &path, err);
    const char *copy = bare ? zf_arena_str(names->arena, path.step->p, path.step->n, err) : NULL;
    struct name_id *known =
        copy ? zf_table_make_id(names->ids, names_hash(head, strlen(head), digits, (size_t)n), err)
             : NULL;

    if (!known)
        return false;
    known->p = copy;
    known->n = path.step->n;
    return true;
}

/* Names the waiting entries, after all names were seen. */
static bool names_add_pending(struct zf_names *names, struct zf_err *err)
{
    for (struct names_pending *p = names->pending; p; p = p->next)
        if (!names_remember_entry(names, &p->entry, err))
            return false;
    names->pending = NULL;
    names->settled = true;
    return true;
}

/* ---- places ---- */

static bool names_place_set(struct zf_names *names, const char *dir, const char *p, size_t n,
                            struct zf_err *err)
{
    char file[ZF_NAME_MAX + 1];
    size_t len = zf_name_encode(file, p, n, "");

    zf_out_cut(&names->set, 0);
    zf_out_str(&names->set, dir);
    zf_out_add(&names->set, file, len);
    return zf_out_ok(&names->set, err);
}

/* The spot `name` in a set; set NULL: the set composed before. */
static bool names_place_as(struct zf_names *names, const char *set, const char *name, size_t n,
                           struct zf_spot *out, struct zf_err *err)
{
    if (set) {
        zf_out_cut(&names->set, 0);
        zf_out_str(&names->set, set);
    }
    zf_out_cut(&names->word, 0);
    zf_out_add(&names->word, name, n);
    *out = (struct zf_spot){zf_out_text(&names->set), zf_out_text(&names->word), names->word.n};
    return zf_out_ok(&names->set, err) && zf_out_ok(&names->word, err);
}

bool zf_names_is_optim(struct zf_spot spot)
{
    return strncmp(spot.set, OPTIM, strlen(OPTIM)) == 0;
}

static bool names_place_entry(struct zf_names *names, struct optim_key *e, struct zf_spot *out,
                              struct zf_err *err)
{
    names_reduce_entry(names, e);
    if (names_is_master(e))
        return names_place_as(names, "", e->name, e->name_len, out, err);
    size_t at, heads = zf_sorted_find(&names->entries, names_entry_hash(e), &at);
    zf_out_cut(&names->name, 0);
    if (heads > 1) {
        zf_out_add(&names->name, e->head, e->head_len);
        zf_out_str(&names->name, ".");
    }
    zf_out_add(&names->name, e->name, e->name_len);
    return zf_out_ok(&names->name, err) && names_place_set(names, OPTIM, e->key, e->key_len, err) &&
           names_place_as(names, NULL, names->name.p, names->name.n, out, err);
}

/* The spot of a weight: its reduced name, or stored/ if it has a master copy. */
static bool names_place_weight(struct zf_names *names, const char *name, size_t n,
                               struct zf_spot *out, struct zf_err *err)
{
    const bool shadowed = zf_sorted_has(&names->masters, zf_hash(0, name, n));

    return names_place_as(names, shadowed ? "stored" : "", name, n, out, err);
}

/* "rng", "np_rng", "cuda_rng_state": is one of the words of p[n] "rng"? */
static bool names_is_random_state(const char *p, size_t n)
{
    for (size_t at = 0; at < n;) {
        const char *end = memchr(p + at, '_', n - at);
        size_t len = end ? (size_t)(end - p) - at : n - at;

        if (word_is(p + at, len, "rng"))
            return true;
        at += len + 1;
    }
    return false;
}

static bool names_place_rest(struct zf_names *names, struct zf_path path, const char *key, size_t n,
                             struct zf_spot *out, struct zf_err *err)
{
    size_t head = path.step[0].n;

    if (path.n == 1)
        return names_place_as(names, "extra", key, n, out, err);
    if (!names_place_set(names, "", key, head, err))
        return false;
    if (zf_names_reserved(zf_out_text(&names->set)) || names_is_random_state(key, head))
        return names_place_as(names, "extra", key, n, out, err);
    return names_place_as(names, NULL, key + head + 1, n - head - 1, out, err);
}

static bool names_place(struct zf_names *names, struct zf_path path, struct zf_spot *out,
                        struct zf_err *err)
{
    struct optim_key e;
    const char *key = zf_out_text(&names->key);
    size_t n = names->key.n;

    if (optim_key_parse(path, key, n, &e) && optim_key_split(&e, &names->params))
        return names_place_entry(names, &e, out, err);
    if (word_starts(key, n, "rng_state"))
        return names_place_as(names, "extra", key, n, out, err);
    const char *container = zf_names_container(names);
    if (!container)
        return names_place_weight(names, key, n, out, err);
    if (path.n > 1 && word_is(path.step[0].p, path.step[0].n, container) && !path.step[1].index) {
        size_t at = path.step[0].n + 1;

        return names_place_weight(names, key + at, n - at, out, err);
    }
    return names_place_rest(names, path, key, n, out, err);
}

bool zf_names_place(struct zf_names *names, struct zf_path path, struct zf_spot *out,
                    struct zf_err *err)
{
    if (!(names->settled || names_add_pending(names, err)) ||
        !wrappers_off(&names->wrappers, &path, err))
        return false;
    if (zf_names_is_setting(names, path))
        return zf_names_extra(names, path, out, err);
    path = names_inside(path);
    return zf_path_join(&names->key, path, err) && names_place(names, path, out, err);
}

bool zf_names_place_flat(struct zf_names *names, const char *key, size_t n, struct zf_spot *out,
                         struct zf_err *err)
{
    struct zf_step s = {.p = key, .n = n};

    return zf_names_place(names, (struct zf_path){.step = &s, .n = 1}, out, err);
}

bool zf_names_extra(struct zf_names *names, struct zf_path path, struct zf_spot *out,
                    struct zf_err *err)
{
    return zf_path_join(&names->key, path, err) &&
           names_place_as(names, "extra", zf_out_text(&names->key), names->key.n, out, err);
}

const char *zf_names_blob(struct zf_names *names, struct zf_path path, struct zf_err *err)
{
    return zf_path_join(&names->key, path, err) &&
                   names_place_set(names, "extra/", zf_out_text(&names->key), names->key.n, err)
               ? zf_out_text(&names->set)
               : NULL;
}

const char *zf_names_container(const struct zf_names *names)
{
    for (int i = 0; i < ZF_CONTAINERS; i++)
        if (names->has[i])
            return container_name(i);
    return NULL;
}

bool zf_names_reserved(const char *encoded)
{
    return ONE_OF(encoded, strlen(encoded), own_names) ||
           word_starts(encoded, strlen(encoded), "mp_rank_");
}

struct zf_names *zf_names_new(struct zf_err *err)
{
    struct zf_names *names = calloc(1, sizeof *names);

    if (!names)
        return zf_null(zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for names"));
    names->arena = zf_arena_new(UINT64_MAX, err);
    if (!names->arena) {
        free(names);
        return NULL;
    }
    return names;
}

void zf_names_free(struct zf_names *names)
{
    if (!names)
        return;
    zf_sorted_fini(&names->params);
    zf_sorted_fini(&names->masters);
    zf_sorted_fini(&names->entries);
    zf_table_free(names->ids);
    zf_auto_out(&names->key);
    zf_auto_out(&names->set);
    zf_auto_out(&names->name);
    zf_auto_out(&names->word);
    zf_auto_out(&names->wrappers.text);
    zf_vec_fini(&names->wrappers.step);
    zf_arena_free(names->arena);
    free(names);
}
