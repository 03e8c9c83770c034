/* SPDX-License-Identifier: Apache-2.0 */
/* Hugging Face checkpoints of several safetensors files: with an index JSON, or written by
 * torch.distributed.checkpoint with the boxes in each header.
 * Source: transformers 4.5x, modeling_utils.py; torch/distributed/checkpoint/hf_storage.py (2.8
 * … 2.14). */
#include <stdio.h>

#include <zf/assemble/companions.h>
#include <zf/assemble/degraded.h>
#include <zf/base/name.h>
#include <zf/base/path.h>
#include <zf/format.h>

#include "join.h"
#include "series.h"

static const char index_tail[] = ".safetensors.index.json";

/* Do the safetensors files in `dir` hold boxes?  Decided by the first one, and by any that is named so. */
static bool hf_dir_has_boxes(struct zf_store *st, const char *dir, const struct zf_limits *lim)
{
    const char *first = NULL;
    char path[ZF_NAME_MAX + 16];

    for (struct zf_entries l = zf_store_entries(st, dir); l.e < l.end; l.e++) {
        bool ranked = zf_st_file_rank(l.e->name);

        if (l.e->kind == ZF_ENTRY_FILE && zf_st_file_named(l.e->name) && (!first || ranked)) {
            first = l.e->name;
            if (ranked) {
                break;
            }
        }
    }
    snprintf(path, sizeof path, "%s%s%s", dir, *dir ? "/" : "", first ? first : "");
    return first && zf_st_file_has_boxes(st, path, lim);
}

/* The path of the index JSON, or NULL; then where the boxes are: "" or "sharded", NULL = nowhere. */
static bool hf_look(const struct zf_save *save, const struct zf_limits *lim, char **index,
                    const char **dir, struct zf_err *err)
{
    struct zf_store *st = save->store;

    *dir = NULL;
    if (!zf_st_index_find(st, save->file, index_tail, index, err)) {
        return false;
    }
    if (!*index && !save->file) {
        *dir = hf_dir_has_boxes(st, "", lim)          ? ""
               : hf_dir_has_boxes(st, "sharded", lim) ? "sharded"
                                                      : NULL;
    }
    return true;
}

static bool hf_probe(const struct zf_save *save, const struct zf_open_opts *o, struct zf_probe *out,
                     struct zf_err *err)
{
    zf_auto(mem) char *index = NULL;
    const char *dir;

    out->fit = ZF_FIT_NO;
    if (!hf_look(save, o->lim, &index, &dir, err)) {
        if (err->code != ZF_E_UNKNOWN) {
            return false;
        }
        /* Two indices: open() says so. */
        zf_err_clear(err);
        out->fit = ZF_FIT_NAMES;
        snprintf(out->why, sizeof out->why, "several index files");
        return true;
    }
    if (index) {
        out->fit = ZF_FIT_PROOF;
        snprintf(out->why, sizeof out->why, "the index %.120s", index);
    } else if (dir) {
        out->fit = ZF_FIT_PROOF;
        snprintf(out->why, sizeof out->why, "DCP_SHARDING_INFO in the headers%s",
                 *dir ? " of sharded/" : "");
    }
    return true;
}

struct hf_adding {
    struct zf_st_files *files;
    struct zf_store *st;
    const struct zf_limits *lim;
    struct zf_build *b;
};

static bool hf_add_named(void *ctx, const char *file, bool here, struct zf_err *err)
{
    const struct hf_adding *a = ctx;

    return here ? zf_st_files_add(a->files, a->st, file, a->lim, a->b, err)
                : zf_st_files_lack(a->files, err, "%s", file);
}

/* Every safetensors file in `dir`. */
static bool hf_add_all(struct zf_st_files *files, struct zf_store *st, const char *dir,
                       const struct zf_open_opts *o, struct zf_build *b, struct zf_err *err)
{
    const struct zf_entry *e;
    size_t n;

    if (!zf_store_list(st, dir, &e, &n, err) || !st_series_check(files, e, n, b, err)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        /* What is no file is refused when it is opened; only directories may be called so. */
        if (!zf_st_file_named(e[i].name) ||
            (e[i].kind == ZF_ENTRY_DIR && !zf_st_file_rank(e[i].name))) {
            continue;
        }
        zf_auto(mem) char *path = zf_relpath_join(dir, e[i].name, err);
        if (!path || !zf_st_files_add(files, st, path, o->lim, b, err)) {
            return false;
        }
    }
    return true;
}

static bool hf_open_hf(const struct zf_save *save, const struct zf_open_opts *o, struct zf_build *b,
                       struct zf_err *err)
{
    struct zf_store *st = save->store;
    zf_auto(mem) char *index = NULL;
    const char *dir;
    zf_auto(st_files) struct zf_st_files files = {.n = 0};
    zf_auto(st_index) struct zf_st_index x = {.path = NULL};

    if (!hf_look(save, o->lim, &index, &dir, err) || !zf_st_files_init(&files, o->lim, err)) {
        return false;
    }
    if (!index && !dir) {
        return zf_fail(
            err, ZF_E_UNKNOWN, ZF_OFF_NONE,
            "found neither an index JSON nor safetensors files that hold boxes of tensors");
    }
    zf_store_expect(st, index ? "" : dir, zf_st_file_named);
    struct hf_adding a = {&files, st, o->lim, b};
    struct zf_st_index_reader reader = {.ctx = &a, .add = hf_add_named};
    bool indexed = index && zf_st_index_load(st, index, o->lim, &x, err);
    if (index && !indexed && !zf_forgive(b, err)) {
        return false;
    }
    if (indexed ? !zf_st_index_read(&x, st, &reader, b, err)
                : !hf_add_all(&files, st, index ? "" : dir, o, b, err)) {
        return false;
    }
    return zf_st_files_some(&files, err) && st_join(&files, indexed ? &x : NULL, NULL, b, err) &&
           zf_st_files_metadata(&files, b, err) && zf_companions_add(st, o, b, err) &&
           zf_companions_note_weights(st, true, b, err);
}

const struct zf_format zf_format_hf = {
    .name = "hf",
    .summary = "Hugging Face: several safetensors files with an index, or cut by torch DCP",
    .one_file = true,
    .probe = hf_probe,
    .open = hf_open_hf,
};
