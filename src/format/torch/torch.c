/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of torch.save files that stand for themselves: one file, a Hugging Face index with
 * its shards, or a directory of loose files.  docs/formats/torch.md says what is where. */
#include <stdio.h>
#include <string.h>

#include <zf/assemble/absent.h>
#include <zf/assemble/degraded.h>
#include <zf/assemble/hf_index.h>
#include <zf/assemble/one_file.h>
#include <zf/assemble/torch_files.h>
#include <zf/base/name.h>
#include <zf/codec/torch.h>
#include <zf/format.h>

extern const struct zf_format zf_format_torch;

static const char index_tail[] = ".bin.index.json";

static bool sniff(struct zf_store *st, const char *name)
{
    struct zf_err ignored = {.code = ZF_OK};
    zf_auto(source) struct zf_source *src = zf_store_open(st, name, &ignored);

    return src && zf_torch_sniff(src);
}

/* The index of a directory, or the one that was pointed at.  Several that are no HF names: none. */
static bool find_index(struct zf_store *st, char **out, struct zf_err *err)
{
    const char *file = zf_one_file(st);

    *out = NULL;
    if (!file) {
        return zf_st_index_find(st, index_tail, out, err);
    }
    if (zf_name_ends(file, index_tail) && !(*out = strdup(file))) {
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for a file name");
    }
    return true;
}

static bool probe_file(struct zf_store *st, const char *file, struct zf_probe *out)
{
    if (sniff(st, file)) {
        out->fit = ZF_FIT_PROOF;
        snprintf(out->why, sizeof out->why, "%.100s begins as torch.save writes it", file);
    }
    return true;
}

/* A directory fits by its files of weights; an optimizer or RNG state alone is only a hint, because
 * it lies beside weights of every kind. */
static bool probe_dir(struct zf_store *st, struct zf_probe *out, struct zf_err *err)
{
    const struct zf_entry *e;
    size_t n;

    if (!zf_store_list(st, "", &e, &n, err)) {
        return false;
    }
    for (size_t i = 0; i < n && out->fit != ZF_FIT_PROOF; i++) {
        if (e[i].kind != ZF_ENTRY_FILE || !zf_torch_set_named(e[i].name) || !sniff(st, e[i].name)) {
            continue;
        }
        out->fit = zf_torch_set_role(e[i].name) == ZF_ROLE_WEIGHTS ? ZF_FIT_PROOF : ZF_FIT_WEAK;
        snprintf(out->why, sizeof out->why, "%.100s begins as torch.save writes it", e[i].name);
    }
    return true;
}

static bool probe(struct zf_store *st, const struct zf_open_opts *o, struct zf_probe *out,
                  struct zf_err *err)
{
    zf_auto(mem) char *index = NULL;
    const char *file = zf_one_file(st);

    (void)o;
    out->fit = ZF_FIT_NO;
    if (!find_index(st, &index, err)) {
        if (err->code != ZF_E_UNKNOWN) {
            return false;
        }
        zf_err_clear(err); /* several: the files themselves may still tell */
    }
    if (index) {
        out->fit = ZF_FIT_PROOF;
        snprintf(out->why, sizeof out->why, "the index %.120s", index);
        return true;
    }
    return file ? probe_file(st, file, out) : probe_dir(st, out, err);
}

/* Opens the files of an index.  A missing one is refused or, degraded, told. */
static bool add_indexed(struct zf_torch_set *s, struct zf_store *st, const char *index,
                        const struct zf_open_opts *o, struct zf_build *b, struct zf_err *err)
{
    zf_auto(st_index) struct zf_st_index x = {.json = NULL};

    if (!zf_st_index_load(st, index, o->lim, &x, err)) {
        return false;
    }
    for (size_t i = 0; i < x.n_files; i++) {
        char is[ZF_ABSENT_MAX];

        if (zf_store_has(st, x.file[i], ZF_ENTRY_FILE)) {
            if (!zf_torch_set_add(s, st, x.file[i], ZF_ROLE_WEIGHTS, 0, o->lim, err)) {
                return false;
            }
        } else if (!o->degraded) {
            zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                    "the index names the file \"%.120s\", which %s (file %zu of %zu)", x.file[i],
                    zf_absent(st, x.file[i], is), i + 1, x.n_files);
            return zf_err_in(err, "%s", index);
        } else if (!zf_build_note(b, err, "%s %s; its tensors are lost", x.file[i],
                                  zf_absent(st, x.file[i], is))) {
            return false;
        }
    }
    return true;
}

/* The weights that the index promises must be in the files. */
static bool check_index(struct zf_store *st, const char *index, const struct zf_open_opts *o,
                        struct zf_build *b, struct zf_err *err)
{
    zf_auto(st_index) struct zf_st_index x = {.json = NULL};
    const char *name;
    json_t *file;

    if (!zf_st_index_load(st, index, o->lim, &x, err)) {
        return false;
    }
    json_object_foreach(x.map, name, file)
    {
        if (zf_build_find(b, (struct zf_spot){"", name, strlen(name)})) {
            continue;
        }
        if (o->degraded) {
            const char *where = json_string_value(file) ? json_string_value(file) : "";
            const struct zf_lost how = {
                .file = where,
                .why = zf_store_has(st, where, ZF_ENTRY_FILE) ? "does not hold it" : "is missing"};

            if (!zf_build_note(b, err, "%s names \"%s\", which no file holds", index, name) ||
                !zf_build_missing(b, name, strlen(name), &how, err)) {
                return false;
            }
            continue;
        }
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "names \"%.100s\", which %.100s does not hold", name,
                json_string_value(file) ? json_string_value(file) : "its file");
        return zf_err_in(err, "%s", index);
    }
    return true;
}

/* "pytorch_model-00002-of-00003.bin": how many files there should be; 0 = no such name. */
static unsigned long shards_of(const char *name)
{
    const char *of = strstr(name, "-of-");
    unsigned long n = 0;

    return of && sscanf(of, "-of-%5lu.", &n) == 1 ? n : 0;
}

/* Shards without an index say themselves how many they are. */
static bool check_shards(struct zf_store *st, struct zf_build *b, struct zf_err *err)
{
    const struct zf_entry *e;
    unsigned long want = 0, have = 0;
    size_t n;

    if (!zf_store_list(st, "", &e, &n, err)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        unsigned long of = zf_torch_set_named(e[i].name) ? shards_of(e[i].name) : 0;

        have += of != 0;
        want = of > want ? of : want;
    }
    if (have >= want) {
        return true;
    }
    (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                  "the names say that there are %lu files; found here: %lu", want, have);
    return zf_forgive(b, err);
}

/* A file that the name of another promises is opened whatever it looks like, so that what is wrong with it
 * is said. */
static bool add_shard(struct zf_torch_set *s, struct zf_store *st, const char *name,
                      const struct zf_open_opts *o, struct zf_build *b, struct zf_err *err)
{
    return zf_torch_set_add(s, st, name, ZF_ROLE_WEIGHTS, 0, o->lim, err) || zf_forgive(b, err);
}

static bool add_loose(struct zf_torch_set *s, struct zf_store *st, const struct zf_open_opts *o,
                      bool weights, struct zf_build *b, struct zf_err *err)
{
    const struct zf_entry *e;
    size_t n;

    if (!zf_store_list(st, "", &e, &n, err)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        enum zf_torch_role role = zf_torch_set_role(e[i].name);

        if (!zf_torch_set_named(e[i].name) || (role == ZF_ROLE_WEIGHTS) != weights) {
            continue;
        }
        if (weights && shards_of(e[i].name)) {
            if (!add_shard(s, st, e[i].name, o, b, err)) {
                return false;
            }
        } else if (e[i].kind == ZF_ENTRY_OTHER) {
            if (!zf_build_note(b, err, "%s is not shown: it is %s, not a file", e[i].name,
                               e[i].what)) {
                return false;
            }
        } else if (e[i].kind == ZF_ENTRY_FILE && sniff(st, e[i].name) &&
                   !zf_torch_set_add(s, st, e[i].name, role, 0, o->lim, err)) {
            return false;
        }
    }
    return true;
}

static bool index_loads(struct zf_store *st, const char *index, const struct zf_open_opts *o,
                        struct zf_err *err)
{
    zf_auto(st_index) struct zf_st_index x = {.json = NULL};

    return zf_st_index_load(st, index, o->lim, &x, err);
}

static bool open_torch(struct zf_store *st, const struct zf_open_opts *o, struct zf_build *b,
                       struct zf_err *err)
{
    zf_auto(torch_set) struct zf_torch_set *s = zf_torch_set_new(false, err);
    zf_auto(mem) char *index = NULL;
    const char *file = zf_one_file(st);

    if (!s || !find_index(st, &index, err)) {
        return false;
    }
    if (index && !index_loads(st, index, o, err)) {
        if (!zf_forgive(b, err)) {
            return false;
        }
        free(index);
        index = NULL;
        file = NULL;
    }
    if (file && !index) {
        if (shards_of(file) > 1 &&
            !zf_build_note(b, err,
                           "this is one of %lu files: point at its directory to see all tensors",
                           shards_of(file))) {
            return false;
        }
        return zf_torch_set_add(s, st, file, ZF_ROLE_WEIGHTS, 0, o->lim, err) &&
               zf_torch_set_place(s, 1, o->lim, b, err);
    }
    if (index ? !add_indexed(s, st, index, o, b, err)
              : !check_shards(st, b, err) || !add_loose(s, st, o, true, b, err)) {
        return false;
    }
    return add_loose(s, st, o, false, b, err) && zf_torch_set_place(s, 1, o->lim, b, err) &&
           (!index || check_index(st, index, o, b, err));
}

const struct zf_format zf_format_torch = {
    .name = "torch",
    .summary = "torch.save files: one, several with an index, or loose in a directory",
    .one_file = true,
    .probe = probe,
    .open = open_torch,
};
