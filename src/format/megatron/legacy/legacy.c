/* SPDX-License-Identifier: Apache-2.0 */
/* Every rank is always shown as a tree of its own; if it is proved how the ranks' shards join, the root
 * shows the model.  If not, the reason is a note, because the shards themselves are intact. */
#include "../steps.h"

#include <stdio.h>
#include <string.h>

#include <zf/assemble/degraded.h>
#include <zf/assemble/files.h>

#include "save.h"

/* The most comparisons of masters with weights in flat buffers, of a few reads each: half a minute. */
#define LEGACY_COMPARES (1u << 23)

/* The short reason for the probe; opening reports the details. */
static bool legacy_probe_mixed(struct zf_probe *out, struct zf_err *err)
{
    if (err->code != ZF_E_FORMAT)
        return false;
    zf_err_clear(err);
    out->fit = ZF_FIT_PROOF;
    (void)snprintf(out->why, sizeof out->why, "folders of Megatron's model-parallel ranks");
    return true;
}

bool legacy_probe(const struct zf_save *save, const struct zf_open_opts *o, struct zf_probe *out,
                  struct zf_err *err)
{
    zf_auto(arena) struct zf_arena *a = zf_arena_new(o->lim->model_memory, err);
    struct legacy_files files;
    uint32_t n = 0;

    out->fit = ZF_FIT_NO;
    if (save->file || !legacy_files_any(save->store))
        return true;
    if (!a || !legacy_files_list(save->store, a, &files, err))
        return a && legacy_probe_mixed(out, err);
    for (uint32_t i = 0; i < files.n; i++) {
        struct zf_err ignored = {.code = ZF_OK};
        const char *path = files.file[i].path;
        zf_auto(source) struct zf_source *src =
            path && out->fit != ZF_FIT_PROOF ? zf_store_open(save->store, path, &ignored) : NULL;

        n += path != NULL;
        if (path && out->fit == ZF_FIT_NO)
            out->fit = ZF_FIT_NAMES;
        if (src && zf_torch_sniff(src))
            out->fit = ZF_FIT_PROOF;
    }
    if (out->fit != ZF_FIT_NO) {
        (void)snprintf(out->why, sizeof out->why,
                       "Megatron's files of %u model-parallel ranks, such as %.60s", n,
                       files.file[0].dir);
    }
    return true;
}

/* ---- reading ---- */

/* Opens the files of all ranks ahead, in the order in which they are read. */
static bool legacy_expect(struct legacy_save *ls, struct zf_err *err)
{
    const char **path = zf_arena_get(ls->a, 2 * (uint64_t)ls->files.n, sizeof *path, err);
    uint64_t n = 0;

    for (uint32_t i = 0; path && i < ls->files.n; i++) {
        const struct legacy_file *f = &ls->files.file[i];

        if (f->path)
            path[n++] = f->path;
        if (f->path && f->distrib)
            path[n++] = f->distrib;
    }
    return path && zf_torch_ahead_begin(&ls->ahead, path, n, err);
}

static bool legacy_read_model(struct legacy_save *ls, uint32_t i, struct zf_err *err)
{
    zf_auto(torch) struct zf_torch *t =
        zf_torch_ahead_open(&ls->ahead, ls->files.file[i].path, err);

    return t && legacy_rank_read(ls, i, t, err);
}

static bool legacy_read_distrib(struct legacy_save *ls, uint32_t i, struct zf_err *err)
{
    const char *path = ls->files.file[i].distrib;
    zf_auto(torch) struct zf_torch *t = path ? zf_torch_ahead_open(&ls->ahead, path, err) : NULL;

    return !path || (t && legacy_bucket_read(ls, i, t, err));
}

/* Drops what was read of a rank. */
static void legacy_forget(struct legacy_save *ls, uint32_t i, const struct legacy_rank *was)
{
    ls->part.n = was->first_part;
    ls->unowned.n = was->first_unowned;
    ls->flat.n = was->first_flat;
    ls->rank[i] = *was;
    ls->rank[i].lost = true;
}

static bool legacy_read_rank(struct legacy_save *ls, uint32_t i, struct zf_err *err)
{
    ls->rank[i] = (struct legacy_rank){.file = &ls->files.file[i],
                                       .writer = LEGACY_NO_WRITER,
                                       .first_part = (uint32_t)ls->part.n,
                                       .first_unowned = (uint32_t)ls->unowned.n,
                                       .first_flat = (uint32_t)ls->flat.n};
    struct legacy_rank was = ls->rank[i];

    if (!was.file->path) {
        ls->rank[i].lost = true;
        return true; /* legacy_files_arrange reports it */
    }
    if (legacy_read_model(ls, i, err) && legacy_read_distrib(ls, i, err))
        return true;
    legacy_forget(ls, i, &was);
    return zf_forgive(ls->b, err);
}

static bool legacy_read_all(struct legacy_save *ls, struct zf_err *err)
{
    uint32_t n = 0;

    ls->rank = zf_arena_get(ls->a, ls->files.n, sizeof *ls->rank, err);
    if (!ls->rank || !legacy_expect(ls, err))
        return false;
    for (uint32_t i = 0; i < ls->files.n; i++) {
        if (!legacy_read_rank(ls, i, err))
            return false;
        n += !ls->rank[i].lost;
    }
    return n > 0 || zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "none of the ranks has a readable %s",
                            ls->files.model);
}

/* ---- joining ---- */

/* False if there is a reason not to join that does not depend on the tensors. */
static bool legacy_may_join(struct legacy_save *ls, struct zf_err *err)
{
    for (uint32_t i = 0; i < ls->files.n; i++) {
        const struct legacy_rank *r = &ls->rank[i];

        if (r->lost)
            return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE, "%s is lost", r->file->dir);
        if (r->odd) {
            return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                           "%s: \"%.100s\" is not a dense tensor", r->file->dir, r->odd);
        }
        if (r->n_chunks != ls->rank[0].n_chunks) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "%s has %u chunks of a virtual pipeline, %s has %u", r->file->dir,
                           r->n_chunks, ls->rank[0].file->dir, ls->rank[0].n_chunks);
        }
    }
    return true;
}

/* Before version 2 the rows of queries, keys and values were in another order.
 * Source: megatron/model/transformer.py, checkpointing.py (fix_query_key_value_ordering). */
static bool legacy_order_known(const struct legacy_save *ls, struct zf_err *err)
{
    for (size_t i = 0; ls->version < 2 && ls->files.mesh.size[ZF_AXIS_TENSOR] > 1 && i < ls->part.n;
         i++) {
        if (strstr(ls->part.at[i].name, "query_key_value")) {
            return zf_fail(
                err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                "checkpoint_version is %g, which has the rows of \"%.80s\" in another order",
                ls->version, ls->part.at[i].name);
        }
    }
    return true;
}

static bool legacy_try_join(struct legacy_save *ls, struct legacy_join *j, bool *judged,
                            struct zf_err *err)
{
    *judged = false;
    j->part = ls->part.at;
    j->n_parts = (uint32_t)ls->part.n;
    j->n_chunks = ls->rank[0].n_chunks;
    if (!legacy_may_join(ls, err) || !legacy_order_known(ls, err))
        return false;
    *judged = true;
    return legacy_swap_check(ls, err) && legacy_join(j, err) && legacy_same_weights(ls, j, err);
}

/* Is the failure only a reason not to join? */
static bool legacy_is_reason(const struct zf_err *err)
{
    return err->code == ZF_E_FORMAT || err->code == ZF_E_UNSUPPORTED;
}

static bool legacy_optim_proven(struct legacy_save *ls, struct zf_err *err)
{
    for (uint32_t i = 0; i < ls->files.n; i++)
        if (ls->rank[i].unproven)
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "%s", ls->rank[i].unproven);
    return true;
}

/* Notes how many parameters in flat buffers have their states, and why others do not. */
static bool legacy_note_unmapped(struct legacy_save *ls, const struct legacy_join *j,
                                 struct zf_err *err)
{
    const char *why = NULL;
    size_t n = 0, mapped = 0;

    for (uint32_t i = 0; i < ls->files.n; i++)
        why = why ? why : ls->rank[i].unmapped;
    for (size_t i = 0; i < j->whole.n; i++) {
        n += j->whole.at[i].partial;
        mapped += !j->whole.at[i].partial &&
                  legacy_find(&ls->part.at[j->whole.at[i].slot[0] - 1], LEGACY_MASTER);
    }
    return !why || zf_build_note(ls->b, err,
                                 "masters and states of %zu parameters are read from flat buffers, "
                                 "those of %zu are not: %s",
                                 mapped, n, why);
}

static bool legacy_draft_joined(struct legacy_save *ls, struct legacy_join *j, struct zf_err *err)
{
    bool masters = legacy_optim_proven(ls, err) && legacy_same_optim(ls, j, err);

    if (!masters &&
        (!legacy_is_reason(err) ||
         !zf_note_failure(
             ls->b, ZF_NOTE_OTHER, NULL, err,
             "the optimizer is shown per rank, and the root shows the stored weights: ")))
        return false;
    /* values without names are shown nowhere else */
    return (!masters || legacy_note_unmapped(ls, j, err)) &&
           legacy_draft_model(ls, j, masters, err) &&
           legacy_draft_ranks(ls, !masters || ls->unowned.n > 0, true, err);
}

/* Missing information is a reason to show only the ranks' trees.  A contradiction (args and tensors, or two ranks) is not:
 * it must not look like an intact save with an empty root. */
static bool legacy_may_stay(const struct legacy_save *ls, struct zf_err *err)
{
    return err->code == ZF_E_UNSUPPORTED || (err->code == ZF_E_FORMAT && zf_build_degraded(ls->b));
}

/* In degraded mode, if the ranks are not joined for another reason: notes that a folder holds another folder's file. */
static bool legacy_note_swap(struct legacy_save *ls, struct zf_err *err)
{
    if (legacy_swap_check(ls, err))
        return true;
    return legacy_is_reason(err) && zf_note_failure(ls->b, ZF_NOTE_OTHER, NULL, err,
                                                    "a folder may hold the data of another rank: ");
}

static bool legacy_draft(struct legacy_save *ls, bool settled, struct zf_err *err)
{
    struct legacy_join j = {.a = ls->a, .files = &ls->files, .settings = &ls->settings};
    bool judged = false, ok = settled && legacy_try_join(ls, &j, &judged, err);

    if (ok) {
        ok = legacy_draft_joined(ls, &j, err);
    } else if (!settled || legacy_may_stay(ls, err)) {
        ok = (!settled || zf_note_failure(ls->b, ZF_NOTE_OTHER, NULL, err,
                                          "the ranks are shown separately: ")) &&
             (judged || !zf_build_degraded(ls->b) || legacy_note_swap(ls, err)) &&
             legacy_draft_ranks(ls, true, false, err);
    }
    legacy_join_fini(&j);
    return ok;
}

/* ---- the save ---- */

static bool legacy_arrange(struct legacy_save *ls, struct zf_err *err)
{
    const char *missing;

    if (!legacy_files_arrange(&ls->files, &ls->settings, ls->a, &missing, err))
        return false;
    if (missing) {
        char why[ZF_ABSENT_MAX];
        char *path = zf_arena_fmt(ls->a, err, "%s/%s", missing, ls->files.model);

        return path && zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                               "%s %s, although %s %u tensor, %u pipeline and %u expert ranks",
                               path, zf_absent(ls->st, path, why),
                               ls->files.said ? "by args there are"
                                              : "by the names of the folders there are",
                               zf_mesh_parts(&ls->files.mesh, ZF_AXIS_TENSOR),
                               zf_mesh_parts(&ls->files.mesh, ZF_AXIS_PIPELINE),
                               zf_mesh_parts(&ls->files.mesh, ZF_AXIS_EXPERT));
    }
    return true;
}

/* Checks that, with a distributed optimizer, every folder whose rank trains parameters has a file with its states.
 * Source: megatron/training/checkpointing.py (save_checkpoint), save_parameter_state; 0.3 … 0.19. */
static bool legacy_distrib_is_whole(struct legacy_save *ls, struct zf_err *err)
{
    const struct legacy_file *has = NULL;
    char why[ZF_ABSENT_MAX];

    for (uint32_t i = 0; i < ls->files.n && !has; i++)
        has = ls->files.file[i].distrib ? &ls->files.file[i] : NULL;
    for (uint32_t i = 0; has && i < ls->files.n; i++) {
        const struct legacy_rank *r = &ls->rank[i];

        if (!r->lost && r->optim && !r->file->distrib) {
            const char *path = legacy_files_distrib(r->file, ls->a, err);

            return path && zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                                   "%s %s, although %s has one and both ranks have an optimizer",
                                   path, zf_absent(ls->st, path, why), has->dir);
        }
    }
    return true;
}

static bool legacy_note_optim(struct legacy_save *ls, struct zf_err *err)
{
    return ls->files.n_optim == 0 ||
           zf_build_note_on(ls->b, ZF_NOTE_UNSHOWN, "optim.pt", err,
                            "the optimizer is not shown: the save does not record which parameters "
                            "the vectors in optim.pt of %u folders belong to",
                            ls->files.n_optim);
}

static bool legacy_open_save(struct legacy_save *ls, struct zf_err *err)
{
    bool settled;

    if (!legacy_files_list(ls->st, ls->a, &ls->files, err) || !legacy_read_all(ls, err) ||
        !legacy_note_optim(ls, err))
        return false;
    settled = legacy_arrange(ls, err);
    return (settled || zf_forgive(ls->b, err)) &&
           (legacy_distrib_is_whole(ls, err) || zf_forgive(ls->b, err)) &&
           legacy_draft(ls, settled, err);
}

static void legacy_fini(struct legacy_save *ls)
{
    zf_vec_fini(&ls->part);
    zf_vec_fini(&ls->unowned);
    zf_vec_fini(&ls->flat);
    zf_torch_ahead_fini(&ls->ahead);
    zf_keeper_fini(&ls->keep);
    zf_agree_free(ls->said);
    zf_arena_free(ls->a);
}

bool legacy_open(const struct zf_save *save, const struct zf_open_opts *o, struct zf_build *b,
                 struct zf_err *err)
{
    struct legacy_save ls = {.st = save->store, .o = o, .b = b, .compares = LEGACY_COMPARES};

    ls.ahead = (struct zf_torch_ahead){.st = ls.st, .lim = o->lim};
    ls.a = ls.keep.arena = zf_arena_new(o->lim->model_memory, err);
    bool ok = ls.a && legacy_open_save(&ls, err);
    legacy_fini(&ls);
    return ok;
}
