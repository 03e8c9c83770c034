/* SPDX-License-Identifier: Apache-2.0 */
/* Source: verl 0.9, utils/checkpoint/megatron_checkpoint_manager.py: save_checkpoint, _build_checkpoint_manifest; docs/advance/
 * checkpoint.rst.  ckpt_contents.json is written last; each of its `contents` has a path and a format:
 *
 *   model                     model/dist_ckpt, or model/huggingface (safetensors)
 *   hf_model                  model/huggingface in addition to `model`: the same weights
 *   peft_adapters             model/dist_ckpt, with the weights of an adapter only
 *   optimizer, lr_scheduler   optimizer/dist_ckpt
 *   rng_state                 extra/dist_ckpt
 *
 * The three dist_ckpt are one Megatron save, divided by key.  Megatron-FSDP has one save in model/dist_ckpt, even if
 * `contents` lists the optimizer elsewhere.  After scripts/migrate_megatron_checkpoint_layout.py all three are the same save. */
#include "steps.h"

#include <stdlib.h>
#include <string.h>

#include <zf/assemble/degraded.h>
#include <zf/assemble/files.h>
#include <zf/assemble/hf_index.h>
#include <zf/assemble/names.h>
#include <zf/assemble/save_dirs.h>
#include <zf/assemble/st_files.h>
#include <zf/base/path.h>
#include <zf/codec/json.h>

#define VERL_MANIFEST "ckpt_contents.json"
#define VERL_MODEL "model/dist_ckpt"
#define VERL_OPTIMIZER "optimizer/dist_ckpt"
#define VERL_EXTRA "extra/dist_ckpt"
#define VERL_HF "model/huggingface"

enum { VERL_SCHEMA = 2 };

/* ---- recognising such a save ----------------------------------------------------------------- */

static bool verl_has(struct zf_store *st, const char *dir, const char *name)
{
    char path[MG_PATH];

    (void)snprintf(path, sizeof path, "%.120s/%.60s", dir, name);
    return zf_save_dir_is(st, dir) && zf_store_has(st, path, ZF_ENTRY_FILE);
}

/* Is there a Megatron save in `dir`, finished or not? */
static bool verl_is_dist(struct zf_store *st, const char *dir)
{
    return verl_has(st, dir, "metadata.json") || verl_has(st, dir, ".metadata") ||
           verl_has(st, dir, MG_COMMON_FILE);
}

bool mg_verl_is_fsdp(struct zf_store *st)
{
    return verl_has(st, VERL_MODEL, ".metadata") && !verl_has(st, VERL_MODEL, "metadata.json") &&
           !verl_has(st, VERL_MODEL, MG_COMMON_FILE);
}

static json_t *verl_manifest(struct zf_store *st, const struct zf_limits *lim, struct zf_err *err)
{
    uint64_t n = 0;
    zf_auto(mem) char *text = zf_store_slurp(st, VERL_MANIFEST, lim->json_bytes, &n, err);
    json_t *j = text ? zf_json_load(text, n, lim, err) : NULL;

    if (!j)
        (void)zf_err_in(err, VERL_MANIFEST);
    return j;
}

bool mg_verl_probe(struct zf_store *st, const struct zf_limits *lim, struct zf_probe *out)
{
    struct zf_err ignored = {.code = ZF_OK};

    if (zf_store_has(st, VERL_MANIFEST, ZF_ENTRY_FILE)) {
        zf_auto(json) json_t *j = verl_manifest(st, lim, &ignored);
        const char *of = json_string_value(json_object_get(j, "framework"));

        if (of && strcmp(of, "megatron") != 0)
            return false;
        out->fit = ZF_FIT_PROOF;
        (void)snprintf(out->why, sizeof out->why, VERL_MANIFEST " names the parts of verl's save");
        return true;
    }
    /* The earlier layout had one dist_ckpt, which a migration does not remove. */
    if (!verl_is_dist(st, VERL_OPTIMIZER) ||
        !(verl_is_dist(st, VERL_MODEL) || zf_save_dir_is(st, VERL_HF)) ||
        zf_save_dir_is(st, "dist_ckpt"))
        return false;
    out->fit = ZF_FIT_PROOF;
    out->unfinished = true;
    (void)snprintf(out->why, sizeof out->why,
                   VERL_OPTIMIZER " is next to the weights, without " VERL_MANIFEST);
    return true;
}

/* ---- its directories ------------------------------------------------------------------------- */

static bool verl_add(struct mg_save *s, const char *dir, struct zf_err *err)
{
    for (uint32_t i = 0; i < s->n_dirs; i++)
        if (strcmp(s->dir[i], dir) == 0)
            return true;
    if (s->n_dirs == MG_DIRS) {
        return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE, "the save has more than %d directories",
                       MG_DIRS);
    }
    (void)snprintf(s->dir[s->n_dirs++], MG_DIR_MAX, "%s", dir);
    return true;
}

static bool verl_is_weights(const char *what)
{
    return strcmp(what, "model") == 0 || strcmp(what, "peft_adapters") == 0;
}

/* Takes one entry of `contents`. */
static bool verl_take(struct mg_save *s, const char *what, const json_t *entry, struct zf_err *err)
{
    const char *path = json_string_value(json_object_get(entry, "path"));
    const char *format = json_string_value(json_object_get(entry, "format"));

    if (!path || !format || !zf_relpath_ok(path) || strlen(path) >= MG_DIR_MAX) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "\"%.60s\" of contents has no path and format", what);
    }
    if (strcmp(format, "megatron_dist_checkpoint") == 0) {
        if (verl_has(s->st, path, "metadata.json") && verl_has(s->st, path, ".metadata"))
            return verl_add(s, path, err);
        return zf_build_note_names(s->b, path, "", err) && /* if it is forgiven */
               zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "lists %.60s in %.100s, but there is no finished save", what, path);
    }
    if (strcmp(what, "model") != 0)
        return true;
    s->foreign_weights = true;
    if (strcmp(path, VERL_HF) != 0) {
        return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                       "lists the model in %.80s in the format %.60s, which zerofs does not read",
                       path, format);
    }
    return zf_save_dir_is(s->st, VERL_HF) ||
           zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "lists the model in %s, which does not exist",
                   VERL_HF);
}

/* Takes all entries of `contents`.  Only the weights are indispensable. */
static bool verl_take_all(struct mg_save *s, const json_t *contents, struct zf_err *err)
{
    static const char *const first[] = {"model", "peft_adapters", "optimizer"};
    const char *what;
    const json_t *entry;

    for (size_t i = 0; i < sizeof first / sizeof *first; i++) {
        entry = json_object_get(contents, first[i]);
        if (entry && !verl_take(s, first[i], entry, err) &&
            (zf_err_in(err, VERL_MANIFEST) || verl_is_weights(first[i]) || !zf_forgive(s->b, err)))
            return false;
    }
    json_object_foreach((json_t *)contents, what, entry)
    {
        const char *format = json_string_value(json_object_get(entry, "format"));

        if (format && strcmp(format, "megatron_dist_checkpoint") == 0 && !verl_is_weights(what) &&
            strcmp(what, first[2]) != 0 && !verl_take(s, what, entry, err) &&
            (zf_err_in(err, VERL_MANIFEST) || !zf_forgive(s->b, err)))
            return false;
    }
    return true;
}

/* An unfinished save with -o degraded: takes the parts that exist. */
static bool verl_take_left(struct mg_save *s, struct zf_err *err)
{
    static const char *const dir[] = {VERL_MODEL, VERL_OPTIMIZER, VERL_EXTRA};

    s->foreign_weights = !verl_is_dist(s->st, VERL_MODEL);
    for (size_t i = 0; i < sizeof dir / sizeof *dir; i++)
        if (verl_is_dist(s->st, dir[i]) && !verl_add(s, dir[i], err))
            return false;
    return true;
}

/* Is .metadata of the directory i identical to that of the first? */
static bool verl_is_twin(const struct mg_save *s, uint32_t i)
{
    char path[2][MG_PATH];
    uint64_t n[2] = {0, 0};
    struct zf_err ignored = {.code = ZF_OK};
    const struct zf_entry *e[2] = {
        zf_store_find(s->st, mg_save_path(s, 0, ".metadata", path[0])),
        zf_store_find(s->st, mg_save_path(s, i, ".metadata", path[1])),
    };

    if (!e[0] || !e[1] || e[0]->id.size != e[1]->id.size)
        return false;
    zf_auto(mem) char *a = zf_store_slurp(s->st, path[0], e[0]->id.size, &n[0], &ignored);
    zf_auto(mem) char *b = zf_store_slurp(s->st, path[1], e[1]->id.size, &n[1], &ignored);
    return a && b && n[0] == n[1] && memcmp(a, b, n[0]) == 0;
}

/* Drops the copies in a migrated save, which is the same in all directories. */
static bool verl_drop_twins(struct mg_save *s, struct zf_err *err)
{
    uint32_t n = s->n_dirs ? 1 : 0;

    for (uint32_t i = 1; i < s->n_dirs; i++)
        if (!verl_is_twin(s, i))
            memmove(s->dir[n++], s->dir[i], MG_DIR_MAX);
        else if (!zf_build_note_on(s->b, ZF_NOTE_UNSHOWN, s->dir[i], err,
                                   "%s is not shown: its .metadata is a copy of the one in %s",
                                   s->dir[i], s->dir[0]))
            return false;
    s->n_dirs = n;
    return true;
}

/* *out: N of global_step_N, the parent of the role's directory. */
static bool verl_step_above(struct zf_store *st, uint64_t *out)
{
    static const char word[] = "global_step_";
    const char *name = zf_store_name(st), *end = strrchr(name, '/'), *at = end;

    while (at && at > name && at[-1] != '/')
        at--;
    if (!at || strncmp(at, word, sizeof word - 1) != 0)
        return false;
    at += sizeof word - 1;
    size_t n = strspn(at, "0123456789");
    *out = strtoull(at, NULL, 10);
    return n > 0 && n < 18 && at + n == end;
}

static bool verl_take_step(struct mg_save *s, const json_t *j, struct zf_err *err)
{
    uint64_t step, of;

    if (!zf_json_u64(json_object_get(j, "global_step"), &step))
        return true;
    if (verl_step_above(s->st, &of) && of != step) {
        zf_fail(
            err, ZF_E_FORMAT, ZF_OFF_NONE,
            "global_step is %llu, but the folder is named global_step_%llu: are two saves mixed?",
            (unsigned long long)step, (unsigned long long)of);
        if (zf_err_in(err, VERL_MANIFEST) || !zf_forgive(s->b, err))
            return false;
    }
    s->iterated = true;
    s->iteration = step;
    if (step <= INT64_MAX)
        zf_build_step(s->b, (int64_t)step);
    return true;
}

static bool verl_note(struct mg_save *s, bool model, struct zf_err *err)
{
    if (s->foreign_weights) {
        return zf_build_note(s->b, err,
                             "the weights are read from " VERL_HF
                             ", under Hugging Face names; the optimizer keeps Megatron's names");
    }
    if (!model && !mg_verl_is_fsdp(s->st))
        return zf_build_note_on(s->b, ZF_NOTE_NO_WEIGHTS, NULL, err,
                                "the save has no weights: " VERL_MANIFEST " names none");
    return !zf_save_dir_is(s->st, VERL_HF) ||
           zf_build_note_on(
               s->b, ZF_NOTE_UNSHOWN, VERL_HF, err,
               VERL_HF " is not shown, except for its side files: it is an export of " VERL_MODEL
                       ". Point at it to see it");
}

static bool verl_read(struct mg_save *s, struct zf_err *err)
{
    zf_auto(json) json_t *j = verl_manifest(s->st, s->lim, err);
    const json_t *version = json_object_get(j, "schema_version");
    const json_t *contents = json_object_get(j, "contents");

    if (!j)
        return false;
    if (!json_is_integer(version) || json_integer_value(version) != VERL_SCHEMA) {
        zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                "this verl save has schema_version %lld, but only %d is read. Point at a dist_ckpt "
                "or huggingface directory in it",
                (long long)json_integer_value(version), VERL_SCHEMA);
        return zf_err_in(err, VERL_MANIFEST);
    }
    if (!json_is_object(contents)) {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "there is no object \"contents\"");
        return zf_err_in(err, VERL_MANIFEST);
    }
    if (!verl_take_step(s, j, err))
        return false;
    if (mg_verl_is_fsdp(s->st))
        return verl_add(s, VERL_MODEL, err) && verl_note(s, true, err);
    if (!verl_take_all(s, contents, err))
        return false;
    bool adapter = json_object_get(contents, "peft_adapters") != NULL;
    /* then huggingface/ has the same adapter */
    s->foreign_weights = s->foreign_weights && !adapter;
    return verl_drop_twins(s, err) &&
           verl_note(s, adapter || json_object_get(contents, "model"), err);
}

bool mg_verl_find(struct mg_save *s, struct zf_err *err)
{
    struct zf_probe probe = {.fit = ZF_FIT_NO};
    char is[ZF_ABSENT_MAX];

    if (!mg_verl_probe(s->st, s->lim, &probe))
        return true;
    s->in_parts = true;
    s->n_dirs = 0;
    if (!probe.unfinished)
        return verl_read(s, err);
    if (!verl_take_left(s, err) || !verl_drop_twins(s, err))
        return false;
    if (s->n_dirs == 1 && !s->foreign_weights)
        return verl_note(s, true, err); /* migrated, which writes no manifest */
    zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
            "the save is incomplete: " VERL_MANIFEST ", which is written last, %s",
            zf_absent(s->st, VERL_MANIFEST, is));
    return zf_forgive(s->b, err) && verl_note(s, true, err);
}

bool mg_verl_note_above(const struct zf_save *save, const struct zf_open_opts *o,
                        struct zf_build *b, struct zf_err *err)
{
    struct zf_err ignored = {.code = ZF_OK};
    struct zf_probe probe = {.fit = ZF_FIT_NO};
    char name[4096];

    if (strcmp(zf_store_base(save->store), "dist_ckpt") != 0 || zf_store_is_far(save->store) ||
        snprintf(name, sizeof name, "%s/../..", zf_store_name(save->store)) >= (int)sizeof name)
        return true;
    zf_auto(store) struct zf_store *above = zf_store_by(o->opener, name, o->lim, &ignored);
    return !above || !mg_verl_probe(above, o->lim, &probe) ||
           zf_build_note(b, err,
                         "this is part of the save in ../.. Point at that to see the whole save");
}

/* ---- weights of Hugging Face ------------------------------------------------------------------ */

struct verl_weights {
    struct mg_save *s;
    struct zf_st_files *files;
    struct zf_names *names;
};

static bool verl_add_named(void *ctx, const char *file, bool here, struct zf_err *err)
{
    const struct verl_weights *w = ctx;

    return here ? zf_st_files_add(w->files, w->s->st, file, w->s->lim, w->s->b, err)
                : zf_st_files_lack(w->files, err, "%s", file);
}

static const char *verl_lacks(void *ctx, const char *tensor, const char *file)
{
    const struct verl_weights *w = ctx;
    struct zf_err ignored = {.code = ZF_OK};
    struct zf_spot spot;

    (void)file;
    return zf_names_place_flat(w->names, tensor, strlen(tensor), &spot, &ignored) &&
                   zf_build_find(w->s->b, spot)
               ? NULL
               : "does not hold it";
}

/* Adds every safetensors file of the directory. */
static bool verl_add_all(struct verl_weights *w, struct zf_err *err)
{
    struct zf_store *st = w->s->st;
    const struct zf_entry *e;
    size_t n;

    if (!zf_store_list(st, VERL_HF, &e, &n, err))
        return false;
    for (size_t i = 0; i < n; i++) {
        zf_auto(mem) char *path = zf_relpath_join(VERL_HF, e[i].name, err);

        if (!path || (e[i].kind != ZF_ENTRY_DIR && zf_st_file_named(e[i].name) &&
                      !verl_add_named(w, path, true, err)))
            return false;
    }
    return w->files->n + w->files->n_skipped > 0 ||
           zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   VERL_MANIFEST " lists the model in " VERL_HF
                                 ", but there is no safetensors file there");
}

static bool verl_place(struct verl_weights *w, const struct zf_st_file *f,
                       const struct zf_st_entry *e, struct zf_err *err)
{
    const struct zf_from from = {.src = f->src, .off = e->begin};
    struct zf_build *b = w->s->b;
    struct zf_draft *d;
    struct zf_spot spot;

    if (!zf_names_place_flat(w->names, e->name, e->name_len, &spot, err))
        return false;
    if (zf_build_find(b, spot)) {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "tensor \"%.80s\" is also in another file", e->name);
        return zf_err_in(err, "%s", f->path);
    }
    d = zf_build_tensor(b, spot, (struct zf_type){e->dtype, e->ndim, e->shape}, err);
    return d && zf_draft_where(d, f->path, err) && zf_draft_noted(d, err) &&
           zf_draft_flat(d, 0, (e->end - e->begin) / zf_dtype_info(e->dtype)->bytes, from, err);
}

/* see: shows the names first, without placing. */
static bool verl_each(struct verl_weights *w, bool see, struct zf_err *err)
{
    for (size_t i = 0; i < w->files->n; i++) {
        const struct zf_st_file *f = &w->files->at[i];

        for (uint64_t k = 0; k < f->head.n; k++) {
            const struct zf_st_entry *e = &f->head.entry[k];

            if (!(see ? zf_names_add_flat(w->names, e->name, e->name_len, err)
                      : verl_place(w, f, e, err)))
                return false;
        }
    }
    return true;
}

bool mg_verl_weights(struct mg_save *s, struct zf_err *err)
{
    zf_auto(st_files) struct zf_st_files files = {.n = 0};
    zf_auto(st_index) struct zf_st_index x = {.path = NULL};
    zf_auto(names) struct zf_names *names = zf_names_new(err);
    zf_auto(mem) char *index = NULL;
    struct verl_weights w = {s, &files, names};
    const struct zf_st_index_reader r = {.ctx = &w, .add = verl_add_named, .lacks = verl_lacks};

    if (!names || !zf_st_files_init(&files, s->lim, err) ||
        !zf_st_index_find(s->st, VERL_HF, NULL, ".safetensors.index.json", &index, err))
        return false;
    zf_st_files_expect(&files, s->st, VERL_HF);
    if (index && !zf_st_index_load(s->st, index, s->lim, &x, err) && !zf_forgive(s->b, err))
        return false;
    return (x.path ? zf_st_index_read(&x, s->st, &r, s->b, err) : verl_add_all(&w, err)) &&
           zf_st_files_some(&files, err) && verl_each(&w, true, err) && verl_each(&w, false, err) &&
           (!x.path || zf_st_index_check(&x, &r, s->b, err)) &&
           zf_st_files_metadata(&files, s->b, err);
}
