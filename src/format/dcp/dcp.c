/* SPDX-License-Identifier: Apache-2.0 */
/* torch.distributed.checkpoint: .distcp files, and the pickled .metadata that says what is in them.
 *
 * This family finds the directories of a save (training programs wrap folders around them, and some
 * save model and optimizer apart), and has <zf/dcp.h> read the metadata of each and put in its place what
 * they describe.  docs/formats/dcp.md has the layout. */
#include <stdio.h>
#include <string.h>

#include <zf/assemble/files.h>
#include <zf/assemble/companions.h>
#include <zf/dcp.h>
#include <zf/format.h>

extern const struct zf_format zf_format_dcp;

/* The directories whose metadata make up one checkpoint, "" for the root.  Each is a state dict of
 * its own, but those of a model and its optimizer share one set of names. */
struct dcp_parts {
    struct part {
        const char *dir;
        struct zf_dcp_group group;
    } part[ZF_DCP_GROUPS_MAX];
    uint32_t n;
    bool only_optimizer; /* the weights, if any, are no DCP save */
};

static void dcp_add_part(struct dcp_parts *p, const char *dir, struct zf_dcp_group group)
{
    if (p->n < ZF_DCP_GROUPS_MAX) {
        p->part[p->n++] = (struct part){.dir = dir, .group = group};
    }
}

/* "__12.metadata": what one rank wrote for itself (torch >= 2.9, use_collectives=False). */
static bool dcp_is_rank_metadata(const char *name)
{
    size_t digits = strncmp(name, "__", 2) == 0 ? strspn(name + 2, "0123456789") : 0;

    return digits && strcmp(name + 2 + digits, ".metadata") == 0;
}

static bool dcp_is_distcp(const char *name)
{
    size_t n = strlen(name);

    return n > 7 && strcmp(name + n - 7, ".distcp") == 0;
}

/* The digits behind `stem` when they are all that follows, else NULL. */
static const char *dcp_number_behind(const char *name, const char *stem)
{
    size_t n = strlen(stem);

    return strncmp(name, stem, n) == 0 && name[n] && !name[n + strspn(name + n, "0123456789")]
               ? name + n
               : NULL;
}

/* The first entry of `dir` that `fits`, or NULL. */
static const char *dcp_entry_of(struct zf_store *st, const char *dir,
                                bool (*fits)(const char *name))
{
    for (struct zf_entries l = zf_store_entries(st, dir); l.e < l.end; l.e++) {
        if (l.e->kind != ZF_ENTRY_DIR && fits(l.e->name)) { /* a FIFO is refused when opened */
            return l.e->name;
        }
    }
    return NULL;
}

static bool dcp_is_metadata(const char *name)
{
    return strcmp(name, ".metadata") == 0;
}

/* Does `dir` look like a save, finished or not? */
static bool dcp_is_save(struct zf_store *st, const char *dir)
{
    return dcp_entry_of(st, dir, dcp_is_metadata) || dcp_entry_of(st, dir, dcp_is_rank_metadata) ||
           dcp_entry_of(st, dir, dcp_is_distcp);
}

/* Model and optimizer in directories of their own:
 * NeMo-RL's policy/, and scripts that save the two apart. */
static void dcp_find_pair(struct zf_store *st, struct dcp_parts *out)
{
    static const char *const model[] = {"model", "weights", "weights/model", "policy/weights",
                                        "policy/weights/model"};
    static const char *const optimizer[] = {"optimizer", "optim", "optimizer/optim",
                                            "policy/optimizer", "policy/optimizer/optim"};

    for (size_t i = 0; i < sizeof model / sizeof *model; i++) {
        if (!dcp_is_save(st, model[i])) {
            continue;
        }
        for (size_t k = 0; k < sizeof optimizer / sizeof *optimizer; k++) {
            if (dcp_is_save(st, optimizer[k])) {
                dcp_add_part(out, model[i], (struct zf_dcp_group){0});
                dcp_add_part(out, optimizer[k], (struct zf_dcp_group){.head = "optimizer"});
                return;
            }
        }
    }
}

/* "<stem>0" and so on, each with a save in it. */
static void dcp_find_numbered(struct zf_store *st, const char *stem, struct dcp_parts *out)
{
    for (struct zf_entries l = zf_store_entries(st, ""); l.e < l.end; l.e++) {
        const char *number = l.e->kind == ZF_ENTRY_DIR ? dcp_number_behind(l.e->name, stem) : NULL;

        if (number && dcp_is_save(st, l.e->name)) {
            bool first = strcmp(number, "0") == 0;
            dcp_add_part(out, l.e->name, (struct zf_dcp_group){.number = first ? NULL : number});
        }
    }
}

/* accelerate's save_state, which Trainer uses too: "pytorch_model_fsdp_0" (until 0.24
 * "pytorch_model_0") and "optimizer_0".
 * Source: accelerate/utils/fsdp_utils.py save_fsdp_model, save_fsdp_optimizer (0.21 … 1.15). */
static void dcp_find_accelerate(struct zf_store *st, struct dcp_parts *out)
{
    dcp_find_numbered(st, "pytorch_model_fsdp_", out);
    dcp_find_numbered(st, "pytorch_model_", out);
    out->only_optimizer = out->n == 0;
    dcp_find_numbered(st, "optimizer_", out);
}

/* Where a checkpoint keeps its metadata: beside the files, or in folders under them. */
static void dcp_find_parts(struct zf_store *st, struct dcp_parts *out)
{
    *out = (struct dcp_parts){0};
    if (dcp_is_save(st, "")) {
        dcp_add_part(out, "", (struct zf_dcp_group){0});
    } else if (dcp_is_save(st, "model_and_optim")) {
        dcp_add_part(out, "model_and_optim", (struct zf_dcp_group){0});
    } else {
        dcp_find_accelerate(st, out);
        if (out->n == 0) {
            out->only_optimizer = false;
            dcp_find_pair(st, out);
        }
    }
}

/* Path of the metadata of `dir`, of the first rank where each rank has its own.  False: none. */
static bool dcp_metadata_path(struct zf_store *st, const char *dir, char *path, size_t n)
{
    const char *name = dcp_entry_of(st, dir, dcp_is_metadata);

    name = name ? name : dcp_entry_of(st, dir, dcp_is_rank_metadata);
    return name && snprintf(path, n, "%s%s%s", dir, *dir ? "/" : "", name) < (int)n;
}

/* Appends the directories that are joined with the first to `why`. */
static void dcp_tell_parts(const struct dcp_parts *parts, char *why, size_t n)
{
    for (uint32_t i = 1; i < parts->n; i++) {
        size_t at = strlen(why);

        snprintf(why + at, n - at, "%s %s", i == 1 ? ", joined with" : ",", parts->part[i].dir);
    }
}

static bool dcp_probe(const struct zf_save *save, const struct zf_open_opts *o,
                      struct zf_probe *out, struct zf_err *err)
{
    struct zf_store *st = save->store;
    struct dcp_parts parts;
    char path[320];
    uint8_t head[2] = {0};

    (void)o;
    (void)err;
    *out = (struct zf_probe){.fit = ZF_FIT_NO};
    dcp_find_parts(st, &parts);
    if (parts.n == 0) {
        return true;
    }
    const char *dir = parts.part[0].dir;
    bool named = dcp_metadata_path(st, dir, path, sizeof path);
    if (named) {
        struct zf_err ignored = {0};
        zf_auto(source) struct zf_source *src = zf_store_open(st, path, &ignored);

        if (src && src->size >= sizeof head &&
            zf_source_pread(src, head, sizeof head, 0, &ignored) && head[0] == 0x80) {
            out->fit = ZF_FIT_PROOF;
            snprintf(out->why, sizeof out->why, "%.80s is a pickle of protocol %u", path, head[1]);
            dcp_tell_parts(&parts, out->why, sizeof out->why);
            return true;
        }
    }
    out->fit = ZF_FIT_NAMES;
    out->unfinished = !named;
    snprintf(out->why, sizeof out->why, "there are .distcp files%s%.60s%s", *dir ? " in " : "", dir,
             named ? "" : " without .metadata");
    return true;
}

static bool dcp_read_part(struct zf_dcp *d, struct zf_store *st, const char *dir,
                          const struct zf_limits *lim, struct zf_build *b, struct zf_err *err)
{
    const struct zf_entry *e;
    uint32_t before = zf_dcp_n_read(d);
    size_t n;

    if (!zf_store_list(st, dir, &e, &n, err)) {
        return false;
    }
    if (dcp_entry_of(st, dir, dcp_is_metadata)) {
        return zf_dcp_read(d, st, dir, ".metadata", lim, b, err);
    }
    for (size_t i = 0; i < n; i++) {
        if (dcp_is_rank_metadata(e[i].name) && !zf_dcp_read(d, st, dir, e[i].name, lim, b, err)) {
            return false;
        }
    }
    if (zf_dcp_n_read(d) > before) {
        return true;
    }
    char path[320], is[ZF_ABSENT_MAX];
    (void)snprintf(path, sizeof path, "%.300s%s.metadata", dir, *dir ? "/" : "");
    zf_fail(
        err, ZF_E_FORMAT, ZF_OFF_NONE,
        "the save is incomplete: there are .distcp files, but .metadata, which is written last, %s",
        zf_absent(st, path, is));
    return *dir ? zf_err_in(err, "%s", dir) : false;
}

static bool dcp_open(const struct zf_save *save, const struct zf_open_opts *o, struct zf_build *b,
                     struct zf_err *err)
{
    zf_auto(dcp) struct zf_dcp *d = zf_dcp_new(o->lim, err);
    struct zf_store *st = save->store;
    struct dcp_parts parts;

    if (!d) {
        return false;
    }
    dcp_find_parts(st, &parts);
    if (parts.n == 0) {
        return zf_fail(err, ZF_E_UNKNOWN, ZF_OFF_NONE, "no .metadata and no .distcp file is here");
    }
    for (uint32_t i = 0; i < parts.n; i++) {
        zf_dcp_begin(d, parts.part[i].group);
        if (!dcp_read_part(d, st, parts.part[i].dir, o->lim, b, err)) {
            return false;
        }
    }
    return zf_dcp_place(d, st, o->lim, b, err) && zf_companions_add(st, o, b, err) &&
           zf_companions_note_weights(st, !parts.only_optimizer, b, err);
}

const struct zf_format zf_format_dcp = {
    .name = "dcp",
    .summary = "torch.distributed.checkpoint: .metadata and .distcp files (FSDP, torchtitan, "
               "accelerate …)",
    .shards = true,
    .probe = dcp_probe,
    .open = dcp_open,
};
