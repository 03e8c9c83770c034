/* SPDX-License-Identifier: Apache-2.0 */
/* Megatron's checkpoints: one folder per iteration.  Distributed ones have a metadata.json, which is written
 * last and names the backend; legacy ones have a folder per rank (legacy/).  The backend fills the lists of
 * save.h; all later steps are common to all backends.  docs/formats/megatron.md describes the layout. */
#include <stdio.h>
#include <string.h>

#include <zf/assemble/companions.h>
#include <zf/assemble/degraded.h>
#include <zf/assemble/files.h>
#include <zf/assemble/torch_files.h>
#include <zf/assemble/zarr.h>
#include <zf/codec/json.h>
#include <zf/format.h>

#include "steps.h"
#include "legacy/files.h"
#include "settings.h"

extern const struct zf_format zf_format_megatron;

#define MANIFEST "metadata.json"

enum megatron_backend {
    MEGATRON_NO_BACKEND, /* there is no manifest */
    MEGATRON_TORCH_DIST,
    MEGATRON_ZARR,
    MEGATRON_OTHER_BACKEND, /* one that is not supported */
};

/* Reads `path`, a metadata.json; name: of the backend, for messages.  Source: megatron/core/dist_checkpointing/
 * core.py CheckpointingConfig (0.4 … 0.19). */
static bool megatron_manifest(struct zf_store *st, const char *path, const struct zf_limits *lim,
                              enum megatron_backend *out, char name[64], struct zf_err *err)
{
    uint64_t n = 0;
    zf_auto(mem) char *text = NULL;
    zf_auto(json) json_t *j = NULL;

    *out = MEGATRON_NO_BACKEND;
    name[0] = '\0';
    if (!zf_store_has(st, path, ZF_ENTRY_FILE))
        return true;
    text = zf_store_slurp(st, path, lim->json_bytes, &n, err);
    j = text ? zf_json_load(text, n, lim, err) : NULL;
    if (!j)
        return zf_err_in(err, "%s", path);
    const char *backend = json_string_value(json_object_get(j, "sharded_backend"));
    if (backend) {
        (void)snprintf(name, 64, "%.60s", backend);
        *out = strcmp(backend, "torch_dist") == 0 ? MEGATRON_TORCH_DIST
               : strcmp(backend, "zarr") == 0     ? MEGATRON_ZARR
                                                  : MEGATRON_OTHER_BACKEND;
    }
    return true;
}

/* Part of the key of an object's shard, which only Megatron writes: "rng_state/shard_0.0_1.1".  Source: ShardedObject.unique_key
 * of megatron/core/dist_checkpointing/mapping.py (0.4 … 0.19). */
static const char megatron_shard[] = "/shard_";
enum { MEGATRON_HEAD = 1 << 20 };

/* Does the beginning of .metadata show a distributed save that lacks its metadata.json? */
static bool megatron_is_left(struct zf_store *st)
{
    size_t n = MEGATRON_HEAD;
    zf_auto(mem) char *head = mg_metadata_head(st, &n);
    bool found = false;

    for (const char *p = head; p && !found;) {
        p = memmem(p, n - (size_t)(p - head), megatron_shard, sizeof megatron_shard - 1);
        p = p ? p + sizeof megatron_shard - 1 : NULL;
        found = p && p < head + n && *p >= '0' && *p <= '9';
    }
    return found;
}

/* Is this an unfinished save?  The common state is written first. */
static bool megatron_is_begun(struct zf_store *st)
{
    return zf_store_has(st, MG_COMMON_FILE, ZF_ENTRY_FILE);
}

static bool megatron_probe(const struct zf_save *save, const struct zf_open_opts *o,
                           struct zf_probe *out, struct zf_err *err)
{
    enum megatron_backend backend;
    struct zf_err ignored = {0};
    char name[64];

    *out = (struct zf_probe){.fit = ZF_FIT_NO};
    if (mg_verl_probe(save->store, o->lim, out))
        return true;
    if (!megatron_manifest(save->store, MANIFEST, o->lim, &backend, name, &ignored)) {
        /* Another program's file of that name, or a damaged one. */
        const bool begun = megatron_is_begun(save->store);
        if (begun || megatron_is_left(save->store)) {
            out->fit = ZF_FIT_PROOF;
            (void)snprintf(out->why, sizeof out->why,
                           begun ? "there is common.pt next to " MANIFEST
                                 : ".metadata next to " MANIFEST " has keys of Megatron's shards");
        }
        return true;
    }
    if (backend != MEGATRON_NO_BACKEND) {
        out->fit = ZF_FIT_PROOF;
        (void)snprintf(out->why, sizeof out->why, MANIFEST " says sharded_backend %s", name);
        return true;
    }
    if (!legacy_probe(save, o, out, err))
        return false;
    if (out->fit != ZF_FIT_NO)
        return true;
    if (megatron_is_begun(save->store)) {
        out->fit = ZF_FIT_PROOF;
        out->unfinished = true;
        (void)snprintf(out->why, sizeof out->why, "there is common.pt without " MANIFEST);
    } else if (mg_fsdp_is(save->store, out->why)) {
        out->fit = ZF_FIT_PROOF;
    } else if (megatron_is_left(save->store)) {
        out->fit = ZF_FIT_PROOF;
        out->unfinished = true;
        (void)snprintf(out->why, sizeof out->why, ".metadata has keys of Megatron's shards");
    }
    return true;
}

/* Is the directory i of several a finished save that can be read? */
static bool megatron_check_part(struct mg_save *s, uint32_t i, struct zf_err *err)
{
    enum megatron_backend backend;
    char name[64], path[MG_PATH], is[ZF_ABSENT_MAX];

    if (!megatron_manifest(s->st, mg_save_path(s, i, MANIFEST, path), s->lim, &backend, name, err))
        return false;
    if (backend == MEGATRON_NO_BACKEND) {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                "the save is incomplete: " MANIFEST ", which is written last, %s",
                zf_absent(s->st, path, is));
        return zf_err_in(err, "%s", s->dir[i]);
    }
    if (backend != MEGATRON_TORCH_DIST) {
        zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                "sharded_backend is \"%s\"; saves in several directories are read only if it is "
                "torch_dist",
                name);
        return zf_err_in(err, "%s", path);
    }
    return mg_torch_dist_try(s, i, err);
}

/* The same for a save in several directories.  Degraded, a damaged one is left out, unless it has the weights. */
static bool megatron_read_dirs(struct mg_save *s, struct zf_err *err)
{
    uint32_t n = 0;

    if (s->n_dirs == 1 && mg_verl_is_fsdp(s->st))
        return mg_fsdp(s, err);
    for (uint32_t i = 0; i < s->n_dirs; i++) {
        if (megatron_check_part(s, i, err)) {
            memmove(s->dir[n++], s->dir[i], MG_DIR_MAX);
            continue;
        }
        const bool weights = i == 0 && !s->foreign_weights;

        if (weights || !zf_build_degraded(s->b) || err->code == ZF_E_NOMEM ||
            err->code == ZF_E_LIMIT ||
            !zf_note_failure(s->b, ZF_NOTE_LEFT_OUT, s->dir[i], err, "%s is left out: ", s->dir[i]))
            return false;
    }
    s->n_dirs = n;
    return n == 0 || mg_torch_dist(s, err);
}

/* Lists the backend's tensors, as stored. */
static bool megatron_read(struct mg_save *s, struct zf_err *err)
{
    enum megatron_backend backend;
    char name[64], is[ZF_ABSENT_MAX];

    if (s->in_parts)
        return megatron_read_dirs(s, err);
    if (!megatron_manifest(s->st, MANIFEST, s->lim, &backend, name, err))
        return false;
    switch (backend) {
    case MEGATRON_TORCH_DIST:
        return mg_torch_dist(s, err);
    case MEGATRON_ZARR:
        return mg_zarr(s, err);
    case MEGATRON_NO_BACKEND:
        if (!megatron_is_begun(s->st) && !megatron_is_left(s->st))
            return mg_fsdp(s, err);
        if (zf_store_has(s->st, MANIFEST, ZF_ENTRY_FILE))
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, MANIFEST " has no \"sharded_backend\"");
        if (!megatron_is_begun(s->st)) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "the save is incomplete: .metadata was written by Megatron, but "
                           "common.pt and " MANIFEST " are missing");
        }
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "the save is incomplete: there is common.pt, but " MANIFEST
                       ", which is written last, %s",
                       zf_absent(s->st, MANIFEST, is));
    case MEGATRON_OTHER_BACKEND:
        break;
    }
    return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                   MANIFEST " has sharded_backend \"%s\", which is not read", name);
}

/* NeMo and Megatron-Bridge save no args, but files with the parallel sizes.  If those cannot be read, that is
 * only noted, since the chunk grids show the sizes, too. */
static bool megatron_sizes(struct mg_save *s, const struct zf_save *save, struct zf_err *err)
{
    struct megatron_settings said;
    struct zf_err why = {.code = ZF_OK};
    char file[80], text[300];

    if (s->settings.num_layers || s->settings.tensor_model_parallel_size)
        return true;
    if (!megatron_settings_yaml(save->store, save->outer, s->lim, &said, file, &why)) {
        return why.code == ZF_E_NOMEM
                   ? zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory")
                   : zf_build_note_names(s->b, why.path, why.msg, err) &&
                         zf_build_note_on(
                             s->b, ZF_NOTE_UNSHOWN, file, err,
                             "the sizes in %s are not read, so those of the chunks are used: %s",
                             file, zf_err_text(&why, text, sizeof text));
    }
    if (file[0])
        s->settings = said;
    return true;
}

/* Files of torch.save that trainers write next to the tensors.  Source: Megatron-Bridge
 * training/utils/checkpoint_utils.py, TRAIN_STATE_FILE (0.1 … 0.6); megatron/training/checkpointing.py,
 * save_dataloader_state (core 0.9 … 0.19), which are called as other trainers' companions.  common.pt is the
 * save's own. */
static bool megatron_is_companion(const char *name)
{
    return strcmp(name, "train_state.pt") == 0 ||
           (strcmp(name, MG_COMMON_FILE) != 0 && zf_torch_set_named(name) &&
            zf_torch_set_role(name) != ZF_ROLE_WEIGHTS);
}

static bool megatron_open(const struct zf_save *save, const struct zf_open_opts *o,
                          struct zf_build *b, struct zf_err *err)
{
    zf_auto(mg_save) struct mg_save s = {0};

    if (!zf_store_has(save->store, MANIFEST, ZF_ENTRY_FILE) && legacy_files_any(save->store))
        return legacy_open(save, o, b, err);
    zf_auto(flat_buffers) struct flat_buffers buffers = {0};
    return mg_save_init(&s, save->store, o->lim, b, err) && mg_verl_find(&s, err) &&
           mg_integrity_check(s.st, o->lim, b, err) && megatron_read(&s, err) &&
           megatron_sizes(&s, save, err) && mg_flat_find(&s, s.arena, &buffers, err) &&
           mg_axes_slice(&s, err) && mg_parts_join(&s, err) && mg_masters_check(&s, err) &&
           mg_buckets_map(&s, &buffers, err) && mg_place(&s, err) &&
           (!s.foreign_weights || mg_verl_weights(&s, err)) &&
           mg_verl_note_above(save, o, b, err) &&
           zf_companions_add_those(s.st, o, b, megatron_is_companion, err);
}

const struct zf_format zf_format_megatron = {
    .name = "megatron",
    .summary = "Megatron checkpoints: torch_dist (metadata.json, .metadata and .distcp files), "
               "zarr (metadata.json, arrays), fsdp_dtensor, torch_dcp, verl's "
               "(ckpt_contents.json), legacy (mp_rank_*/model_optim_rng.pt)",
    .refines = "dcp",
    .shards = true,
    .kind = &zf_zarr_array_kind,
    .probe = megatron_probe,
    .open = megatron_open,
};
