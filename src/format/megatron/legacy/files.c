/* SPDX-License-Identifier: Apache-2.0 */
/* mp_rank_TT[_PPP][_EEE]: the name has the pipeline rank only with more than one stage, and the expert
 * rank only with more than one part, so two numbers are ambiguous without the sizes.
 * Source: megatron/training/checkpointing.py (get_checkpoint_name, save_checkpoint), 0.4 … 0.19. */
#include "files.h"

#include <stdio.h>
#include <string.h>

#define FILES_PREFIX "mp_rank_"
#define FILES_MODEL "model_optim_rng.pt"
#define FILES_MODEL_ALONE "model_rng.pt" /* its optimizer: */
#define FILES_OPTIM "optim.pt"
#define FILES_DISTRIB "distrib_optim.pt"
#define FILES_MESH (1u << 20) /* the most ranks that the recorded sizes may claim */

bool legacy_files_parse(const char *name, struct legacy_file *out)
{
    const char *p = name + sizeof FILES_PREFIX - 1;

    *out = (struct legacy_file){.dir = name};
    if (strncmp(name, FILES_PREFIX, sizeof FILES_PREFIX - 1) != 0)
        return false;
    for (;; p++) {
        size_t n = strspn(p, "0123456789");

        if (n == 0 || n > 6 || out->n_numbers == 3)
            return false;
        for (size_t i = 0; i < n; i++)
            out->number[out->n_numbers] = 10 * out->number[out->n_numbers] + (uint32_t)(p[i] - '0');
        out->n_numbers++;
        p += n;
        if (*p != '_')
            return *p == '\0';
    }
}

bool legacy_files_any(struct zf_store *st)
{
    struct legacy_file f;

    for (struct zf_entries l = zf_store_entries(st, ""); l.e < l.end; l.e++)
        if (l.e->kind == ZF_ENTRY_DIR && legacy_files_parse(l.e->name, &f))
            return true;
    return false;
}

const char *legacy_files_distrib(const struct legacy_file *f, struct zf_arena *a,
                                 struct zf_err *err)
{
    return zf_arena_fmt(a, err, "%s/" FILES_DISTRIB, f->dir);
}

/* *out: the path of the file in the folder if it exists; else not changed. */
static bool files_path(struct zf_store *st, struct zf_arena *a, const char *dir, const char *name,
                       const char **out, struct zf_err *err)
{
    char *path = zf_arena_fmt(a, err, "%s/%s", dir, name);

    if (path && zf_store_find(st, path))
        *out = path;
    return path != NULL;
}

/* Finds the files of one folder.  A folder with an optimizer's file only belongs to a data-parallel rank, not to
 * a model-parallel one: *of_model = false.
 * Source: megatron/checkpointing.py (get_checkpoint_names) of Megatron-LM 3.0. */
static bool files_look(struct zf_store *st, struct zf_arena *a, struct legacy_file *f,
                       struct legacy_files *out, bool *of_model, struct zf_err *err)
{
    const char *alone = NULL, *optim = NULL;

    if (!files_path(st, a, f->dir, FILES_MODEL, &f->path, err) ||
        !files_path(st, a, f->dir, FILES_MODEL_ALONE, &alone, err) ||
        !files_path(st, a, f->dir, FILES_OPTIM, &optim, err) ||
        !files_path(st, a, f->dir, FILES_DISTRIB, &f->distrib, err))
        return false;
    out->n_optim += optim != NULL;
    *of_model = f->path || alone || !optim;
    const char *model = f->path ? FILES_MODEL : alone ? FILES_MODEL_ALONE : NULL;
    if ((f->path && alone) || (model && out->model && strcmp(model, out->model) != 0)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "%s: there are both " FILES_MODEL " and " FILES_MODEL_ALONE
                       " in the folders of the ranks: two saves are mixed",
                       f->dir);
    }
    out->model = model ? model : out->model;
    f->path = f->path ? f->path : alone;
    return true;
}

bool legacy_files_list(struct zf_store *st, struct zf_arena *a, struct legacy_files *out,
                       struct zf_err *err)
{
    const struct zf_entry *e;
    size_t n;

    *out = (struct legacy_files){0};
    if (!zf_store_list(st, "", &e, &n, err) ||
        !(out->file = zf_arena_get(a, n, sizeof *out->file, err)))
        return false;
    for (size_t i = 0; i < n; i++) {
        struct legacy_file *f = &out->file[out->n];
        bool of_model;

        if (e[i].kind != ZF_ENTRY_DIR || !legacy_files_parse(e[i].name, f))
            continue;
        f->dir = zf_arena_str(a, e[i].name, strlen(e[i].name), err);
        if (!f->dir || !files_look(st, a, f, out, &of_model, err))
            return false;
        out->n += of_model;
    }
    out->model = out->model ? out->model : FILES_MODEL;
    return true;
}

/* ---- the rank of each folder ---- */

static uint32_t files_most(const struct legacy_files *f, uint32_t k)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < f->n; i++) {
        most =
            f->file[i].n_numbers > k && f->file[i].number[k] > most ? f->file[i].number[k] : most;
    }
    return most + 1;
}

/* Determines the axes of the numbers in a name, and the axes' sizes; returns the number of numbers. */
static uint32_t files_axes(struct legacy_files *f, const struct megatron_settings *s,
                           enum zf_axis axis[3])
{
    uint64_t pp = s->pipeline_model_parallel_size, ep = s->expert_model_parallel_size;
    uint32_t n = 1;

    axis[0] = ZF_AXIS_TENSOR;
    if (pp > 1)
        axis[n++] = ZF_AXIS_PIPELINE;
    if (ep > 1)
        axis[n++] = ZF_AXIS_EXPERT;
    f->said = pp > 0 || ep > 0 || s->tensor_model_parallel_size > 0;
    if (!f->said) {
        axis[1] = ZF_AXIS_PIPELINE; /* the sizes are not recorded: releases before experts */
        n = f->n > 0 ? f->file[0].n_numbers : 1;
        for (uint32_t k = 0; k < n && k < 2; k++)
            f->mesh.size[axis[k]] = files_most(f, k);
        return n < 2 ? n : 2;
    }
    f->mesh.size[ZF_AXIS_TENSOR] = (uint32_t)s->tensor_model_parallel_size;
    f->mesh.size[ZF_AXIS_PIPELINE] = (uint32_t)pp;
    f->mesh.size[ZF_AXIS_EXPERT] = (uint32_t)ep;
    return n;
}

static bool files_place(const struct legacy_files *f, struct legacy_file *file,
                        const enum zf_axis axis[3], uint32_t n, struct zf_err *err)
{
    if (file->n_numbers != n) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "the folder's name has %u numbers, but %u sizes in args are above one "
                       "(tensor %u, pipeline %u, expert %u), expected %u numbers",
                       file->n_numbers, n, f->mesh.size[ZF_AXIS_TENSOR],
                       f->mesh.size[ZF_AXIS_PIPELINE], f->mesh.size[ZF_AXIS_EXPERT], n);
    }
    for (uint32_t k = 0; k < n; k++) {
        uint32_t size = zf_mesh_parts(&f->mesh, axis[k]);

        if (file->number[k] >= size) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "the folder is of %s rank %u, but by args there are %u",
                           axis[k] == ZF_AXIS_TENSOR     ? "tensor"
                           : axis[k] == ZF_AXIS_PIPELINE ? "pipeline"
                                                         : "expert",
                           file->number[k], size);
        }
        file->at.at[axis[k]] = file->number[k];
    }
    return true;
}

/* The name of the folder at a coordinate. */
static const char *files_name(const struct legacy_files *f, struct zf_coord at, struct zf_arena *a,
                              struct zf_err *err)
{
    bool stages = zf_mesh_parts(&f->mesh, ZF_AXIS_PIPELINE) > 1;
    bool experts = zf_mesh_parts(&f->mesh, ZF_AXIS_EXPERT) > 1;
    char pp[16] = "", ep[16] = "";

    if (stages)
        (void)snprintf(pp, sizeof pp, "_%03u", at.at[ZF_AXIS_PIPELINE]);
    if (experts)
        (void)snprintf(ep, sizeof ep, "_%03u", at.at[ZF_AXIS_EXPERT]);
    return zf_arena_fmt(a, err, FILES_PREFIX "%02u%s%s", at.at[ZF_AXIS_TENSOR], pp, ep);
}

#define FILES_NO_ETP UINT32_MAX

/* Walks the ranks that write: in each stage the first of those that hold the same data.  Within a stage
 * ranks are numbered along the tensor axis first, and for experts along their own tensor axis and
 * then the expert axis, so that with fewer tensor parts for experts only some pairs exist.
 * Source: megatron/core/parallel_state.py (RankGenerator, "tp-cp-ep-dp-pp"), 0.9 … 0.19. */
static bool files_walk(struct legacy_files *f, const uint32_t *by_place, struct zf_arena *a,
                       const char **missing_out, struct zf_err *err)
{
    uint32_t tp = zf_mesh_parts(&f->mesh, ZF_AXIS_TENSOR);
    uint32_t ep = zf_mesh_parts(&f->mesh, ZF_AXIS_EXPERT);
    uint64_t grid = (uint64_t)f->expert_tensor * ep, most = grid > tp ? grid : tp;

    for (uint32_t p = 0; p < zf_mesh_parts(&f->mesh, ZF_AXIS_PIPELINE); p++) {
        for (uint64_t r = 0; r < most; r++) {
            struct zf_coord at = {.at[ZF_AXIS_TENSOR] = (uint32_t)(r % tp),
                                  .at[ZF_AXIS_EXPERT] = (uint32_t)(r / f->expert_tensor % ep),
                                  .at[ZF_AXIS_PIPELINE] = p};
            uint32_t i = by_place[zf_coord_number(&f->mesh, at)];
            uint32_t etp = (uint32_t)(r % f->expert_tensor);

            if (i == 0 || !f->file[i - 1].path) {
                *missing_out = *missing_out ? *missing_out : files_name(f, at, a, err);
                if (!*missing_out)
                    return false;
                if (i > 0)
                    f->file[i - 1].expert_tensor = etp;
                continue;
            }
            if (f->file[i - 1].expert_tensor != FILES_NO_ETP &&
                f->file[i - 1].expert_tensor != etp) {
                return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                               "by args experts are cut into %u tensor-parallel parts and all else "
                               "into %u, so two ranks write to \"%s\"",
                               f->expert_tensor, tp, f->file[i - 1].dir);
            }
            f->file[i - 1].expert_tensor = etp;
        }
    }
    return true;
}

/* Enters the folders by their coordinates. */
static bool files_enter(struct legacy_files *f, uint32_t *by_place, struct zf_err *err)
{
    for (uint32_t i = 0; i < f->n; i++) {
        uint64_t at = zf_coord_number(&f->mesh, f->file[i].at);

        if (by_place[at]) {
            return zf_fail(
                err, ZF_E_FORMAT, ZF_OFF_NONE,
                "\"%s\" and \"%s\" are of the same rank: the saves of two runs are mixed",
                f->file[by_place[at] - 1].dir, f->file[i].dir);
        }
        by_place[at] = i + 1;
        f->file[i].expert_tensor = FILES_NO_ETP;
    }
    return true;
}

bool legacy_files_arrange(struct legacy_files *f, const struct megatron_settings *s,
                          struct zf_arena *a, const char **missing_out, struct zf_err *err)
{
    enum zf_axis axis[3];
    uint32_t n = files_axes(f, s, axis), *by_place;
    uint64_t total = 1;

    *missing_out = NULL;
    f->expert_tensor = (uint32_t)megatron_settings_expert_tensor(s);
    f->expert_tensor =
        f->expert_tensor ? f->expert_tensor : zf_mesh_parts(&f->mesh, ZF_AXIS_TENSOR);
    for (uint32_t k = 0; k < ZF_N_AXES; k++) /* each size is at most 2^20 */
        total *= total > FILES_MESH ? 1 : zf_mesh_parts(&f->mesh, (enum zf_axis)k);
    uint64_t experts = (uint64_t)f->expert_tensor * zf_mesh_parts(&f->mesh, ZF_AXIS_EXPERT) *
                       zf_mesh_parts(&f->mesh, ZF_AXIS_PIPELINE);
    if (total > FILES_MESH || experts > FILES_MESH) {
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE,
                       "by args there are more than %u model-parallel ranks", FILES_MESH);
    }
    for (uint32_t i = 0; i < f->n; i++)
        if (!files_place(f, &f->file[i], axis, n, err))
            return zf_err_in(err, "%s", f->file[i].dir);
    by_place = zf_arena_get(a, total, sizeof *by_place, err);
    if (!by_place || !files_enter(f, by_place, err) ||
        !files_walk(f, by_place, a, missing_out, err))
        return false;
    for (uint32_t i = 0; i < f->n; i++) {
        if (f->file[i].expert_tensor == FILES_NO_ETP) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "\"%s\" belongs to no rank that saves, by the sizes in args: it is left "
                           "over from another save",
                           f->file[i].dir);
        }
    }
    return true;
}
