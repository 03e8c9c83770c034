/* SPDX-License-Identifier: Apache-2.0 */
/* OLMo-core 0.x, also written by OLMo's checkpointer "olmo_core": model/ and optim/, each with a
 * metadata.json and a safetensors file per rank.  docs/formats/olmo.md describes the files. */
#include "layouts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <zf/assemble/degraded.h>
#include <zf/assemble/st_files.h>
#include <zf/base/hash.h>
#include <zf/base/sorted.h>

#include "core_meta.h"
#include "train.h"

static const char core_files[] = "rank_%r.safetensors";

/* ---- recognizing a save ---- */

static const char *core_skip_space(const char *p)
{
    return p + strspn(p, " \t\r\n");
}

/* True if metadata.json begins with {"tensors":.  (Megatron has a file of the same name.) */
static bool core_head_fits(struct zf_store *st, const char *path)
{
    static const char key[] = "\"tensors\"";
    char head[256] = "";
    struct zf_err ignored;
    zf_auto(source) struct zf_source *src = zf_store_open(st, path, &ignored);
    size_t n = src && src->size < sizeof head - 1 ? (size_t)src->size : sizeof head - 1;

    if (!src || !zf_source_pread(src, head, n, 0, &ignored))
        return false;
    const char *p = core_skip_space(head);
    p = *p == '{' ? core_skip_space(p + 1) : "";
    return strncmp(p, key, sizeof key - 1) == 0 && *core_skip_space(p + sizeof key - 1) == ':';
}

static bool core_dir_fits(struct zf_store *st, const char *dir)
{
    char path[64];

    (void)snprintf(path, sizeof path, "%s%smetadata.json", dir, *dir ? "/" : "");
    return zf_store_has(st, path, ZF_ENTRY_FILE) && core_head_fits(st, path) &&
           zf_numbered_any(st, dir, core_files);
}

const char *core_find(const struct zf_save *save, const struct zf_open_opts *o)
{
    (void)o;
    return save->file                            ? NULL
           : core_dir_fits(save->store, "model") ? "model"
           : core_dir_fits(save->store, "")      ? ""
                                                 : NULL;
}

/* ---- the files ---- */

/* One directory with its metadata. */
struct core_part {
    struct olmo_save *s;
    const char *dir; /* "optim/", or "" */
    bool optim;
    struct core_meta meta;
    struct zf_st_files files;
    size_t *opened;         /* [meta.n_files] index in `files` plus one; 0 = could not be read */
    const char **path;      /* [meta.n_files] */
    const char **why;       /* [meta.n_files] why it could not be read */
    struct zf_sorted entry; /* pairs: hash of file and key, address of its zf_st_entry */
    uint32_t
        world; /* ranks with a file here or in metadata.json; those without data have empty ones */
};

static bool core_read_meta(struct core_part *p, struct zf_err *err)
{
    const char *path = zf_arena_fmt(p->s->a, err, "%smetadata.json", p->dir);
    zf_auto(source) struct zf_source *src = path ? zf_store_open(p->s->st, path, err) : NULL;

    if (!src || core_meta_read(src, p->s->o->lim, p->s->a, &p->meta, err))
        return src != NULL;
    /* If a source failed, it has set the path already. */
    return err->path[0] && err->path[0] != '!' ? false : zf_err_in(err, "%s", path);
}

/* Adds the tensors of a file to p->entry. */
static bool core_enter(struct core_part *p, uint32_t number, struct zf_err *err)
{
    const struct zf_st_header *h = &p->files.at[p->opened[number] - 1].head;

    for (uint64_t i = 0; i < h->n; i++) {
        const struct zf_st_entry *e = &h->entry[i];

        if (!zf_sorted_add_pair(&p->entry, zf_hash(number, e->name, e->name_len), (uintptr_t)e,
                                err))
            return false;
    }
    return true;
}

static bool core_add_file(struct core_part *p, uint32_t number, struct zf_err *err)
{
    size_t had = p->files.n;

    p->path[number] = zf_arena_fmt(p->s->a, err, "%s%s", p->dir, p->meta.file[number]);
    if (!p->path[number])
        return false;
    if (!zf_store_find(p->s->st, p->path[number])) {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "it is missing, but metadata.json lists it");
        (void)zf_err_in(err, "%s", p->path[number]);
        p->why[number] = "it is missing";
        return zf_forgive(p->s->b, err);
    }
    if (!zf_st_files_add(&p->files, p->s->st, p->path[number], p->s->o->lim, p->s->b, err))
        return false;
    if (p->files.n == had) {
        p->why[number] = "it could not be read";
        return true;
    }
    p->opened[number] = p->files.n;
    return core_enter(p, number, err);
}

/* Counts the ranks.  metadata.json only names files with data: with replicas (NO_SHARD), those of one rank. */
static void core_count_ranks(struct core_part *p, uint32_t n_here)
{
    struct zf_numbered_file f;

    p->world = n_here;
    for (uint32_t i = 0; i < p->meta.n_files; i++)
        if (zf_numbered_fits(core_files, p->meta.file[i], &f) && f.number[0] >= p->world)
            p->world = f.number[0] + 1;
}

static bool core_is_named(const struct core_part *p, const char *name)
{
    for (uint32_t i = 0; i < p->meta.n_files; i++)
        if (strcmp(p->meta.file[i], name) == 0)
            return true;
    return false;
}

/* Checks that a rank's file which metadata.json does not name is empty. */
static bool core_check_extra(struct core_part *p, const char *path, struct zf_err *err)
{
    zf_auto(source) struct zf_source *src = zf_store_open(p->s->st, path, err);
    struct zf_st_header h;

    if (!src || !zf_st_load_head(src, p->s->a, p->s->o->lim, &h, err))
        return zf_forgive(p->s->b, err);
    if (h.n == 0 || h.entry[h.n - 1].end == h.data_off)
        return true;
    zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
            "it holds \"%.100s\", but metadata.json does not list this file: two saves are mixed",
            h.entry[h.n - 1].name);
    (void)zf_err_in(err, "%s", path);
    return zf_forgive(p->s->b, err);
}

static bool core_open_files(struct core_part *p, struct zf_err *err)
{
    struct zf_arena *a = p->s->a;
    struct zf_ranks all;
    char dir[16];

    (void)snprintf(dir, sizeof dir, "%.*s", (int)strcspn(p->dir, "/"), p->dir);
    p->opened = zf_arena_get(a, p->meta.n_files, sizeof *p->opened, err);
    p->path = p->opened ? zf_arena_get(a, p->meta.n_files, sizeof *p->path, err) : NULL;
    p->why = p->path ? zf_arena_get(a, p->meta.n_files, sizeof *p->why, err) : NULL;
    if (!p->why || !zf_st_files_init(&p->files, p->s->o->lim, err) ||
        !zf_ranks_list(p->s->st, a, dir, core_files, 0, &all, err))
        return false;
    core_count_ranks(p, all.n);
    zf_st_files_expect(&p->files, p->s->st, dir);
    for (uint32_t i = 0; i < p->meta.n_files; i++)
        if (!core_add_file(p, i, err))
            return false;
    for (uint32_t i = 0; i < all.n; i++)
        if (all.here[i] && !core_is_named(p, all.path[i] + strlen(p->dir)) &&
            !core_check_extra(p, all.path[i], err))
            return false;
    return zf_st_files_some(&p->files, err);
}

/* ---- tensors ---- */

static const struct zf_st_entry *core_find_entry(struct core_part *p, uint32_t file,
                                                 const char *key)
{
    size_t at, n = zf_sorted_find(&p->entry, zf_hash(file, key, strlen(key)), &at);

    return n ? (const struct zf_st_entry *)(uintptr_t)p->entry.at[2 * at + 1] : NULL;
}

/* Checks that the file's tensor has the dtype and number of elements in metadata.json. */
static bool core_check_entry(const struct core_part *p, const struct core_tensor *t,
                             const struct core_shard *s, const struct zf_st_entry *e,
                             struct zf_err *err)
{
    uint64_t n = e ? (e->end - e->begin) / zf_dtype_info(e->dtype)->bytes : 0;

    if (e && e->dtype == t->dtype && n == s->n)
        return true;
    if (!e) {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                "it does not hold \"%.120s\", although metadata.json lists %" PRIu64
                " elements of it here",
                t->key, s->n);
    } else {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                "it has %" PRIu64 " elements (%s) of \"%.100s\", but metadata.json says %" PRIu64
                " (%s)",
                n, zf_dtype_info(e->dtype)->torch, t->key, s->n, zf_dtype_info(t->dtype)->torch);
    }
    return zf_err_in(err, "%s", p->path[s->file]);
}

static bool core_mark_lost(const struct core_part *p, const struct core_shard *s,
                           struct zf_draft *d, const char *why, struct zf_err *err)
{
    const struct zf_lost how = {.file = p->path[s->file], .why = why};

    for (uint64_t i = 0; i < s->n_ranges; i++) {
        const uint64_t *r = &s->range[2 * i];

        if (!zf_draft_flat(d, r[0], r[1] - r[0], (struct zf_from){.lost = &how}, err))
            return false;
    }
    return !s->start || zf_draft_box(d, s->start, s->size, (struct zf_from){.lost = &how}, err);
}

static bool core_draft_shard(struct core_part *p, const struct core_tensor *t,
                             const struct core_shard *s, struct zf_draft *d, struct zf_err *err)
{
    const struct zf_st_entry *e = core_find_entry(p, s->file, t->key);

    if (!p->opened[s->file])
        return core_mark_lost(p, s, d, p->why[s->file], err);
    if (!core_check_entry(p, t, s, e, err)) {
        char why[sizeof err->msg];

        memcpy(why, err->msg, sizeof why);
        return zf_forgive(p->s->b, err) && core_mark_lost(p, s, d, why, err);
    }
    struct zf_from from = {.src = p->files.at[p->opened[s->file] - 1].src, .off = e->begin};
    for (uint64_t i = 0; i < s->n_ranges; i++) {
        uint64_t first = s->range[2 * i], n = s->range[2 * i + 1] - first;

        if (!zf_draft_flat(d, first, n, from, err))
            return false;
        from.off += n * zf_dtype_info(t->dtype)->bytes;
    }
    return !s->start || zf_draft_box(d, s->start, s->size, from, err);
}

static bool core_draft(struct core_part *p, const struct core_tensor *t, struct zf_spot spot,
                       struct zf_err *err)
{
    struct zf_type type = {t->dtype, t->ndim, t->shape};
    struct zf_draft *d = zf_build_tensor(p->s->b, spot, type, err);
    const char *where = zf_arena_fmt(p->s->a, err, "%smetadata.json", p->dir);

    if (!d || !where || !zf_draft_where(d, where, err))
        return false;
    for (uint32_t i = 0; i < t->n; i++)
        if (!core_draft_shard(p, t, &t->shard[i], d, err))
            return false;
    return true;
}

/* ---- the optimizer ---- */

/* "state.<parameter>.__<key>".  Source: olmo_core/distributed/checkpoint.py,
 * flatten_optimizer_state (0.1.0). */
static const char core_state[] = "state.", core_mark[] = ".__";

static bool core_spot(const struct core_part *p, const char *key, struct zf_spot *out,
                      struct zf_err *err)
{
    struct zf_arena *a = p->s->a;
    const char *mark = NULL, *name;

    if (!p->optim) {
        name = save_clean_name(a, key, strlen(key), err);
        *out = name ? zf_spot_of("", name) : *out;
        return name != NULL;
    }
    for (const char *at = key; (at = strstr(at, core_mark)); at++)
        mark = at;
    if (!mark || strncmp(key, core_state, sizeof core_state - 1) != 0 ||
        mark < key + sizeof core_state - 1 || !mark[sizeof core_mark - 1]) {
        *out = zf_spot_of("extra", key);
        return true;
    }
    const char *from = key + sizeof core_state - 1, *word = mark + sizeof core_mark - 1;
    const char *set = zf_path_encoded(a, "optim", word, strlen(word), "", err);
    name = set ? save_clean_name(a, from, (uint64_t)(mark - from), err) : NULL;
    *out = name ? zf_spot_of(set, name) : *out;
    return name != NULL;
}

/* Checks that a moment has the shape of its parameter. */
static bool core_check_moment(const struct core_part *p, const struct core_tensor *t,
                              struct zf_spot spot, struct zf_err *err)
{
    struct zf_draft *of = zf_build_find(p->s->b, (struct zf_spot){"", spot.name, spot.name_len});
    struct zf_type want;

    if (!*p->dir || t->ndim == 0 || strncmp(spot.set, "optim/", 6) != 0)
        return true;
    want = of ? zf_draft_type(of) : (struct zf_type){0};
    if (of && (t->ndim != want.ndim || zf_shape_equal(t->ndim, t->shape, want.ndim, want.shape)))
        return true;
    zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
            of ? "\"%.120s\" differs in shape from the parameter in model/: two saves are mixed"
               : "\"%.120s\" does not belong to any parameter in model/: two saves are mixed",
            t->key);
    (void)zf_err_in(err, "%smetadata.json", p->dir);
    return zf_forgive(p->s->b, err);
}

/* Reads the bytes of a tensor that is complete in one file. */
static char *core_slurp(struct core_part *p, const struct core_tensor *t, uint64_t *n,
                        struct zf_err *err)
{
    const struct core_shard *s = t->n == 1 ? &t->shard[0] : NULL;
    const struct zf_st_entry *e = s ? core_find_entry(p, s->file, t->key) : NULL;

    if (!s || (p->opened[s->file] && !core_check_entry(p, t, s, e, err))) {
        if (!s)
            zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "\"%.80s\" is spread over several files",
                    t->key);
        return NULL;
    }
    if (!p->opened[s->file]) {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "\"%.80s\" is lost with its file", t->key);
        return NULL;
    }
    *n = e->end - e->begin;
    if (*n > p->s->o->lim->text_bytes) {
        zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "\"%.80s\" has %" PRIu64 " bytes", t->key, *n);
        return NULL;
    }
    return zf_source_slurp(p->files.at[p->opened[s->file] - 1].src, e->begin, *n, err);
}

static const struct core_tensor *core_tensor(const struct core_part *p, const char *key)
{
    for (uint64_t i = 0; i < p->meta.n; i++)
        if (strcmp(p->meta.tensor[i].key, key) == 0)
            return &p->meta.tensor[i];
    return NULL;
}

/* Reads param_group<i>, a pickle of the settings of a group. */
static bool core_read_group(struct core_part *p, uint64_t i, const struct zf_pv **out,
                            struct zf_err *err)
{
    char key[40];
    uint64_t n = 0;

    (void)snprintf(key, sizeof key, "param_group%" PRIu64, i);
    const struct core_tensor *t = core_tensor(p, key);
    if (!t)
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "there is no \"%s\"", key);
    zf_auto(mem) char *text = core_slurp(p, t, &n, err);
    struct zf_bytes in = zf_bytes_of(text, n);
    *out = text ? zf_pickle_load(&in, p->s->a, p->s->o->lim, err) : NULL;
    return *out || (text && zf_err_in(err, "!%s", key));
}

static bool core_read_count(struct core_part *p, uint64_t *out, struct zf_err *err)
{
    const struct core_tensor *t = core_tensor(p, "num_param_groups");
    uint64_t n = 0, found = 0;

    *out = 0;
    for (uint64_t i = 0; i < p->meta.n; i++)
        found += strncmp(p->meta.tensor[i].key, "param_group", 11) == 0;
    if (!t) {
        *out = found;
        return true;
    }
    zf_auto(mem) char *bytes = core_slurp(p, t, &n, err);
    if (!bytes)
        return false;
    struct zf_bytes in = zf_bytes_of(bytes, n);
    *out = n == 8 ? zf_bytes_le64(&in) : UINT64_MAX;
    return *out == found ||
           zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "\"num_param_groups\" is not %" PRIu64 ", the number of groups found", found);
}

static bool core_groups(struct core_part *p, struct zf_err *err)
{
    uint64_t n;
    bool ok = core_read_count(p, &n, err);
    const struct zf_pv **group = ok ? zf_arena_get(p->s->a, n, sizeof *group, err) : NULL;

    for (uint64_t i = 0; group && i < n; i++)
        if (!core_read_group(p, i, &group[i], err))
            return zf_err_in(err, "%smetadata.json", p->dir) || zf_forgive(p->s->b, err);
    return group ? save_groups_json(p->s, group, n, err) : zf_forgive(p->s->b, err);
}

/* Refuses tensors of a file that metadata.json does not list: their place in the full tensor is unknown. */
static bool core_check_file(const struct core_part *p, uint32_t number, struct zf_sorted *listed,
                            struct zf_err *err)
{
    const struct zf_st_header *h = &p->files.at[p->opened[number] - 1].head;
    const struct zf_st_entry *first = NULL;
    uint64_t n = 0;

    for (uint64_t i = 0; i < h->n; i++) {
        const struct zf_st_entry *e = &h->entry[i];

        if (e->end > e->begin && !zf_sorted_has(listed, zf_hash(number, e->name, e->name_len)))
            first = n++ ? first : e;
    }
    if (n == 0)
        return true;
    zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
            "it holds \"%.100s\"%s, which metadata.json does not list for this file: two saves are "
            "mixed",
            first->name, n > 1 ? " and others" : "");
    (void)zf_err_in(err, "%s", p->path[number]);
    return zf_forgive(p->s->b, err);
}

static bool core_check_listed(const struct core_part *p, struct zf_err *err)
{
    struct zf_sorted listed = {0}; /* hash of file and key */
    bool ok = true;

    for (uint64_t i = 0; ok && i < p->meta.n; i++) {
        const struct core_tensor *t = &p->meta.tensor[i];

        for (uint32_t k = 0; ok && k < t->n; k++)
            ok = zf_sorted_add(&listed, zf_hash(t->shard[k].file, t->key, strlen(t->key)), err);
    }
    for (uint32_t i = 0; ok && i < p->meta.n_files; i++)
        ok = !p->opened[i] || core_check_file(p, i, &listed, err);
    zf_sorted_fini(&listed);
    return ok;
}

/* True if the key is a setting, which is shown as JSON. */
static bool core_is_setting(const struct core_part *p, const char *key)
{
    return p->optim && (strcmp(key, "num_param_groups") == 0 || strcmp(key, "state_keys") == 0 ||
                        strncmp(key, "param_group", 11) == 0);
}

/* ---- the save ---- */

static bool core_draft_all(struct core_part *p, struct zf_err *err)
{
    p->optim = p->optim || (!*p->dir && core_tensor(p, "num_param_groups"));
    for (uint64_t i = 0; i < p->meta.n; i++) {
        const struct core_tensor *t = &p->meta.tensor[i];
        struct zf_spot spot;

        if (core_is_setting(p, t->key))
            continue;
        if (!core_spot(p, t->key, &spot, err) || !core_check_moment(p, t, spot, err) ||
            !core_draft(p, t, spot, err))
            return false;
    }
    return !p->optim || core_groups(p, err);
}

static bool core_open_part(struct olmo_save *s, const char *dir, bool optim, uint32_t *world,
                           struct zf_err *err)
{
    struct core_part p = {.s = s, .dir = dir, .optim = optim};
    bool ok = core_read_meta(&p, err) && core_open_files(&p, err) && core_draft_all(&p, err) &&
              core_check_listed(&p, err);

    *world = p.world;
    zf_sorted_fini(&p.entry);
    zf_st_files_fini(&p.files);
    return ok;
}

/* Called without optim/metadata.json: refuses files of ranks, as after an incomplete copy; without any,
 * notes that there is no optimizer. */
static bool core_check_optim(struct olmo_save *s, struct zf_err *err)
{
    struct zf_numbered_file f;

    for (struct zf_entries l = zf_store_entries(s->st, "optim"); l.e < l.end; l.e++) {
        if (zf_numbered_fits(core_files, l.e->name, &f)) {
            zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                    "it is missing or was not written by OLMo-core, but optim/%.60s exists",
                    l.e->name);
            (void)zf_err_in(err, "optim/metadata.json");
            return zf_forgive(s->b, err);
        }
    }
    return zf_build_note(s->b, err, "the optimizer was not saved: there is no optim/");
}

bool core_open(void *ctx, const char *dir, struct zf_err *err)
{
    struct olmo_save *s = ctx;
    bool whole = *dir != '\0', optim = whole && core_dir_fits(s->st, "optim");
    uint32_t world, ignored;

    return core_open_part(s, whole ? "model/" : "", false, &world, err) &&
           (!optim || core_open_part(s, "optim/", true, &ignored, err)) &&
           (!whole || optim || core_check_optim(s, err)) && (!whole || train_add(s, world, err));
}
