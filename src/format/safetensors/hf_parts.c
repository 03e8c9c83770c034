/* SPDX-License-Identifier: Apache-2.0 */
#include "hf_parts.h"

#include <stdio.h>
#include <string.h>

#include <zf/assemble/files.h>
#include <zf/assemble/hf_index.h>
#include <zf/assemble/names.h>
#include <zf/assemble/optim_index.h>
#include <zf/assemble/save_dirs.h>
#include <zf/assemble/st_files.h>
#include <zf/base/name.h>
#include <zf/base/path.h>
#include <zf/dcp.h>

static const char index_tail[] = ".safetensors.index.json";

/* ---- the weights ---- */

/* Where the sharded tensors are, in a save that also has a consolidated copy. */
static const char *const parts_sharded[] = {"sharded", "model/sharded", "weights/sharded",
                                            "weights/model/sharded", NULL};

/* A safetensors file that is typical for `dir`: one of a rank, else the first; NULL: there is none. */
static const char *parts_file(struct zf_store *st, const char *dir)
{
    const char *first = NULL;

    for (struct zf_entries l = zf_store_entries(st, dir); l.e < l.end; l.e++) {
        bool ranked = zf_st_file_rank(l.e->name);

        if (l.e->kind == ZF_ENTRY_FILE && zf_st_file_named(l.e->name) && (!first || ranked)) {
            first = l.e->name;
            if (ranked)
                break;
        }
    }
    return first;
}

static bool parts_has_boxes(struct zf_store *st, const char *dir, const struct zf_limits *lim)
{
    const char *file = parts_file(st, dir);
    char path[ZF_NAME_MAX + 64];

    if (file)
        (void)snprintf(path, sizeof path, "%s%s%s", dir, *dir ? "/" : "", file);
    return file && zf_st_file_has_boxes(st, path, lim);
}

/* ---- the optimizer ---- */

static bool parts_optimizer(struct zf_store *st, const char **dir, bool *dcp, struct zf_err *err)
{
    *dir = NULL;
    for (size_t i = 0; !*dir && zf_optimizer_dir[i]; i++) {
        zf_auto(mem) char *index = NULL;

        if (!zf_save_dir_is(st, zf_optimizer_dir[i]))
            continue;
        *dcp = zf_dcp_is_save(st, zf_optimizer_dir[i]);
        if (!*dcp && !zf_optim_index_find(st, zf_optimizer_dir[i], &index, err))
            return false;
        *dir = *dcp || index ? zf_optimizer_dir[i] : NULL;
    }
    static const char accelerate[] = "optimizer_0"; /* dcp.c */
    if (!*dir && zf_save_dir_is(st, accelerate) && zf_dcp_is_save(st, accelerate)) {
        *dcp = true;
        *dir = accelerate;
    }
    return true;
}

/* Finds weights in a separate directory: sharded, or any files if there is an optimizer. */
static bool parts_find_own_dir(struct zf_store *st, const struct zf_limits *lim,
                               struct hf_parts *out, struct zf_err *err)
{
    for (size_t i = 0; !out->weights && zf_weights_dir[i]; i++) {
        const char *dir = zf_weights_dir[i];

        if (!zf_save_dir_is(st, dir) || !parts_file(st, dir))
            continue;
        if (parts_has_boxes(st, dir, lim)) {
            out->weights = dir;
        } else if (out->optimizer) {
            out->weights = dir;
            return zf_st_index_find(st, dir, NULL, index_tail, &out->index, err);
        }
    }
    return true;
}

bool hf_parts_find(const struct zf_save *save, const struct zf_limits *lim, struct hf_parts *out,
                   struct zf_err *err)
{
    struct zf_store *st = save->store;

    *out = (struct hf_parts){.index = NULL};
    if (!zf_st_index_find(st, "", save->file, index_tail, &out->index, err))
        return false;
    if (save->file) {
        out->weights = out->index ? "" : NULL;
        return true;
    }
    if (!parts_optimizer(st, &out->optimizer, &out->dcp, err))
        return false;
    if (out->index || parts_has_boxes(st, "", lim) || (out->optimizer && parts_file(st, ""))) {
        out->weights = "";
        return true;
    }
    for (size_t i = 0; !out->weights && parts_sharded[i]; i++) {
        const char *dir = parts_sharded[i];

        out->weights = zf_save_dir_is(st, dir) && parts_has_boxes(st, dir, lim) ? dir : NULL;
    }
    return out->weights || parts_find_own_dir(st, lim, out, err);
}

bool hf_parts_boxes(const struct hf_parts *p, struct zf_store *st, const struct zf_limits *lim)
{
    return parts_has_boxes(st, p->weights, lim);
}

/* ---- other files ---- */

char *hf_parts_metadata(const struct hf_parts *p, const char *name, struct zf_err *err)
{
    zf_auto(mem) char *dir = zf_relpath_join(p->weights, ".hf_metadata", err);

    return dir && *name ? zf_relpath_join(dir, name, err) : zf_give(dir);
}

/* True for files of .hf_metadata that belong to the model; not for the lists of each tensor's file and dtype. */
static bool parts_is_side(const char *name)
{
    static const char *const tail[] = {".json", ".txt", ".jinja", ".model", ".py", ".tiktoken"};
    bool is = false;

    for (size_t i = 0; i < sizeof tail / sizeof *tail; i++)
        is = is || zf_name_ends(name, tail[i]);
    return is && strncmp(name, "fqn_to_", 7) != 0 && !zf_name_ends(name, ".index.json");
}

/* Shows such files of a directory, except where another file has the name. */
static bool parts_side_files(struct zf_store *st, const char *dir, struct zf_build *b,
                             struct zf_err *err)
{
    for (struct zf_entries l = zf_store_entries(st, dir); l.e < l.end; l.e++) {
        char file[ZF_NAME_MAX + 1];

        if (l.e->kind != ZF_ENTRY_FILE || !parts_is_side(l.e->name))
            continue;
        (void)zf_name_encode(file, l.e->name, strlen(l.e->name), "");
        if (zf_names_reserved(file) || zf_build_has_file(b, file) ||
            zf_store_has(st, l.e->name, ZF_ENTRY_FILE))
            continue;
        zf_auto(mem) char *path = zf_relpath_join(dir, l.e->name, err);
        zf_auto(source) struct zf_source *src = path ? zf_store_open(st, path, err) : NULL;
        if (!src || !zf_build_blob(b, file, src, 0, src->size, err))
            return false;
    }
    return true;
}

/* If only the directory of the weights was given, notes the optimizer in a directory above. */
static bool parts_note_above(struct zf_store *st, const struct zf_open_opts *o, struct zf_build *b,
                             struct zf_err *err)
{
    static const char *const up[] = {"..", "../.."};

    for (size_t i = 0; i < sizeof up / sizeof *up; i++) {
        struct zf_err ignored = {.code = ZF_OK};
        char name[4096];
        bool dcp;

        if (snprintf(name, sizeof name, "%s/%s", zf_store_name(st), up[i]) >= (int)sizeof name)
            continue;
        zf_auto(store) struct zf_store *above = zf_store_by(o->opener, name, o->lim, &ignored);
        const char *optimizer;
        if (above && parts_optimizer(above, &optimizer, &dcp, &ignored) && optimizer) {
            return zf_build_note(b, err,
                                 "this directory has only the weights; the optimizer is in %s/%s. "
                                 "Point at %s to see both",
                                 up[i], optimizer, up[i]);
        }
    }
    return true;
}

/* True if this is a usual name for a directory of weights that has an optimizer next to it. */
static bool parts_is_weights_dir(const char *base)
{
    bool is = false;

    for (size_t i = 0; zf_weights_dir[i]; i++)
        is = is || strcmp(zf_weights_dir[i], base) == 0;
    return is;
}

bool hf_parts_show_others(const struct hf_parts *p, const struct zf_save *save,
                          const struct zf_open_opts *o, struct zf_build *b, struct zf_err *err)
{
    struct zf_store *st = save->store;
    zf_auto(mem) char *metadata = hf_parts_metadata(p, "", err);
    zf_auto(mem) char *joined = metadata ? zf_relpath_join(p->weights, "consolidated", err) : NULL;

    if (!joined || !parts_side_files(st, metadata, b, err) ||
        (*p->weights && !parts_side_files(st, p->weights, b, err)))
        return false;
    if (!p->index && zf_store_has(st, joined, ZF_ENTRY_DIR) &&
        !zf_build_note_on(b, ZF_NOTE_UNSHOWN, joined, err,
                          "%s is not shown: it is made of the same shards", joined))
        return false;
    return save->file || save->outer || p->optimizer || zf_store_is_far(st) ||
           !parts_is_weights_dir(zf_store_base(st)) || parts_note_above(st, o, b, err);
}
