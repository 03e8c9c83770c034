/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of torch.save files without a trainer's own structure: one file, a Hugging Face index with
 * its shards, or a directory of single files.  docs/formats/torch.md describes them. */
#include <stdio.h>
#include <string.h>

#include <zf/assemble/files.h>
#include <zf/assemble/degraded.h>
#include <zf/assemble/hf_index.h>
#include <zf/assemble/llama.h>
#include <zf/assemble/optim_index.h>
#include <zf/assemble/save_dirs.h>
#include <zf/assemble/torch_files.h>
#include <zf/format.h>

extern const struct zf_format zf_format_torch;

static const char index_tail[] = ".bin.index.json";

/* Finds the index of the weights: the given one, the directory's, or that in a separate directory of weights next to an
 * optimizer with an index (*optimizer: its directory; else NULL).  *index: malloc'ed, or NULL. */
static bool torch_look(const struct zf_save *save, char **index, const char **optimizer,
                       struct zf_err *err)
{
    struct zf_store *st = save->store;

    *optimizer = NULL;
    if (!zf_st_index_find(st, "", save->file, index_tail, index, err))
        return false;
    for (size_t i = 0; !*index && !save->file && zf_optimizer_dir[i]; i++) {
        zf_auto(mem) char *beside = NULL;

        if (!zf_save_dir_is(st, zf_optimizer_dir[i]))
            continue;
        if (!zf_optim_index_find(st, zf_optimizer_dir[i], &beside, err))
            return false;
        for (size_t k = 0; beside && !*index && zf_weights_dir[k]; k++) {
            if (zf_save_dir_is(st, zf_weights_dir[k]) &&
                !zf_st_index_find(st, zf_weights_dir[k], NULL, index_tail, index, err))
                return false;
            *optimizer = *index ? zf_optimizer_dir[i] : NULL;
        }
    }
    return true;
}

static void torch_probe_is(const char *file, enum zf_fit fit, struct zf_probe *out)
{
    out->fit = fit;
    snprintf(out->why, sizeof out->why, "%.100s begins as torch.save writes it", file);
}

/* A directory fits by its files of weights; an optimizer or RNG state alone is only a hint, because
 * it is found next to weights of every kind; a file without a tensor is not even a hint. */
static bool torch_probe_dir(struct zf_store *st, const struct zf_limits *lim, struct zf_probe *out,
                            struct zf_err *err)
{
    const struct zf_entry *e;
    size_t n;

    if (!zf_store_list(st, "", &e, &n, err))
        return false;
    for (size_t i = 0; i < n && out->fit != ZF_FIT_PROOF; i++) {
        if (e[i].kind == ZF_ENTRY_FILE && zf_torch_set_named(e[i].name)) {
            bool weights = zf_torch_set_role(e[i].name) == ZF_ROLE_WEIGHTS;

            if ((weights || out->fit == ZF_FIT_NO) && zf_torch_set_holds(st, e[i].name, lim))
                torch_probe_is(e[i].name, weights ? ZF_FIT_PROOF : ZF_FIT_WEAK, out);
        }
    }
    return true;
}

static bool torch_probe(const struct zf_save *save, const struct zf_open_opts *o,
                        struct zf_probe *out, struct zf_err *err)
{
    zf_auto(mem) char *index = NULL;
    const char *optimizer;

    out->fit = ZF_FIT_NO;
    if (!torch_look(save, &index, &optimizer, err)) {
        if (err->code != ZF_E_UNKNOWN)
            return false;
        zf_err_clear(err); /* several indices: the files themselves may still decide */
    }
    if (index) {
        out->fit = ZF_FIT_PROOF;
        snprintf(out->why, sizeof out->why, "the index %.120s", index);
        return true;
    }
    if (!save->file)
        return torch_probe_dir(save->store, o->lim, out, err);
    if (zf_torch_set_sniff(save->store, save->file))
        torch_probe_is(save->file, ZF_FIT_PROOF, out);
    return true;
}

struct torch_adding {
    struct zf_torch_set *set;
    struct zf_store *st;
    struct zf_build *b;
    size_t n_read, n_failed;
    struct zf_err first; /* the failure of the first file that cannot be read */
};

/* Adds a file.  Degraded: its failure is tolerated if another file can be read, which torch_read_any checks. */
static bool torch_add(struct torch_adding *a, const char *file, enum zf_torch_role role,
                      struct zf_err *err)
{
    if (zf_torch_set_add(a->set, file, role, zf_coord_data(0), err)) {
        a->n_read++;
        return true;
    }
    a->first = a->n_failed++ ? a->first : *err;
    return zf_forgive(a->b, err);
}

static bool torch_read_any(const struct torch_adding *a, struct zf_err *err)
{
    if (!a->n_read && a->n_failed) {
        *err = a->first;
        return false;
    }
    return true;
}

static bool torch_add_named(void *ctx, const char *file, bool here, struct zf_err *err)
{
    return !here || torch_add(ctx, file, ZF_ROLE_WEIGHTS, err);
}

static const char *torch_lacks(void *ctx, const char *tensor, const char *file)
{
    const struct torch_adding *a = ctx;

    return zf_build_find(a->b, zf_spot_of("", tensor)) ? NULL
           : !zf_store_has(a->st, file, ZF_ENTRY_FILE) ? "is missing"
           : zf_torch_set_root(a->set, file)           ? "does not hold it"
                                                       : "cannot be read";
}

/* The number of files in the series of "pytorch_model-00002-of-00003.bin": 3; 0 = not such a name. */
static unsigned long torch_shards_of(const char *name)
{
    struct zf_series s;

    return zf_series_parse(name, &s) ? s.of : 0;
}

static bool torch_is_weights(const char *name)
{
    return zf_torch_set_role(name) == ZF_ROLE_WEIGHTS;
}

static bool torch_is_other(const char *name)
{
    return zf_torch_set_named(name) && !torch_is_weights(name);
}

/* Which files are complete, judged by the names in a directory. */
struct torch_names {
    struct zf_series_list series;
    bool whole; /* there are complete weights: by an index, or as a complete series */
};

/* Checks series of shards, whose names give their number if there is no index.  Next to complete weights, an incomplete
 * series is something else: it is noted. */
static bool torch_look_series(struct zf_store *st, bool indexed, struct torch_names *out,
                              struct zf_build *b, struct zf_err *err)
{
    const struct zf_entry *e;
    size_t n;

    if (!zf_store_list(st, "", &e, &n, err) ||
        !zf_series_list(e, n, indexed ? torch_is_other : zf_torch_set_named, &out->series, err))
        return false;
    out->whole = indexed;
    for (size_t i = 0; i < out->series.of.n; i++) {
        const struct zf_series_files *s = &out->series.of.at[i];

        out->whole = out->whole || (s->lacks == 0 && torch_is_weights(s->name));
    }
    for (size_t i = 0; i < out->series.of.n; i++) {
        const struct zf_series_files *s = &out->series.of.at[i];

        if (s->lacks == 0)
            continue;
        (void)zf_series_fail(s, err);
        if (!(out->whole ? zf_note_failure(b, ZF_NOTE_UNSHOWN, s->name, err,
                                           "%s and the rest of its series are not shown: ", s->name)
                         : zf_forgive(b, err)))
            return false;
    }
    return true;
}

static void zf_auto_torch_names(struct torch_names *names)
{
    zf_vec_fini(&names->series.of);
}

/* True if the file belongs to a series that was noted as not shown. */
static bool torch_is_left(const struct torch_names *names, const char *name)
{
    const struct zf_series_files *s = names->whole ? zf_series_find(&names->series, name) : NULL;

    return s && s->lacks;
}

static bool torch_add_loose(struct torch_adding *a, const struct torch_names *names, bool weights,
                            struct zf_err *err)
{
    const struct zf_entry *e;
    size_t n;

    if (!zf_store_list(a->st, "", &e, &n, err))
        return false;
    for (size_t i = 0; i < n; i++) {
        enum zf_torch_role role = zf_torch_set_role(e[i].name);

        if (!zf_torch_set_named(e[i].name) || (role == ZF_ROLE_WEIGHTS) != weights ||
            torch_is_left(names, e[i].name))
            continue;
        if (weights && torch_shards_of(e[i].name)) {
            /* By its name it is one of the shards, so it is opened without probing: damage is
             * reported. */
            if (!torch_add(a, e[i].name, ZF_ROLE_WEIGHTS, err))
                return false;
        } else if (e[i].kind == ZF_ENTRY_OTHER) {
            if (!zf_build_note_on(a->b, ZF_NOTE_UNSHOWN, e[i].name, err,
                                  "%s is not shown: it is %s, not a file", e[i].name, e[i].what))
                return false;
        } else if (e[i].kind == ZF_ENTRY_FILE && zf_torch_set_sniff(a->st, e[i].name) &&
                   !torch_add(a, e[i].name, role, err)) {
            return false;
        }
    }
    return true;
}

/* Opens one file of several, which was given by itself. */
static bool torch_open_one(struct zf_torch_set *s, const char *file, struct zf_build *b,
                           struct zf_err *err)
{
    unsigned long of = torch_shards_of(file);

    return (of <= 1 ||
            zf_build_note(b, err,
                          "this is one of %lu files. Point at its directory to see all tensors",
                          of)) &&
           zf_torch_set_add(s, file, ZF_ROLE_WEIGHTS, zf_coord_data(0), err) &&
           zf_torch_set_place(s, err);
}

static bool torch_open_torch(const struct zf_save *save, const struct zf_open_opts *o,
                             struct zf_build *b, struct zf_err *err)
{
    struct zf_store *st = save->store;
    zf_auto(torch_set) struct zf_torch_set *s =
        zf_torch_set_new(b, st, &(struct zf_mesh){0}, false, o->lim, err);
    zf_auto(st_index) struct zf_st_index x = {.path = NULL};
    zf_auto(mem) char *index = NULL;
    zf_auto(torch_names) struct torch_names names = {.whole = false};
    const char *optimizer;
    struct torch_adding a = {.set = s, .st = st, .b = b};
    struct zf_st_index_reader reader = {.ctx = &a, .add = torch_add_named, .lacks = torch_lacks};

    if (!s || !torch_look(save, &index, &optimizer, err))
        return false;
    bool indexed = index && zf_st_index_load(st, index, o->lim, &x, err);

    if (index && !indexed && !zf_forgive(b, err))
        return false;
    if (indexed && x.groups)
        return zf_optim_index_add(&x, st, o, b, err);
    if (!index && save->file)
        return torch_open_one(s, save->file, b, err);
    if (!torch_look_series(st, indexed, &names, b, err) ||
        (indexed ? !zf_st_index_read(&x, st, &reader, b, err)
                 : !torch_add_loose(&a, &names, true, err)))
        return false;
    return torch_add_loose(&a, &names, false, err) && torch_read_any(&a, err) &&
           zf_torch_set_place(s, err) && (!indexed || zf_st_index_check(&x, &reader, b, err)) &&
           (!zf_store_has(st, "consolidated.00.pth", ZF_ENTRY_FILE) ||
            zf_llama_check_alone(st, o->lim, b, err)) &&
           (!optimizer || zf_optim_index_add_dir(st, optimizer, o, b, err));
}

const struct zf_format zf_format_torch = {
    .name = "torch",
    .summary = "torch.save files: one, several with an index, or loose in a directory",
    .one_file = true,
    .whole = true,
    .probe = torch_probe,
    .open = torch_open_torch,
};
