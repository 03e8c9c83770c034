/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the tensors and files of hf/ from a proved plan. */
#include "plan.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/name.h>

bool make_note(struct zf_checkpoint *c, enum zf_note_kind kind, struct zf_err *err, const char *fmt,
               ...)
{
    char msg[480];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(msg, sizeof msg, fmt, args);
    va_end(args);
    struct zf_note *all = zf_arena_get(c->arena, c->n_notes + 1, sizeof *all, err);
    char *text = all ? zf_arena_str(c->arena, msg, strlen(msg), err) : NULL;
    if (!text)
        return false;
    if (c->n_notes)
        memcpy(all, c->note, c->n_notes * sizeof *all);
    all[c->n_notes++] = (struct zf_note){kind, "", text};
    c->note = all;
    return true;
}

/* ---- tensors ---------------------------------------------------------------------------------- */

static const struct zf_map *make_map(struct zf_checkpoint *c, const struct plan *p,
                                     const struct target *t, struct zf_err *err)
{
    struct zf_arena *a = c->arena;
    const struct zf_map **part = zf_arena_get(a, t->n_parts, sizeof(*part), err);
    uint64_t rows = 1;

    for (uint32_t i = 0; part && i < t->n_parts; i++) {
        const struct zf_tensor *from = given_tensor(&p->src, t->part[i].tensor);

        /* For a damaged tensor, only the bytes asked for are read. */
        part[i] = from->lost ? zf_map_strided(a, from->data, &t->part[i].how, err)
                             : zf_checkpoint_strided(c, from->data, &t->part[i].how, p->lim, err);
        if (!part[i])
            return NULL;
    }
    if (!part || t->n_parts == 1)
        return part ? part[0] : NULL;
    for (uint32_t d = 0; d < t->dim; d++)
        rows *= t->shape[d];
    return zf_map_columns(a, rows ? rows : 1, part, t->n_parts, err);
}

static int make_cmp(const void *a, const void *b)
{
    const struct zf_tensor *x = a, *y = b;

    return zf_name_cmp(x->name, x->name_len, y->name, y->name_len);
}

static bool make_set(struct zf_checkpoint *c, const struct plan *p, struct zf_set *out,
                     struct zf_err *err)
{
    struct zf_tensor *all = zf_arena_get(c->arena, p->target.n, sizeof *all, err);

    for (size_t i = 0; all && i < p->target.n; i++) {
        const struct target *t = &p->target.at[i];
        const size_t len = strlen(t->name);
        struct zf_tensor *to = &all[i];

        *to = (struct zf_tensor){
            .name = zf_arena_str(c->arena, t->name, len, err),
            .name_len = (uint32_t)len,
            .ndim = t->ndim,
            .dtype = t->dtype,
            .shape = zf_arena_copy(c->arena, t->shape, t->ndim, sizeof *t->shape, err),
            .data = make_map(c, p, t, err),
        };
        if (!to->name || !to->shape || !to->data)
            return false;
        for (uint32_t k = 0; k < t->n_parts; k++) {
            const struct zf_tensor *from = given_tensor(&p->src, t->part[k].tensor);

            to->lost = to->lost || from->lost;
            to->filled = to->filled || from->filled;
        }
    }
    if (!all)
        return false;
    qsort(all, p->target.n, sizeof *all, make_cmp);
    for (size_t i = 0; i < p->target.n; i++)
        all[i].alias_of = (uint32_t)i;
    *out = (struct zf_set){.path = "", .tensor = all, .n = (uint32_t)p->target.n};
    return true;
}

/* ---- files ------------------------------------------------------------------------------------ */

static int make_cmp_blob(const void *a, const void *b)
{
    const struct zf_blob *x = a, *y = b;

    return strcmp(x->path, y->path);
}

static bool make_blob(struct zf_checkpoint *c, const char *path, const struct zf_map *data,
                      struct zf_err *err)
{
    struct zf_blob *all = zf_arena_get(c->arena, c->n_blobs + 1, sizeof *all, err);

    if (!all)
        return false;
    if (c->n_blobs)
        memcpy(all, c->blob, c->n_blobs * sizeof *all);
    all[c->n_blobs] = (struct zf_blob){.path = path, .data = data};
    qsort(all, c->n_blobs + 1, sizeof *all, make_cmp_blob);
    c->blob = all;
    c->n_blobs++;
    return true;
}

/* Adds the JSON as a file; j may be NULL: out of memory. */
static bool make_file(struct zf_checkpoint *c, const char *path, json_t *j, struct zf_err *err)
{
    zf_auto(mem) char *text = j ? text_json(j, JSON_INDENT(2)) : NULL;
    const size_t n = text ? strlen(text) : 0;

    if (!text)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for %s", path);
    text[n] = '\n'; /* replaces the NUL */
    const char *bytes = zf_arena_str(c->arena, text, n + 1, err);
    const struct zf_map *data = bytes ? zf_map_of_mem(c->arena, bytes, n + 1, err) : NULL;
    return data && make_blob(c, path, data, err);
}

/* The dtype that most bytes of the set have. */
static const char *make_dtype(const struct zf_set *set)
{
    uint64_t bytes[ZF_DT_COUNT] = {0};
    enum zf_dtype most = ZF_DT_F32;

    for (uint32_t i = 0; i < set->n; i++) {
        const enum zf_dtype d = set->tensor[i].dtype;

        bytes[d] += zf_map_size(set->tensor[i].data);
        most = bytes[d] > bytes[most] ? d : most;
    }
    return zf_dtype_info(most)->torch;
}

static json_t *make_sizes(const struct plan *p)
{
    json_t *all = json_object();

    for (size_t i = 0; i < p->var.n; i++) {
        const struct var *v = &p->var.at[i];
        json_t *one = json_pack("{s:O, s:o}", "value", v->value, "from",
                                *v->from ? zf_json_text(v->from) : json_null());

        if (!all || !one || json_object_set_new_nocheck(all, v->name, one) != 0) {
            json_decref(all);
            return NULL;
        }
    }
    return all;
}

/* Do the tensors come from stored/? */
static bool make_is_stored(const struct plan *p)
{
    bool stored = false;

    for (size_t i = 0; !stored && i < p->use.n; i++) {
        const uint32_t k = p->use.at[i].tensor;

        stored = given_tensor(&p->src, k) != &p->src.set->tensor[k];
    }
    return stored;
}

static bool make_files(struct zf_checkpoint *c, const struct plan *p, struct zf_err *err)
{
    zf_auto(json) json_t *sizes = make_sizes(p);
    zf_auto(json) json_t *record =
        json_pack("{s:s, s:o, s:o, s:o?, s:O?, s:O, s:O, s:s}", "schema", "zerofs.recipe/1",
                  "recipe", zf_json_text(p->r->name), "title", zf_json_text(p->r->title),
                  "settings", p->file ? zf_json_text(p->file) : NULL, "sizes", sizes, "left_out",
                  p->left_out, "notes", p->notes, "weights", make_is_stored(p) ? "stored/" : "/");

    if (!record || !make_file(c, "hf/recipe.json", record, err))
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for recipe.json");
    if (p->filled)
        return make_file(c, "hf/config.json", p->filled, err);
    if (p->outside) {
        const bool root = strchr(p->outside_path, '/') == NULL;

        return root ||
               make_blob(c, "hf/config.json", zf_checkpoint_blob(c, p->outside_path)->data, err);
    }
    return (json_object_set_new(p->config, "torch_dtype", json_string(make_dtype(c->hf))) == 0 ||
            zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for config.json")) &&
           make_file(c, "hf/config.json", p->config, err);
}

bool make_model(struct zf_checkpoint *c, const struct plan *p, struct zf_err *err)
{
    struct zf_set *set = zf_arena_get(c->arena, 1, sizeof *set, err);

    if (!set || !make_set(c, p, set, err))
        return false;
    c->hf = set;
    for (size_t i = 0; i < json_array_size(p->notes); i++)
        if (!make_note(c, ZF_NOTE_OTHER, err, "hf/: %.300s",
                       json_string_value(json_array_get(p->notes, i))))
            return false;
    return make_files(c, p, err) &&
           make_note(c, ZF_NOTE_HF, err,
                     "hf/ is the model%s%.60s, by the recipe %.60s (hf/recipe.json)%s",
                     p->arch ? " " : "", p->arch ? p->arch : "", p->r->name,
                     make_is_stored(p) ? "; its weights are the ones in stored/" : "");
}
