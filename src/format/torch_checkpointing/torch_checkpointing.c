/* SPDX-License-Identifier: Apache-2.0 */
/* torch_checkpointing: a torch.save or safetensors file per item (model, optimizer, step …) and rank, and
 * metadata.pkl, which says how to join the shards.  docs/formats/torch_checkpointing.md describes the files. */
#include <inttypes.h>
#include <string.h>

#include <zf/assemble/degraded.h>
#include <zf/assemble/numbered.h>
#include <zf/assemble/torch_files.h>
#include <zf/base/name.h>
#include <zf/base/path.h>
#include <zf/format.h>

#include "sharding.h"

extern const struct zf_format zf_format_torch_checkpointing;

#define CHECKPOINTING_META "metadata.pkl"

enum { CHECKPOINTING_RANKS_MAX = 1000000 };

static const char checkpointing_files[] = "*_%r.pt", checkpointing_texts[] = "*_%r.json";
static const char checkpointing_safetensors[] = ".safetensors";

/* A file of an item that metadata.pkl describes. */
struct checkpointing_file {
    const char *item, *path;
    uint32_t rank;
    enum zf_torch_role role;
};

struct checkpointing {
    struct zf_store *st;
    const struct zf_open_opts *o;
    struct zf_build *b;
    struct zf_arena *a;
    uint64_t world;
    const struct zf_pv *items; /* {item: {nested_path_to_metadata, rank_to_layout_info}} */
    struct sharding sharding;
    struct zf_torch_set *set, *rest;         /* files of items; all other files */
    zf_vec(struct checkpointing_file) torch; /* torch.save files, item by item */
    zf_vec(struct checkpointing_file) parts; /* safetensors files */
    zf_vec(const char *) path;               /* paths of `torch` */
};

/* ---- metadata.pkl ---- */

static bool checkpointing_read_meta(struct checkpointing *s, struct zf_taker *t, struct zf_err *err)
{
    uint64_t n;
    zf_auto(mem) char *bytes =
        zf_store_slurp(s->st, CHECKPOINTING_META, s->o->lim->pickle_bytes, &n, err);
    struct zf_bytes in = zf_bytes_of(bytes, n);
    const struct zf_pv *v = bytes ? zf_pickle_load(&in, s->a, s->o->lim, err) : NULL;
    struct zf_take root = zf_take_root(t, v), version = zf_take_key(&root, "version");
    struct zf_take world = zf_take_key(&root, "world_size"), items = zf_take_key(&root, "metadata");

    if (!v)
        return bytes && zf_err_in(err, CHECKPOINTING_META);
    const char *is = zf_take_text(&version, NULL);
    (void)zf_take_can(&version, strcmp(is, "2.0") == 0, "it is \"%.20s\"; only 2.0 is read", is);
    s->world = zf_take_u64(&world);
    (void)zf_take_must(&world, s->world <= CHECKPOINTING_RANKS_MAX,
                       "%" PRIu64 " ranks are more than %d", s->world, CHECKPOINTING_RANKS_MAX);
    (void)zf_take_map(&items);
    s->items = items.v;
    return zf_take_ok(t, err) || zf_err_in(err, CHECKPOINTING_META);
}

static bool checkpointing_add_file(struct checkpointing *s, const struct zf_take *layout,
                                   const struct zf_take *item, const char *name, uint64_t i,
                                   bool *cut, struct zf_err *err)
{
    struct zf_take key = zf_take_name(layout, i), own = zf_take_item(layout, i);
    struct zf_take file = zf_take_key(&own, "file_path");
    uint64_t rank = zf_take_u64(&key);
    const char *path = zf_take_given(&own)
                           ? zf_take_text(&file, NULL)
                           : zf_arena_fmt(s->a, err, "%s_%" PRIu64 ".pt", name, rank);

    if (!path)
        return false;
    (void)zf_take_must(&key, rank < s->world, "rank %" PRIu64 " of %" PRIu64, rank, s->world);
    (void)zf_take_must(&own, zf_relpath_ok(path), "\"%.120s\" is not the name of a file next to it",
                       path);
    if (item->t->failed)
        return zf_take_ok(item->t, err);
    *cut = zf_name_ends(path, checkpointing_safetensors);
    struct checkpointing_file *f = *cut ? zf_vec_push(&s->parts, err) : zf_vec_push(&s->torch, err);
    if (f)
        *f = (struct checkpointing_file){name, path, (uint32_t)rank, zf_torch_set_role(name)};
    return f != NULL;
}

/* Reads the files of an item and, if they are safetensors, its paths. */
static bool checkpointing_read_item(struct checkpointing *s, const struct zf_take *items,
                                    uint64_t i, struct zf_err *err)
{
    struct zf_take item = zf_take_item(items, i), name = zf_take_name(items, i);
    struct zf_take layout = zf_take_key(&item, "rank_to_layout_info");
    struct zf_take paths = zf_take_key(&item, "nested_path_to_metadata");
    const char *text = zf_take_text(&name, NULL);
    bool cut = false, some = false;

    (void)zf_take_must(&name, zf_relpath_ok(text), "it is not a file name");
    for (uint64_t k = 0, n = zf_take_map(&layout); k < n && !items->t->failed; k++) {
        if (!checkpointing_add_file(s, &layout, &item, text, k, &cut, err))
            return false;
        some = some || cut;
    }
    const char *head = zf_torch_set_role(text) == ZF_ROLE_WEIGHTS ? NULL : text;
    return items->t->failed ? zf_take_ok(items->t, err)
                            : !some || sharding_read_paths(&s->sharding, &paths, head, err);
}

static bool checkpointing_read_items(struct checkpointing *s, struct zf_err *err)
{
    struct zf_taker t = {.arena = s->a};

    if (!checkpointing_read_meta(s, &t, err))
        return false;
    struct zf_take root = zf_take_root(&t, s->items);
    for (uint64_t i = 0, n = zf_take_map(&root); i < n; i++)
        if (!checkpointing_read_item(s, &root, i, err))
            return zf_err_in(err, CHECKPOINTING_META);
    return zf_take_ok(&t, err);
}

/* ---- files ---- */

static bool checkpointing_read_torch(void *ctx, uint64_t i, struct zf_err *err)
{
    struct checkpointing *s = ctx;
    const struct checkpointing_file *f = &s->torch.at[i];

    zf_torch_set_item(s->set, f->item);
    return zf_torch_set_add(s->set, f->path, f->role, zf_coord_data(f->rank), err);
}

static bool checkpointing_read_part(void *ctx, uint64_t i, struct zf_err *err)
{
    struct checkpointing *s = ctx;
    const struct checkpointing_file *f = &s->parts.at[i];
    zf_auto(source) struct zf_source *src = zf_store_open(s->st, f->path, err);
    struct zf_st_header h;

    return src && zf_st_load(src, s->a, s->o->lim, &h, err) &&
           sharding_add_file(&s->sharding, &h, src, f->rank, f->path, err);
}

static bool checkpointing_read_files(struct checkpointing *s, struct zf_err *err)
{
    for (size_t i = 0; i < s->torch.n; i++) {
        const char **path = zf_vec_push(&s->path, err);

        if (!path)
            return false;
        *path = s->torch.at[i].path;
    }
    return zf_torch_set_expect(s->set, s->path.at, s->path.n, err) &&
           zf_read_each(s->b, s->torch.n, checkpointing_read_torch, s, NULL, NULL, err) &&
           (s->torch.n == 0 || zf_torch_set_place(s->set, err)) &&
           zf_read_each(s->b, s->parts.n, checkpointing_read_part, s, NULL, NULL, err) &&
           sharding_end(&s->sharding, err);
}

/* ---- files that metadata.pkl does not describe ---- */

static bool checkpointing_is_item(const struct checkpointing *s, const struct zf_numbered_file *f)
{
    for (uint64_t i = 0; i < zf_pv_len(s->items); i++) {
        uint64_t n;
        const char *name = zf_pv_text(zf_pv_key(s->items, i), &n);

        if (name && n == f->stem_len && memcmp(name, f->name + f->stem, n) == 0)
            return true;
    }
    return false;
}

/* Adds steps, schedulers, data loaders: each rank's file is shown separately. */
static bool checkpointing_add_rest(struct checkpointing *s, struct zf_err *err)
{
    zf_auto(numbered) struct zf_numbered l = {.dir = NULL}, texts = {.dir = NULL};
    size_t added = 0;

    if (!zf_numbered_list(s->st, "", checkpointing_files, &l, err) ||
        !zf_numbered_list(s->st, "", checkpointing_texts, &texts, err))
        return false;
    for (size_t i = 0; i < l.file.n; i++) {
        const char *name = l.file.at[i].name;

        if (checkpointing_is_item(s, &l.file.at[i]))
            continue;
        if (zf_torch_set_add(s->rest, name, ZF_ROLE_REST, zf_coord_data(0), err))
            added++;
        else if (!zf_leave_out(s->b, name, NULL, err))
            return false;
    }
    for (size_t i = 0; i < texts.file.n; i++) {
        const char *name = texts.file.at[i].name, *path = zf_arena_fmt(s->a, err, "state/%s", name);
        zf_auto(source) struct zf_source *src = path ? zf_store_open(s->st, name, err) : NULL;

        if (!src || !zf_build_blob(s->b, path, src, 0, src->size, err))
            return false;
    }
    return added == 0 || zf_torch_set_place(s->rest, err);
}

/* ---- layouts ---- */

static bool checkpointing_open_save(void *ctx, const char *where, struct zf_err *err)
{
    struct checkpointing *s = ctx;
    struct zf_mesh mesh = {0};

    (void)where;
    if (!checkpointing_read_items(s, err))
        return false;
    mesh.size[ZF_AXIS_DATA] = (uint32_t)s->world;
    s->set = zf_torch_set_new(s->b, s->st, &mesh, s->parts.n > 0, s->o->lim, err);
    s->rest =
        s->set ? zf_torch_set_new(s->b, s->st, &(struct zf_mesh){0}, true, s->o->lim, err) : NULL;
    return s->rest && checkpointing_read_files(s, err) && checkpointing_add_rest(s, err);
}

static const char *checkpointing_find_save(const struct zf_save *save, const struct zf_open_opts *o)
{
    static const char key[] = "\x08metadata\x94}\x94";
    struct zf_err ignored;
    char head[64];

    (void)o;
    if (save->file || !zf_store_has(save->store, CHECKPOINTING_META, ZF_ENTRY_FILE))
        return NULL;
    zf_auto(source) struct zf_source *src =
        zf_store_open(save->store, CHECKPOINTING_META, &ignored);
    size_t n = src && src->size < sizeof head ? (size_t)src->size : sizeof head;
    return src && zf_source_pread(src, head, n, 0, &ignored) &&
                   (memmem(head, n, key, sizeof key - 1) || memmem(head, n, "\x07version\x94", 9))
               ? ""
               : NULL;
}

/* Recognizes ranks' safetensors files next to torch.save files, without metadata: shards with unknown places. */
static const char *checkpointing_find_parts(const struct zf_save *save,
                                            const struct zf_open_opts *o)
{
    (void)o;
    return !save->file && zf_numbered_any(save->store, "", "*-%r.safetensors") &&
                   zf_numbered_any(save->store, "", "optimizer_%r.pt") &&
                   zf_numbered_any(save->store, "", "step_%r.pt")
               ? ""
               : NULL;
}

static bool checkpointing_refuse_parts(void *ctx, const char *where, struct zf_err *err)
{
    (void)ctx;
    (void)where;
    return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                   "these are safetensors files of torch_checkpointing's ranks; the file that "
                   "records how to join them is missing: " CHECKPOINTING_META " is missing");
}

static const struct zf_layout checkpointing_layout[] = {
    {.what = "one file per item and rank, by",
     .file = CHECKPOINTING_META,
     .find = checkpointing_find_save,
     .open = checkpointing_open_save},
    {.what = "safetensors of ranks, without " CHECKPOINTING_META,
     .find = checkpointing_find_parts,
     .open = checkpointing_refuse_parts},
    {0}};

static bool checkpointing_probe(const struct zf_save *save, const struct zf_open_opts *o,
                                struct zf_probe *out, struct zf_err *err)
{
    (void)err;
    zf_layouts_probe(checkpointing_layout, save, o, out);
    return true;
}

static bool checkpointing_open(const struct zf_save *save, const struct zf_open_opts *o,
                               struct zf_build *b, struct zf_err *err)
{
    struct checkpointing s = {.st = save->store, .o = o, .b = b};

    s.a = zf_arena_new(o->lim->model_memory, err);
    s.sharding =
        (struct sharding){.pieces = {.b = b}, .lim = o->lim, .a = s.a, .keep = {.arena = s.a}};
    s.sharding.names = s.a ? zf_names_new(err) : NULL;
    bool ok = s.sharding.names && zf_layouts_open(checkpointing_layout, save, o, &s, err);
    zf_torch_set_free(s.set);
    zf_torch_set_free(s.rest);
    sharding_fini(&s.sharding);
    zf_vec_fini(&s.torch);
    zf_vec_fini(&s.parts);
    zf_vec_fini(&s.path);
    zf_arena_free(s.a);
    return ok;
}

const struct zf_format zf_format_torch_checkpointing = {
    .name = "torch_checkpointing",
    .summary = "torch_checkpointing: one file per item and rank, and metadata.pkl",
    .refines = "torch",
    .shards = true,
    .whole = true,
    .probe = checkpointing_probe,
    .open = checkpointing_open,
};
