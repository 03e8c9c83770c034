/* SPDX-License-Identifier: Apache-2.0 */
/* torch.distributed.checkpoint (DCP): .distcp files, and the pickled .metadata that describes them.
 *
 * This format finds the directories of a save (trainers put them into folders of their own, and some
 * save model and optimizer separately), and uses <zf/dcp.h> to read each one's metadata and place its
 * tensors.  docs/formats/dcp.md has the layout. */
#include <stdio.h>
#include <string.h>

#include <zf/assemble/companions.h>
#include <zf/assemble/save_dirs.h>
#include <zf/assemble/st_files.h>
#include <zf/dcp.h>
#include <zf/format.h>

extern const struct zf_format zf_format_dcp;

/* The directories whose metadata make up one checkpoint, "" for the root.  Each has a separate state dict,
 * but the names of a model's and its optimizer's belong together. */
struct dcp_parts {
    struct part {
        const char *dir;
        struct zf_dcp_group group;
    } part[ZF_DCP_GROUPS_MAX];
    uint32_t n;          /* may exceed the size of `part`, which then lacks the rest */
    bool only_optimizer; /* the weights, if any, are not a DCP save */
};

static void dcp_add_part(struct dcp_parts *p, const char *dir, struct zf_dcp_group group)
{
    if (p->n < ZF_DCP_GROUPS_MAX)
        p->part[p->n] = (struct part){.dir = dir, .group = group};
    p->n++;
}

/* The rest of name after `stem` if it is all digits, else NULL. */
static const char *dcp_number_behind(const char *name, const char *stem)
{
    size_t n = strlen(stem);

    return strncmp(name, stem, n) == 0 && name[n] && !name[n + strspn(name + n, "0123456789")]
               ? name + n
               : NULL;
}

/* The first of these directories that has a save in it, or NULL. */
static const char *dcp_first_of(struct zf_store *st, const char *const dir[])
{
    size_t i = 0;

    while (dir[i] && !zf_dcp_is_save(st, dir[i]))
        i++;
    return dir[i];
}

/* Finds model and optimizer in separate directories. */
static void dcp_find_pair(struct zf_store *st, struct dcp_parts *out)
{
    const char *weights = dcp_first_of(st, zf_weights_dir);
    const char *optimizer = weights ? dcp_first_of(st, zf_optimizer_dir) : NULL;

    if (optimizer) {
        dcp_add_part(out, weights, (struct zf_dcp_group){0});
        dcp_add_part(out, optimizer, (struct zf_dcp_group){.head = "optimizer"});
    }
}

/* Finds "<stem>0" and so on, each with a save in it. */
static void dcp_find_numbered(struct zf_store *st, const char *stem, struct dcp_parts *out)
{
    for (struct zf_entries l = zf_store_entries(st, ""); l.e < l.end; l.e++) {
        const char *number = l.e->kind == ZF_ENTRY_DIR ? dcp_number_behind(l.e->name, stem) : NULL;

        if (number && zf_dcp_is_save(st, l.e->name)) {
            bool first = strcmp(number, "0") == 0;
            dcp_add_part(out, l.e->name, (struct zf_dcp_group){.number = first ? NULL : number});
        }
    }
}

/* accelerate's save_state, which Trainer uses too: "pytorch_model_fsdp_0" (until 0.24
 * "pytorch_model_0") and "optimizer_0".  The optimizers may be numbered although the weights are not.
 * Source: accelerate/utils/fsdp_utils.py save_fsdp_model, save_fsdp_optimizer (0.21 … 1.15). */
static void dcp_find_accelerate(struct zf_store *st, struct dcp_parts *out)
{
    dcp_find_numbered(st, "pytorch_model_fsdp_", out);
    dcp_find_numbered(st, "pytorch_model_", out);
    const char *weights = out->n == 0 ? dcp_first_of(st, zf_weights_dir) : NULL;

    if (weights)
        dcp_add_part(out, weights, (struct zf_dcp_group){0});
    uint32_t models = out->n;

    dcp_find_numbered(st, "optimizer_", out);
    out->only_optimizer = models == 0;
    if (weights && out->n == 1)
        out->n = 0;
}

/* Finds the metadata of a checkpoint: in its directory, or in folders below it. */
static void dcp_find_parts(struct zf_store *st, struct dcp_parts *out)
{
    *out = (struct dcp_parts){0};
    if (zf_dcp_is_save(st, "")) {
        dcp_add_part(out, "", (struct zf_dcp_group){0});
    } else if (zf_dcp_is_save(st, "model_and_optim")) {
        dcp_add_part(out, "model_and_optim", (struct zf_dcp_group){0});
    } else {
        dcp_find_accelerate(st, out);
        if (out->n == 0) {
            out->only_optimizer = false;
            dcp_find_pair(st, out);
        }
    }
}

/* Appends the directories that are joined with the first to `why`. */
static void dcp_append_parts(const struct dcp_parts *parts, char *why, size_t n)
{
    for (uint32_t i = 1; i < parts->n && i < ZF_DCP_GROUPS_MAX; i++) {
        size_t at = strlen(why);

        snprintf(why + at, n - at, "%s %s", i == 1 ? ", joined with" : ",", parts->part[i].dir);
    }
}

static bool dcp_has_safetensors_in(struct zf_store *st, const char *dir)
{
    bool has = false;

    for (struct zf_entries l = zf_store_entries(st, dir); l.e < l.end; l.e++)
        has = has || (l.e->kind == ZF_ENTRY_FILE && zf_st_file_named(l.e->name));
    return has;
}

/* True if there are safetensors next to an optimizer, or where separately saved weights are. */
static bool dcp_has_safetensors(struct zf_store *st)
{
    bool has = dcp_has_safetensors_in(st, "");

    for (size_t i = 0; !has && zf_weights_dir[i]; i++) {
        has =
            zf_save_dir_is(st, zf_weights_dir[i]) && dcp_has_safetensors_in(st, zf_weights_dir[i]);
    }
    return has;
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
    /* An optimizer next to safetensors is opened together with them (hf_parts.c). */
    if (parts.n == 0 || (parts.only_optimizer && dcp_has_safetensors(st)))
        return true;
    const char *dir = parts.part[0].dir;
    const char *name = zf_dcp_metadata_in(st, dir);
    bool named = name && snprintf(path, sizeof path, "%s%s%s", dir, *dir ? "/" : "", name) <
                             (int)sizeof path;
    if (named) {
        struct zf_err ignored = {0};
        zf_auto(source) struct zf_source *src = zf_store_open(st, path, &ignored);

        if (src && src->size >= sizeof head &&
            zf_source_pread(src, head, sizeof head, 0, &ignored) && head[0] == 0x80) {
            out->fit = ZF_FIT_PROOF;
            snprintf(out->why, sizeof out->why, "%.80s is a pickle of protocol %u", path, head[1]);
            dcp_append_parts(&parts, out->why, sizeof out->why);
            return true;
        }
    }
    out->fit = ZF_FIT_NAMES;
    out->unfinished = !named;
    snprintf(out->why, sizeof out->why, "there are .distcp files%s%.60s%s", *dir ? " in " : "", dir,
             named ? "" : " without .metadata");
    return true;
}

static bool dcp_open(const struct zf_save *save, const struct zf_open_opts *o, struct zf_build *b,
                     struct zf_err *err)
{
    zf_auto(dcp) struct zf_dcp *d = zf_dcp_new(o->lim, err);
    struct zf_store *st = save->store;
    struct dcp_parts parts;

    if (!d)
        return false;
    dcp_find_parts(st, &parts);
    if (parts.n == 0) {
        return zf_fail(err, ZF_E_UNKNOWN, ZF_OFF_NONE,
                       "there is neither .metadata nor a .distcp file here");
    }
    if (parts.n > ZF_DCP_GROUPS_MAX) {
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE,
                       "there are %u directories with one save each here, more than the %d that "
                       "one checkpoint can have. Point at one of them",
                       parts.n, ZF_DCP_GROUPS_MAX);
    }
    for (uint32_t i = 0; i < parts.n; i++) {
        zf_dcp_begin(d, parts.part[i].group);
        if (!zf_dcp_read_dir(d, st, parts.part[i].dir, o->lim, b, err))
            return false;
    }
    return zf_dcp_place(d, st, o->lim, b, err) && zf_companions_add(st, o, b, err);
}

const struct zf_format zf_format_dcp = {
    .name = "dcp",
    .summary = "torch.distributed.checkpoint: .metadata and .distcp files (FSDP, torchtitan, "
               "accelerate …)",
    .shards = true,
    .whole = true,
    .probe = dcp_probe,
    .open = dcp_open,
};
