/* SPDX-License-Identifier: Apache-2.0 */
/* The file names of a tag directory.
 * Source: deepspeed/runtime/engine.py (_get_*_ckpt_name), utils/zero_to_fp32.py,
 * 0.3.14 … 0.19.8. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/assemble/numbered.h>

#include "steps.h"

/* %d: data-parallel rank (EXPP: expert-parallel), %m: model-parallel rank (LAYER: tensor-parallel),
 * %l: layer, %e: expert, %w of %n: number of the parallel writer. */
static const struct {
    enum ds_kind kind;
    const char *form;
} files_forms[] = {
    {DS_MODEL, "mp_rank_%02m_model_states.pt[-%w.%n]"},
    {DS_MODEL, "zero_pp_rank_%d_mp_rank_%02m_model_states.pt[-%w.%n]"},
    {DS_OPTIM, "zero_pp_rank_%d_mp_rank_%02m_optim_states.pt[-%w.%n]"},
    {DS_OPTIM, "zero_pp_rank_%d_mp_rank_%02moptim_states.pt[-%w.%n]"}, /* before 0.3.14 */
    {DS_LAYER, "layer_%02l-model_states.pt"},
    {DS_LAYER, "layer_%02l-model_%02m-model_states.pt"}, /* with tensor parallelism */
    {DS_EXPERT, "layer_%l_expert_%e_mp_rank_%02m_model_states.pt[-%w.%n]"},
    {DS_EXPERT,
     "expert_%e_mp_rank_%02m_model_states.pt[-%w.%n]"}, /* before 0.6: one file for all layers */
    {DS_EXPP, "expp_rank_%d_mp_rank_%02m_optim_states.pt[-%w.%n]"}, /* a stub under ZeRO */
};

/* The field of f that a letter of a form stands for. */
static uint32_t *files_number(struct ds_file *f, char letter)
{
    return letter == 'd'   ? &f->dp
           : letter == 'm' ? &f->mp
           : letter == 'l' ? &f->layer
           : letter == 'e' ? &f->expert
                           : &f->writer;
}

/* Parses a file name.  False: it is not one of DeepSpeed's. */
static bool files_parse(const char *name, struct ds_file *f)
{
    static const char *const prefix[] = {"bf16_", "fp16_", ""};
    struct zf_numbered_file at;
    size_t i = 0;

    while (strncmp(name, prefix[i], strlen(prefix[i])) != 0)
        i++;
    *f = (struct ds_file){.path = name, .prefix = prefix[i]};
    for (size_t k = 0; k < sizeof files_forms / sizeof files_forms[0]; k++) {
        if (zf_numbered_fits(files_forms[k].form, name + strlen(f->prefix), &at)) {
            f->form = files_forms[k].form;
            for (const char *letter = "dmlew"; *letter; letter++) {
                uint32_t number = zf_numbered_get(f->form, &at, *letter);

                *files_number(f, *letter) = number == ZF_NO_NUMBER ? 0 : number;
            }
            f->kind = files_forms[k].kind;
            return true;
        }
    }
    return false;
}

const char *ds_file_name(struct ds_file f, char out[DS_FILE_NAME])
{
    const int n = snprintf(out, DS_FILE_NAME, "%s", f.prefix);
    struct zf_numbered_file at = {.name = ""};

    for (const char *letter = "dmle"; *letter; letter++)
        zf_numbered_set(f.form, &at, *letter, *files_number(&f, *letter));
    zf_numbered_set(f.form, &at, 'w', ZF_NO_NUMBER);
    zf_numbered_print(f.form, &at, out + n, DS_FILE_NAME - (size_t)n);
    return out;
}

/* Compares the first `keys` of kind, model-parallel rank, layer, expert, data-parallel rank and writer. */
static int files_cmp(const struct ds_file *a, const struct ds_file *b, int keys)
{
    const uint32_t x[] = {a->kind, a->mp, a->layer, a->expert, a->dp, a->writer};
    const uint32_t y[] = {b->kind, b->mp, b->layer, b->expert, b->dp, b->writer};
    int i = 0;

    while (i < keys && x[i] == y[i])
        i++;
    return i == keys ? 0 : x[i] < y[i] ? -1 : 1;
}
#define BY_RANK 5
#define BY_ALL 6

static int files_by_all(const void *a, const void *b)
{
    return files_cmp(a, b, BY_ALL);
}

bool ds_dir_owns(const char *name)
{
    struct ds_file f;

    return files_parse(name, &f) && (f.kind == DS_MODEL || f.kind == DS_OPTIM);
}

bool ds_dir_same_rank(const char *path, const char *source, struct zf_err *err)
{
    const char *bang = strrchr(source, '!'), *slash = bang ? strchr(bang, '/') : NULL;
    char name[160];
    struct ds_file was, now;

    if (!slash || (size_t)(slash - bang) + 3 > sizeof name)
        return true;
    (void)snprintf(name, sizeof name, "%.*s.pt", (int)(slash - bang - 1), bang + 1);
    if (!files_parse(name, &was) || !files_parse(path, &now) || was.kind != now.kind ||
        files_cmp(&was, &now, BY_RANK) == 0)
        return true;
    zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
            "it was saved as \"%s\", so it is the file of another %s", name,
            was.dp != now.dp || was.mp != now.mp ? "rank" : "layer or expert");
    return zf_err_in(err, "%s", path);
}

/* Drops the copies that the parallel writer makes of files other than optimizer and layer files.  f is sorted. */
static bool files_drop_copies(struct ds_file *f, uint32_t *n, struct zf_err *err)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < *n; i++) {
        const struct ds_file *last = kept ? &f[kept - 1] : NULL;
        bool copies = f[i].kind != DS_OPTIM && f[i].kind != DS_LAYER;

        if (!last || files_cmp(last, &f[i], BY_RANK) != 0) {
            f[kept++] = f[i];
        } else if (!copies || last->writer == f[i].writer) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "\"%s\" and \"%s\" are both files of rank %u: saves of two runs are "
                           "mixed in this directory",
                           last->path, f[i].path, f[i].dp);
        }
    }
    *n = kept;
    return true;
}

/* Files with and without a prefix in one directory are those of two runs. */
static bool files_one_prefix(const struct ds_dir *d, struct zf_err *err)
{
    for (uint32_t i = 1; i < d->n_optim; i++) {
        const char *a = d->optim[0].prefix, *b = d->optim[i].prefix;

        if (a != b) {
            return zf_fail(
                err, ZF_E_FORMAT, ZF_OFF_NONE,
                "\"%s\" and \"%s\" differ in the prefix \"%s\": saves of two runs are mixed in "
                "this directory",
                d->optim[0].path, d->optim[i].path, *a ? a : b);
        }
    }
    return true;
}

/* The files of one kind in the sorted list `all`. */
static struct ds_file *files_of(struct ds_file *all, uint32_t n_all, enum ds_kind kind, uint32_t *n)
{
    uint32_t from = 0, end;

    while (from < n_all && all[from].kind < kind)
        from++;
    for (end = from; end < n_all && all[end].kind == kind; end++) {
    }
    *n = end - from;
    return all + from;
}

static bool files_divide(struct ds_dir *d, struct ds_file *all, uint32_t n, struct zf_err *err)
{
    if (n > 0)
        qsort(all, n, sizeof *all, files_by_all);
    if (!files_drop_copies(all, &n, err))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        const struct ds_file *f = &all[i];
        bool mesh = f->kind == DS_MODEL || f->kind == DS_OPTIM;

        d->n_mp = mesh && f->mp >= d->n_mp ? f->mp + 1 : d->n_mp;
        d->by_rank = d->by_rank || (f->kind == DS_MODEL && strstr(f->form, "%d"));
        d->layer_model = d->layer_model || (f->kind == DS_LAYER && strstr(f->form, "%02m"));
    }
    d->model = files_of(all, n, DS_MODEL, &d->n_model);
    d->layer = files_of(all, n, DS_LAYER, &d->n_layers);
    d->expert = files_of(all, n, DS_EXPERT, &d->n_experts);
    d->expp = files_of(all, n, DS_EXPP, &d->n_expp);
    d->optim = files_of(all, n, DS_OPTIM, &d->n_optim);
    return files_one_prefix(d, err);
}

bool ds_dir_read(struct zf_store *st, struct zf_arena *a, struct ds_dir *out, struct zf_err *err)
{
    const struct zf_entry *e;
    struct ds_file *all;
    uint32_t n = 0;
    size_t n_entries;

    *out = (struct ds_dir){0};
    if (!zf_store_list(st, "", &e, &n_entries, err) ||
        !(all = zf_arena_get(a, n_entries, sizeof *all, err)))
        return false;
    for (size_t i = 0; i < n_entries; i++) {
        if (e[i].kind != ZF_ENTRY_DIR && files_parse(e[i].name, &all[n])) {
            all[n].path = zf_arena_str(a, e[i].name, strlen(e[i].name), err);
            if (!all[n++].path)
                return false;
        } else if (e[i].kind == ZF_ENTRY_DIR && strcmp(e[i].name, "offloaded_tensors") == 0) {
            out->swap = "offloaded_tensors";
        } else if (e[i].kind == ZF_ENTRY_DIR && strcmp(e[i].name, "zero") == 0) {
            out->universal = "zero";
        }
    }
    if (!files_divide(out, all, n, err))
        return false;
    out->universal = out->n_optim > 0 ? NULL : out->universal;
    return true;
}

/* ---- opening ahead ---- */

static const char **files_paths(struct ds_save *ds, const struct ds_file *file, uint32_t n,
                                struct zf_err *err)
{
    const char **path = zf_arena_get(ds->a, n, sizeof *path, err);

    for (uint32_t k = 0; path && k < n; k++)
        path[k] = file[k].path;
    return path;
}

bool ds_files_expect(struct ds_save *ds, const struct ds_file *file, uint32_t n, uint32_t n_dp,
                     struct zf_err *err)
{
    uint32_t k = 0;

    while (k < n && file[k].dp < n_dp)
        k++;
    const char **path = files_paths(ds, file, k, err);
    return path && zf_torch_ahead_begin(&ds->files, path, k, err);
}

bool ds_files_expect_alike(struct ds_save *ds, const char *first, const struct ds_file *file,
                           uint32_t n, struct zf_err *err)
{
    const char **path = files_paths(ds, file, n, err);

    return path && zf_torch_ahead_begin_alike(&ds->files, first, path, n, err);
}
