/* SPDX-License-Identifier: Apache-2.0 */
/* Hugging Face checkpoints of several safetensors files: with an index JSON, or written by
 * torch.distributed.checkpoint with the boxes of tensors in each header; and the optimizer next to them.
 * Source: transformers 4.5x, modeling_utils.py; torch/distributed/checkpoint/hf_storage.py (2.8
 * … 2.14). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <zf/assemble/companions.h>
#include <zf/assemble/degraded.h>
#include <zf/assemble/optim_index.h>
#include <zf/base/path.h>
#include <zf/dcp.h>
#include <zf/format.h>

#include "hf_parts.h"
#include "join.h"
#include "series.h"

static bool hf_probe(const struct zf_save *save, const struct zf_open_opts *o, struct zf_probe *out,
                     struct zf_err *err)
{
    zf_auto(hf_parts) struct hf_parts p;

    out->fit = ZF_FIT_NO;
    if (!hf_parts_find(save, o->lim, &p, err)) {
        if (err->code != ZF_E_UNKNOWN)
            return false;
        /* There are two indices: open() reports that. */
        zf_err_clear(err);
        out->fit = ZF_FIT_NAMES;
        snprintf(out->why, sizeof out->why, "several index files");
        return true;
    }
    if (!p.weights)
        return true;
    out->fit = ZF_FIT_PROOF;
    if (p.index) {
        snprintf(out->why, sizeof out->why, "the index %.80s", p.index);
    } else {
        snprintf(out->why, sizeof out->why, "%s%s%.60s%s",
                 hf_parts_boxes(&p, save->store, o->lim) ? "DCP_SHARDING_INFO in the headers"
                                                         : "safetensors",
                 *p.weights ? " of " : "", p.weights, *p.weights ? "/" : "");
    }
    if (p.optimizer) {
        size_t n = strlen(out->why);
        snprintf(out->why + n, sizeof out->why - n, ", joined with %.60s", p.optimizer);
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

/* Adds every safetensors file in `dir`. */
static bool hf_add_all(struct zf_st_files *files, struct zf_store *st, const char *dir,
                       const struct zf_open_opts *o, struct zf_build *b, struct zf_err *err)
{
    const struct zf_entry *e;
    size_t n;

    if (!zf_store_list(st, dir, &e, &n, err) || !st_series_check(files, e, n, b, err))
        return false;
    for (size_t i = 0; i < n; i++) {
        /* Directories may have such a name; any other entry that is not a file is refused when it is opened. */
        if (!zf_st_file_named(e[i].name) ||
            (e[i].kind == ZF_ENTRY_DIR && !zf_st_file_rank(e[i].name)))
            continue;
        zf_auto(mem) char *path = zf_relpath_join(dir, e[i].name, err);
        if (!path || !zf_st_files_add(files, st, path, o->lim, b, err))
            return false;
    }
    return true;
}

/* Reads the list of all tensors, if there is one next to the shards. */
static bool hf_load_numbers(const struct hf_parts *p, struct zf_store *st,
                            const struct zf_limits *lim, struct zf_st_index *out,
                            struct zf_build *b, struct zf_err *err)
{
    zf_auto(mem) char *path = hf_parts_metadata(p, "fqn_to_file_index_mapping.json", err);

    *out = (struct zf_st_index){.path = NULL};
    return path && (p->index || !zf_store_find(st, path) ||
                    zf_st_index_load_numbers(st, path, lim, out, err) || zf_forgive(b, err));
}

/* Places the optimizer's tensors, and makes `names` see all names that it decides on. */
static bool hf_place_optimizer(const struct hf_parts *p, const struct zf_st_files *files,
                               struct zf_store *st, const struct zf_open_opts *o,
                               struct zf_names *names, struct zf_build *b, struct zf_err *err)
{
    zf_auto(dcp) struct zf_dcp *d = p->dcp ? zf_dcp_new(o->lim, err) : NULL;

    if (!st_join_add_names(files, names, err))
        return false;
    if (!p->optimizer)
        return true;
    if (!p->dcp)
        return zf_optim_index_add_dir(st, p->optimizer, o, b, err);
    if (!d)
        return false;
    zf_dcp_begin(d, (struct zf_dcp_group){.head = "optimizer"});
    return (zf_dcp_read_dir(d, st, p->optimizer, o->lim, b, err) &&
            zf_dcp_add_names(d, names, err) && zf_dcp_place(d, st, o->lim, b, err)) ||
           zf_forgive(b, err);
}

/* Notes optimizer states whose names the weights do not have. */
static bool hf_note_strangers(struct zf_build *b, struct zf_err *err)
{
    struct zf_draft *d, *tie;
    struct zf_spot spot, first = {.name = NULL};
    uint64_t at = 0, n = 0;

    while ((d = zf_build_next(b, "optim", &at, &spot, &tie)) != NULL) {
        const struct zf_spot root = {"", spot.name, spot.name_len};
        const struct zf_spot stored = {"stored", spot.name, spot.name_len};

        if (zf_build_find(b, root) || zf_build_find(b, stored) ||
            (first.name && strcmp(first.set, spot.set) != 0))
            continue;
        first = n++ ? first : spot;
    }
    return n == 0 ||
           zf_build_note(
               b, err,
               "%" PRIu64
               " parameters of the optimizer are not among the weights, beginning with %.120s",
               n, first.name);
}

static bool hf_read(const struct hf_parts *p, const struct zf_save *save,
                    const struct zf_open_opts *o, struct zf_st_index *x, struct zf_st_files *files,
                    struct zf_build *b, struct zf_err *err)
{
    struct zf_store *st = save->store;
    struct hf_adding a = {files, st, o->lim, b};
    struct zf_st_index_reader reader = {.ctx = &a, .add = hf_add_named};

    zf_st_files_expect(files, st, p->weights);
    if (p->index && !zf_st_index_load(st, p->index, o->lim, x, err) && !zf_forgive(b, err))
        return false;
    return (x->path ? zf_st_index_read(x, st, &reader, b, err)
                    : hf_add_all(files, st, p->weights, o, b, err)) &&
           zf_st_files_some(files, err);
}

static bool hf_open_hf(const struct zf_save *save, const struct zf_open_opts *o, struct zf_build *b,
                       struct zf_err *err)
{
    struct zf_store *st = save->store;
    zf_auto(hf_parts) struct hf_parts p = {.index = NULL};
    zf_auto(st_files) struct zf_st_files files = {.n = 0};
    zf_auto(st_index) struct zf_st_index x = {.path = NULL}, number = {.path = NULL};
    zf_auto(names) struct zf_names *names = zf_names_new(err);

    if (!names || !hf_parts_find(save, o->lim, &p, err) || !zf_st_files_init(&files, o->lim, err))
        return false;
    if (!p.weights) {
        return zf_fail(
            err, ZF_E_UNKNOWN, ZF_OFF_NONE,
            "found neither an index JSON nor safetensors files that hold boxes of tensors");
    }
    if (!hf_read(&p, save, o, &x, &files, b, err) ||
        !hf_load_numbers(&p, st, o->lim, &number, b, err) ||
        !hf_place_optimizer(&p, &files, st, o, names, b, err))
        return false;
    struct st_tied tied;
    st_tied_find(&p, st, &number, o->lim, &tied);
    const struct st_join_how how = {.index = x.path ? &x : NULL,
                                    .number = number.path ? &number : NULL,
                                    .tied = tied.head,
                                    .names = names};
    return st_join(&files, &how, b, err) && st_tied_add(&tied, &number, names, b, err) &&
           (!p.dcp || hf_note_strangers(b, err)) && zf_st_files_metadata(&files, b, err) &&
           zf_companions_add(st, o, b, err) && zf_companions_add_ranks(st, o, b, err) &&
           hf_parts_show_others(&p, save, o, b, err);
}

const struct zf_format zf_format_hf = {
    .name = "hf",
    .summary = "Hugging Face: several safetensors files with an index, or cut by torch DCP",
    .one_file = true,
    .whole = true,
    .probe = hf_probe,
    .open = hf_open_hf,
};
