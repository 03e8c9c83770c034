/* SPDX-License-Identifier: Apache-2.0 */
/* torch.distributed.checkpoint: a pickled .metadata beside .distcp files, and the folders that
 * training programs wrap around it.  docs/formats/dcp.md says what is where. */
#include <stdio.h>
#include <string.h>

#include <zf/format.h>

#include "beside.h"
#include "dcp_metadata.h"
#include "dcp_place.h"
#include "table.h"

extern const struct zf_format zf_format_dcp;

#define PARTS_MAX 64

/* The directories whose metadata make up one checkpoint, "" for the root. */
struct parts {
    const char *dir[PARTS_MAX];
    uint32_t n;
};

bool zf_dcp_forgive(struct zf_build *b, struct zf_err *err)
{
    char text[800];
    struct zf_err trouble;

    if (!zf_build_degraded(b) || err->code == ZF_E_NOMEM || err->code == ZF_E_LIMIT) {
        return false;
    }
    zf_err_clear(&trouble);
    zf_err_text(err, text, sizeof text);
    if (!zf_build_note(b, &trouble, "%s", text)) {
        *err = trouble;
        return false;
    }
    zf_err_clear(err);
    return true;
}

struct zf_dcp *zf_dcp_new(const struct zf_limits *lim, struct zf_err *err)
{
    struct zf_dcp *d = calloc(1, sizeof *d);

    if (!d) {
        zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "no memory for metadata");
        return NULL;
    }
    d->pickles = zf_arena_new(lim->pickle_memory, err);
    if (!d->pickles) {
        free(d);
        return NULL;
    }
    d->seed = zf_dcp_table_seed();
    return d;
}

void zf_dcp_free(struct zf_dcp *d)
{
    if (!d) {
        return;
    }
    zf_dcp_table_fini(&d->keys);
    zf_dcp_table_fini(&d->chunks);
    zf_dcp_table_fini(&d->files);
    zf_arena_free(d->pickles);
    free(d->key);
    free(d->chunk);
    free(d->box);
    free(d->file);
    free(d);
}

/* "__12.metadata": what one rank wrote for itself (torch >= 2.9, use_collectives=False). */
static bool is_rank_metadata(const char *name)
{
    size_t digits = strncmp(name, "__", 2) == 0 ? strspn(name + 2, "0123456789") : 0;

    return digits && strcmp(name + 2 + digits, ".metadata") == 0;
}

static bool is_distcp(const char *name)
{
    size_t n = strlen(name);

    return n > 7 && strcmp(name + n - 7, ".distcp") == 0;
}

/* "pytorch_model_fsdp_0", "optimizer_0": accelerate's save_state, which Trainer uses too.
 * Source: accelerate/utils/fsdp_utils.py save_fsdp_model, save_fsdp_optimizer (0.20 … 1.15). */
static bool is_accelerate(const char *name)
{
    static const char *const stem[] = {"pytorch_model_fsdp_", "optimizer_"};

    for (size_t i = 0; i < sizeof stem / sizeof *stem; i++) {
        size_t n = strlen(stem[i]);

        if (strncmp(name, stem[i], n) == 0 && name[n] &&
            !name[n + strspn(name + n, "0123456789")]) {
            return true;
        }
    }
    return false;
}

/* The first entry of `dir` that `fits`, or NULL. */
static const char *entry_of(struct zf_store *st, const char *dir, bool (*fits)(const char *name))
{
    const struct zf_entry *e;
    struct zf_err ignored = {0};
    size_t n;

    if (!zf_store_list(st, dir, &e, &n, &ignored)) {
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        if (e[i].kind == ZF_ENTRY_FILE && fits(e[i].name)) {
            return e[i].name;
        }
    }
    return NULL;
}

static bool is_metadata(const char *name)
{
    return strcmp(name, ".metadata") == 0;
}

/* Does `dir` look like a save, finished or not? */
static bool is_save(struct zf_store *st, const char *dir)
{
    return entry_of(st, dir, is_metadata) || entry_of(st, dir, is_rank_metadata) ||
           entry_of(st, dir, is_distcp);
}

/* Where a checkpoint keeps its metadata: beside the files, or in folders under them. */
static void find_parts(struct zf_store *st, struct parts *out)
{
    const struct zf_entry *e;
    struct zf_err ignored = {0};
    size_t n;

    *out = (struct parts){0};
    if (is_save(st, "")) {
        out->dir[out->n++] = "";
        return;
    }
    if (zf_store_has(st, "model_and_optim", ZF_ENTRY_DIR) && is_save(st, "model_and_optim")) {
        out->dir[out->n++] = "model_and_optim";
        return;
    }
    if (!zf_store_list(st, "", &e, &n, &ignored)) {
        return;
    }
    for (size_t i = 0; i < n && out->n < PARTS_MAX; i++) {
        if (e[i].kind == ZF_ENTRY_DIR && is_accelerate(e[i].name) && is_save(st, e[i].name)) {
            out->dir[out->n++] = e[i].name;
        }
    }
}

static bool dcp_probe(struct zf_store *st, const struct zf_open_opts *o, struct zf_probe *out,
                      struct zf_err *err)
{
    struct parts parts;
    const char *dir, *name;
    char path[320];
    uint8_t head[2] = {0};

    (void)o;
    (void)err;
    *out = (struct zf_probe){.fit = ZF_FIT_NO};
    find_parts(st, &parts);
    if (parts.n == 0) {
        return true;
    }
    dir = parts.dir[0];
    name = entry_of(st, dir, is_metadata);
    name = name ? name : entry_of(st, dir, is_rank_metadata);
    if (name &&
        snprintf(path, sizeof path, "%s%s%s", dir, *dir ? "/" : "", name) < (int)sizeof path) {
        struct zf_err ignored = {0};
        zf_auto(source) struct zf_source *src = zf_store_open(st, path, &ignored);

        if (src && src->size >= sizeof head &&
            zf_source_pread(src, head, sizeof head, 0, &ignored) && head[0] == 0x80) {
            out->fit = ZF_FIT_PROOF;
            snprintf(out->why, sizeof out->why, "%.100s is a pickle of protocol %u", path, head[1]);
            return true;
        }
    }
    out->fit = ZF_FIT_NAMES;
    snprintf(out->why, sizeof out->why, "%.60s%sthere are .distcp files%s", dir, *dir ? ": " : "",
             name ? "" : " without .metadata");
    return true;
}

static bool read_part(struct zf_dcp *d, struct zf_store *st, const char *dir,
                      const struct zf_limits *lim, struct zf_build *b, struct zf_err *err)
{
    const struct zf_entry *e;
    uint32_t before = d->n_passes;
    size_t n;

    if (!zf_store_list(st, dir, &e, &n, err)) {
        return false;
    }
    if (entry_of(st, dir, is_metadata)) {
        return zf_dcp_read(d, st, dir, ".metadata", lim, b, err);
    }
    for (size_t i = 0; i < n; i++) {
        if (e[i].kind == ZF_ENTRY_FILE && is_rank_metadata(e[i].name) &&
            !zf_dcp_read(d, st, dir, e[i].name, lim, b, err)) {
            return false;
        }
    }
    if (d->n_passes > before) {
        return true;
    }
    zf_fail(
        err, ZF_E_FORMAT, ZF_OFF_NONE,
        "the save is incomplete: there are .distcp files but no .metadata, which is written last");
    return *dir ? zf_err_in(err, "%s", dir) : false;
}

static bool dcp_open(struct zf_store *st, const struct zf_open_opts *o, struct zf_build *b,
                     struct zf_err *err)
{
    zf_auto(dcp) struct zf_dcp *d = zf_dcp_new(o->lim, err);
    struct parts parts;

    if (!d) {
        return false;
    }
    find_parts(st, &parts);
    if (parts.n == 0) {
        return zf_fail(err, ZF_E_UNKNOWN, ZF_OFF_NONE, "no .metadata and no .distcp file is here");
    }
    for (uint32_t i = 0; i < parts.n; i++) {
        if (!read_part(d, st, parts.dir[i], o->lim, b, err)) {
            return false;
        }
    }
    return zf_dcp_place(d, st, o->lim, b, err) && zf_beside_add(st, o, b, err);
}

const struct zf_format zf_format_dcp = {
    .name = "dcp",
    .summary = "torch.distributed.checkpoint: .metadata and .distcp files (FSDP, torchtitan, "
               "accelerate …)",
    .probe = dcp_probe,
    .open = dcp_open,
};
