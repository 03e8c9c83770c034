/* SPDX-License-Identifier: Apache-2.0 */
/* The file names of a tag directory.
 * Source: deepspeed/runtime/engine.py (_get_*_ckpt_name), utils/zero_to_fp32.py,
 * 0.3.14 … 0.19.8. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "steps.h"

/* Takes `text` off the front of *s. */
static bool files_take(const char **s, const char *text)
{
    size_t n = strlen(text);

    if (strncmp(*s, text, n) != 0) {
        return false;
    }
    *s += n;
    return true;
}

/* Takes a decimal number off the front of *s. */
static bool files_take_number(const char **s, uint32_t *out)
{
    uint64_t v = 0;
    const char *p = *s;

    for (; *p >= '0' && *p <= '9'; p++) {
        v = 10 * v + (uint64_t)(*p - '0');
        if (v > UINT32_MAX / 2) {
            return false;
        }
    }
    if (p == *s) {
        return false;
    }
    *s = p;
    *out = (uint32_t)v;
    return true;
}

/* Takes the end of a name behind ".pt": nothing, or "-W.N" of the parallel writer. */
static bool files_take_end(const char *s, uint32_t *writer)
{
    uint32_t n;

    *writer = 0;
    return *s == '\0' || (files_take(&s, "-") && files_take_number(&s, writer) &&
                          files_take(&s, ".") && files_take_number(&s, &n) && *s == '\0');
}

enum files_kind { OTHER, MODEL, RANK_MODEL, OPTIM, LAYER, EXPERT, EXPP };

static enum files_kind files_parse_zero(const char *s, struct ds_file *f)
{
    if (!files_take_number(&s, &f->dp) || !files_take(&s, "_mp_rank_") ||
        !files_take_number(&s, &f->mp)) {
        return OTHER;
    }
    if (files_take(&s, "_model_states.pt")) {
        return files_take_end(s, &f->writer) ? RANK_MODEL : OTHER;
    }
    /* releases before 0.3.14 left the underscore out */
    if (files_take(&s, "_optim_states.pt") || files_take(&s, "optim_states.pt")) {
        return files_take_end(s, &f->writer) ? OPTIM : OTHER;
    }
    return OTHER;
}

/* "layer_LL-model_states.pt", or "layer_LL-model_TT-model_states.pt" where the job's mesh has a tensor
 * axis.  Source: deepspeed/runtime/pipe/module.py (ckpt_layer_path). */
static enum files_kind files_parse_layer(const char *s, struct ds_file *f)
{
    const char *end = s;

    if (files_take(&end, "-model_states.pt") && *end == '\0') {
        return LAYER;
    }
    return files_take(&s, "-model_") && files_take_number(&s, &f->mp) &&
                   files_take(&s, "-model_states.pt") && *s == '\0'
               ? LAYER
               : OTHER;
}

/* "E_mp_rank_00_model_states.pt"; until 0.6 a file held that expert of all layers. */
static enum files_kind files_parse_expert(const char *s, struct ds_file *f)
{
    return files_take_number(&s, &f->expert) && files_take(&s, "_mp_rank_") &&
                   files_take_number(&s, &f->mp) && files_take(&s, "_model_states.pt") &&
                   files_take_end(s, &f->writer)
               ? EXPERT
               : OTHER;
}

/* "R_mp_rank_00_optim_states.pt": the optimizer of expert-parallel rank R, a stub under ZeRO. */
static enum files_kind files_parse_expp(const char *s, struct ds_file *f)
{
    return files_take_number(&s, &f->dp) && files_take(&s, "_mp_rank_") &&
                   files_take_number(&s, &f->mp) && files_take(&s, "_optim_states.pt") &&
                   files_take_end(s, &f->writer)
               ? EXPP
               : OTHER;
}

static enum files_kind files_parse(const char *name, struct ds_file *f)
{
    const char *s = name;

    *f = (struct ds_file){.path = name};
    f->bf16 = files_take(&s, "bf16_");
    if (files_take(&s, "zero_pp_rank_") || files_take(&s, "fp16_zero_pp_rank_")) {
        return files_parse_zero(s, f);
    }
    if (files_take(&s, "mp_rank_")) {
        return files_take_number(&s, &f->mp) && files_take(&s, "_model_states.pt") &&
                       files_take_end(s, &f->writer)
                   ? MODEL
                   : OTHER;
    }
    if (files_take(&s, "layer_") && files_take_number(&s, &f->layer)) {
        return *s == '-'                    ? files_parse_layer(s, f)
               : files_take(&s, "_expert_") ? files_parse_expert(s, f)
                                            : OTHER;
    }
    s = name;
    if (files_take(&s, "expp_rank_")) {
        return files_parse_expp(s, f);
    }
    return files_take(&s, "expert_") ? files_parse_expert(s, f) : OTHER;
}

bool ds_dir_owns(const char *name)
{
    struct ds_file f;
    enum files_kind kind = files_parse(name, &f);

    return kind == MODEL || kind == RANK_MODEL || kind == OPTIM;
}

bool ds_dir_same_rank(const char *path, const char *source, struct zf_err *err)
{
    const char *bang = strrchr(source, '!'), *slash = bang ? strchr(bang, '/') : NULL;
    char name[160];
    struct ds_file was, now;

    if (!slash || (size_t)(slash - bang) + 3 > sizeof name) {
        return true;
    }
    (void)snprintf(name, sizeof name, "%.*s.pt", (int)(slash - bang - 1), bang + 1);
    if (files_parse(name, &was) != files_parse(path, &now) ||
        (was.dp == now.dp && was.mp == now.mp && was.layer == now.layer &&
         was.expert == now.expert)) {
        return true;
    }
    zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "it was written as \"%s\", the file of another %s", name,
            was.dp != now.dp || was.mp != now.mp ? "rank" : "layer or expert");
    return zf_err_in(err, "%s", path);
}

static int files_by_rank(const void *pa, const void *pb)
{
    const struct ds_file *a = pa, *b = pb;

    if (a->mp != b->mp) {
        return a->mp < b->mp ? -1 : 1;
    }
    if (a->layer != b->layer) {
        return a->layer < b->layer ? -1 : 1;
    }
    if (a->expert != b->expert) {
        return a->expert < b->expert ? -1 : 1;
    }
    if (a->dp != b->dp) {
        return a->dp < b->dp ? -1 : 1;
    }
    return (a->writer > b->writer) - (a->writer < b->writer);
}

/* Sorts the files and drops the copies that the parallel writer makes of a model file. */
static bool files_settle(struct ds_file *f, uint32_t *n, bool copies, struct zf_err *err)
{
    uint32_t kept = 0;

    qsort(f, *n, sizeof *f, files_by_rank);
    for (uint32_t i = 0; i < *n; i++) {
        const struct ds_file *last = kept ? &f[kept - 1] : NULL;

        if (!last || last->mp != f[i].mp || last->dp != f[i].dp || last->layer != f[i].layer ||
            last->expert != f[i].expert) {
            f[kept++] = f[i];
        } else if (!copies || last->writer == f[i].writer) {
            return zf_fail(
                err, ZF_E_FORMAT, ZF_OFF_NONE,
                "\"%s\" and \"%s\" both claim to be rank %u: saves of two runs are mixed "
                "in this directory",
                last->path, f[i].path, f[i].dp);
        }
    }
    *n = kept;
    return true;
}

/* A directory written with and without "bf16_" holds the ranks of two runs. */
static bool files_one_prefix(const struct ds_dir *d, struct zf_err *err)
{
    for (uint32_t i = 1; i < d->n_optim; i++) {
        if (d->optim[i].bf16 != d->optim[0].bf16) {
            return zf_fail(
                err, ZF_E_FORMAT, ZF_OFF_NONE,
                "\"%s\" and \"%s\" differ in the prefix \"bf16_\": saves of two runs are "
                "mixed in this directory",
                d->optim[0].path, d->optim[i].path);
        }
    }
    return true;
}

static void files_note_mp(struct ds_dir *d, uint32_t mp)
{
    if (mp >= d->n_mp) {
        d->n_mp = mp + 1;
    }
}

static bool files_add_file(struct ds_dir *d, struct zf_arena *a, const char *name,
                           struct zf_err *err)
{
    struct ds_file f;
    enum files_kind k = files_parse(name, &f);

    if (k == OTHER) {
        return true;
    }
    f.path = zf_arena_str(a, name, strlen(name), err);
    if (!f.path) {
        return false;
    }
    switch (k) {
    case LAYER:
        d->layer_model = d->layer_model || strstr(f.path, "-model_states") != strchr(f.path, '-');
        d->layer[d->n_layers++] = f;
        break;
    case EXPERT:
        d->expert[d->n_experts++] = f;
        break;
    case EXPP:
        d->expp[d->n_expp++] = f;
        break;
    case OPTIM:
        d->optim[d->n_optim++] = f;
        files_note_mp(d, f.mp);
        break;
    default:
        d->by_rank = d->by_rank || k == RANK_MODEL;
        d->model[d->n_model++] = f;
        files_note_mp(d, f.mp);
    }
    return true;
}

bool ds_dir_read(struct zf_store *st, struct zf_arena *a, struct ds_dir *out, struct zf_err *err)
{
    const struct zf_entry *e;
    size_t n;

    *out = (struct ds_dir){0};
    if (!zf_store_list(st, "", &e, &n, err) ||
        !(out->model = zf_arena_get(a, n, sizeof *out->model, err)) ||
        !(out->layer = zf_arena_get(a, n, sizeof *out->layer, err)) ||
        !(out->expp = zf_arena_get(a, n, sizeof *out->expp, err)) ||
        !(out->expert = zf_arena_get(a, n, sizeof *out->expert, err)) ||
        !(out->optim = zf_arena_get(a, n, sizeof *out->optim, err))) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (e[i].kind != ZF_ENTRY_DIR && !files_add_file(out, a, e[i].name, err)) {
            return false;
        }
        if (e[i].kind == ZF_ENTRY_DIR && strcmp(e[i].name, "offloaded_tensors") == 0) {
            out->swap = "offloaded_tensors";
        }
        if (e[i].kind == ZF_ENTRY_DIR && strcmp(e[i].name, "zero") == 0) {
            out->universal = "zero";
        }
    }
    if (out->n_optim > 0) {
        out->universal = NULL;
    }
    return files_settle(out->model, &out->n_model, true, err) &&
           files_settle(out->layer, &out->n_layers, false, err) &&
           files_settle(out->expert, &out->n_experts, true, err) &&
           files_settle(out->expp, &out->n_expp, true, err) &&
           files_settle(out->optim, &out->n_optim, false, err) && files_one_prefix(out, err);
}

/* ---- opening ahead ---- */

static const char **files_paths(struct ds_save *ds, const struct ds_file *file, uint32_t n,
                                struct zf_err *err)
{
    const char **path = zf_arena_get(ds->a, n, sizeof *path, err);

    for (uint32_t k = 0; path && k < n; k++) {
        path[k] = file[k].path;
    }
    return path;
}

bool ds_files_expect(struct ds_save *ds, const struct ds_file *file, uint32_t n, uint32_t n_dp,
                     struct zf_err *err)
{
    uint32_t k = 0;

    while (k < n && file[k].dp < n_dp) {
        k++;
    }
    const char **path = files_paths(ds, file, k, err);
    return path && zf_torch_ahead_begin(&ds->files, path, k, err);
}

bool ds_files_expect_alike(struct ds_save *ds, const char *first, const struct ds_file *file,
                           uint32_t n, struct zf_err *err)
{
    const char **path = files_paths(ds, file, n, err);

    return path && zf_torch_ahead_begin_alike(&ds->files, first, path, n, err);
}
