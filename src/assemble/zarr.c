/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/assemble/zarr.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/assemble/degraded.h>
#include <zf/base/path.h>
#include <zf/base/vec.h>
#include <zf/source/items.h>

/* ---- reading a chunk, after mounting ------------------------------------------------------------ */

/* The context of the items source: all that a chunk's first read needs. */
struct zarr_chunks {
    struct zf_store *st;
    struct zf_limits lim;
    struct zf_zarr z; /* without its lists, except the grid */
    const char *key;  /* the array's directory */
    const char *text; /* its .zarray */
    uint64_t grid[];  /* [ndim], followed by the texts */
};

static void zarr_chunks_free(void *ctx)
{
    struct zarr_chunks *c = ctx;

    zf_store_unref(&c->st);
    free(c);
}

/* The path of a chunk's file, malloc'ed. */
static char *zarr_chunk_path(const char *key, const struct zf_zarr *z, uint64_t number,
                             struct zf_err *err)
{
    char name[ZF_ZARR_NAME];

    (void)zf_zarr_name(z, number, name);
    return zf_relpath_join(key, name, err);
}

/* Opens a chunk's elements; returns a reference. */
static struct zf_source *zarr_chunk_open(struct zf_store *st, const char *key,
                                         const struct zf_zarr *z, uint64_t number,
                                         const struct zf_limits *lim, struct zf_err *err)
{
    zf_auto(mem) char *path = zarr_chunk_path(key, z, number, err);
    zf_auto(source) struct zf_source *file = path ? zf_store_open_later(st, path, err) : NULL;

    return file ? zf_zarr_chunk(z, file, lim, err) : NULL;
}

static bool zarr_chunks_locate(void *ctx, struct zf_source *file, const struct zf_item *item,
                               struct zf_item_at *out, struct zf_err *err)
{
    const struct zarr_chunks *c = ctx;

    (void)file;
    *out = (struct zf_item_at){
        .src = zarr_chunk_open(c->st, c->key, &c->z, item->rec_off, &c->lim, err)};
    return out->src != NULL;
}

/* Stores the text of .zarray for another process, so that only zf_zarr_load interprets it. */
static bool zarr_chunks_recipe(void *ctx, struct zf_recipe *out)
{
    const struct zarr_chunks *c = ctx;
    const char *part[] = {zf_store_below(c->st), c->key, c->text};

    out->kind = &zf_zarr_array_kind;
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        zf_out_counted(&out->bytes, part[i], strlen(part[i]));
    return true;
}

/* The source of an array's chunks, still without items. */
static struct zf_source *zarr_chunks_new(struct zf_store *st, const struct zf_limits *lim,
                                         const char *key, const char *text, const struct zf_zarr *z,
                                         struct zf_err *err)
{
    size_t n_grid = z->ndim * sizeof *z->grid, n_key = strlen(key) + 1, n_text = strlen(text) + 1;
    struct zarr_chunks *c = calloc(1, sizeof *c + n_grid + n_key + n_text);

    if (!c)
        return zf_null(zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory"));
    char *end = (char *)c->grid + n_grid;
    if (n_grid > 0)
        memcpy(c->grid, z->grid, n_grid);
    c->key = memcpy(end, key, n_key);
    c->text = memcpy(end + n_key, text, n_text);
    c->st = zf_store_ref(st);
    c->lim = *lim;
    c->z = *z;
    c->z.grid = c->grid;
    c->z.shape = c->z.chunk = NULL;
    struct zf_source *items = zf_items_new(NULL, zarr_chunks_locate, c, zarr_chunks_free, err);
    if (!items) {
        zarr_chunks_free(c);
        return NULL;
    }
    zf_items_recipe(items, zarr_chunks_recipe);
    return items;
}

static char *zarr_chunks_text(struct zf_remake *r)
{
    uint64_t n;
    const char *p = zf_bytes_counted(&r->bytes, &n);

    return p ? strndup(p, (size_t)n) : NULL;
}

static struct zf_source *zarr_chunks_make(struct zf_remake *r, struct zf_err *err)
{
    zf_auto(mem) char *below = zarr_chunks_text(r), *key = zarr_chunks_text(r),
                      *text = zarr_chunks_text(r);
    zf_auto(arena) struct zf_arena *arena = zf_arena_new(r->lim->model_memory, err);
    struct zf_zarr z;

    if (!below || !key || !text || !arena)
        return zf_null(zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "chunks of no array"));
    if (!zf_zarr_load(text, strlen(text), r->lim, arena, &z, err))
        return NULL;
    zf_auto(store) struct zf_store *st = zf_store_sub(r->store, below, err);
    zf_auto(source) struct zf_source *items =
        st ? zarr_chunks_new(st, r->lim, key, text, &z, err) : NULL;

    return items && zf_items_remake(items, z.n_chunks, r, err) ? zf_give(items) : NULL;
}

const struct zf_source_kind zf_zarr_array_kind = {.name = "zarr chunks", .make = zarr_chunks_make};

/* ---- the chunk files ---------------------------------------------------------------------------- */

struct array_file {
    uint64_t number;
    const struct zf_entry *e; /* borrowed from the listing */
};

/* An array whose chunks are being added to a draft. */
struct array {
    const struct zf_zarr_array *of;
    struct zf_zarr z;
    const struct zf_limits *lim;
    struct zf_build *b;
    struct zf_draft *draft;
    struct zf_source *items;
    zf_vec(struct array_file) file; /* in the order of their numbers */
    zf_vec(char *) dir; /* "", then "0", "0/3", …: directories to list, each malloc'ed */
    uint64_t stride[ZF_ZARR_DIMS]; /* elements within a chunk, in its order */
};

static void zf_auto_array(struct array *a)
{
    for (size_t i = 0; i < a->dir.n; i++)
        free(a->dir.at[i]);
    zf_vec_fini(&a->dir);
    zf_vec_fini(&a->file);
    zf_source_unref(&a->items);
}

static bool zarr_in(const struct array *a, struct zf_err *err, const char *name)
{
    return zf_err_in(err, "%s/%s", a->of->key, name);
}

/* Refuses a chunk outside of the grid: the grid is wrong, or the file belongs to another save. */
static bool zarr_outside(struct array *a, const char *name, struct zf_err *err)
{
    (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "by .zarray the array has no such chunk");
    (void)zarr_in(a, err, name);
    return zf_forgive(a->b, err);
}

static bool zarr_found(struct array *a, const char *name, const struct zf_entry *e,
                       struct zf_err *err)
{
    bool outside;
    uint64_t number;

    if (!zf_zarr_number(&a->z, name, &number, &outside))
        return !outside || zarr_outside(a, name, err);
    struct array_file *f = zf_vec_push(&a->file, err);
    if (f)
        *f = (struct array_file){number, e};
    return f != NULL;
}

static bool zarr_queue(struct array *a, const char *dir, struct zf_err *err)
{
    char **at = zf_vec_push(&a->dir, err);

    return at && ((*at = strdup(dir)) || zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory"));
}

/* Lists `dir` of the array: chunks on the last level, else directories. */
static bool zarr_list(struct array *a, const char *dir, bool last, struct zf_err *err)
{
    struct zf_store *st = a->of->st;
    const struct zf_entry *e;
    size_t n;
    zf_auto(mem) char *path = dir[0] ? zf_relpath_join(a->of->key, dir, err) : strdup(a->of->key);

    if (!path || !zf_store_list(st, path, &e, &n, err) || !zf_store_rely(st, path, err))
        return false;
    for (size_t i = 0; i < n; i++) {
        if (e[i].name[0] < '0' || e[i].name[0] > '9')
            continue;
        zf_auto(mem) char *name = zf_relpath_join(dir, e[i].name, err);
        /* "0.1" is outside if the separator in .zarray is "/". */
        if (!name || !(last                        ? zarr_found(a, name, &e[i], err)
                       : e[i].kind == ZF_ENTRY_DIR ? zarr_queue(a, name, err)
                                                   : zarr_outside(a, name, err)))
            return false;
    }
    return true;
}

/* Finds all chunk files; listings are in natural order, so by number. */
static bool zarr_find_files(struct array *a, struct zf_err *err)
{
    const uint32_t levels = a->z.separator == '/' && a->z.ndim > 1 ? a->z.ndim : 1;
    size_t i = 0;
    bool ok = zarr_queue(a, "", err);

    for (uint32_t level = 1; ok && level <= levels; level++)
        for (const size_t end = a->dir.n; ok && i < end; i++)
            ok = zarr_list(a, a->dir.at[i], level == levels, err);
    return ok;
}

/* ---- pieces --------------------------------------------------------------------------------------- */

struct array_box {
    uint64_t start[ZF_ZARR_DIMS], size[ZF_ZARR_DIMS]; /* elements, within the tensor */
};

/* The largest box of whole chunks that starts at chunk `number` and has at most n chunks; returns their number. */
static uint64_t zarr_box(const struct zf_zarr *z, uint64_t number, uint64_t n,
                         struct array_box *out)
{
    uint64_t all = 1;
    bool whole = true; /* the box covers the inner dimensions completely */

    for (uint32_t d = z->ndim; d-- > 0; number /= z->grid[d]) {
        uint64_t at = number % z->grid[d], end = at + 1;

        if (whole) {
            end = n / all < z->grid[d] - at ? at + n / all : z->grid[d];
            all *= end - at;
            whole = end - at == z->grid[d];
        }
        out->start[d] = at * z->chunk[d];
        out->size[d] = (end == z->grid[d] ? z->shape[d] : end * z->chunk[d]) - out->start[d];
    }
    return all;
}

/* Handles a failure (*err) in the chunks of a box: refused or, when degraded, noted, and the box is lost. */
static bool zarr_mark_lost(struct array *a, const char *name, const struct array_box *box,
                           struct zf_err *err)
{
    char why[sizeof err->msg];
    char file[1200];

    (void)snprintf(why, sizeof why, "is missing or damaged: %.250s", err->msg);
    (void)snprintf(file, sizeof file, "%s/%s/%s", zf_store_name(a->of->st), a->of->key, name);
    return zf_forgive(a->b, err) &&
           zf_draft_box(a->draft, box->start, box->size,
                        (struct zf_from){.lost = &(struct zf_lost){.file = file, .why = why}}, err);
}

/* Notes missing chunks: writers may leave out chunks of fill values only, and lost ones look the same. */
static bool zarr_note_filled(struct array *a, uint64_t from, uint64_t end, struct zf_err *err)
{
    char name[ZF_ZARR_NAME];

    if (from == end || a->z.fill != ZF_ZARR_ZERO)
        return true;
    (void)zf_zarr_name(&a->z, from, name);
    return zf_build_note(
        a->b, err, "%s/%s: the chunk is missing%s, so its elements have the fill_value of .zarray",
        a->of->key, name, end - from == 1 ? "" : ", and others after it");
}

/* Sets *err: the chunk is missing, and its contents are unknown. */
static void zarr_no_fill(const struct zf_zarr *z, const char *more, struct zf_err *err)
{
    (void)(z->fill == ZF_ZARR_UNDEFINED
               ? zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                         "the chunk is missing%s, and .zarray has no fill_value", more)
               : zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                         "the chunk is missing%s, and fill_value %s is not supported, only 0 is",
                         more, z->fill_text));
}

/* Handles chunks [from, end), which have no files. */
static bool zarr_missing(struct array *a, uint64_t from, uint64_t end, struct zf_err *err)
{
    char name[ZF_ZARR_NAME];
    struct array_box box;

    if (!zarr_note_filled(a, from, end, err))
        return false;
    for (uint64_t n; from < end; from += n) {
        n = zarr_box(&a->z, from, end - from, &box);
        (void)zf_zarr_name(&a->z, from, name);
        if (a->z.fill == ZF_ZARR_ZERO) {
            if (!zf_draft_box(a->draft, box.start, box.size, (struct zf_from){0}, err))
                return false;
            continue;
        }
        zarr_no_fill(&a->z, n == 1 ? "" : ", and others after it", err);
        (void)zarr_in(a, err, name);
        if (!zarr_mark_lost(a, name, &box, err))
            return false;
    }
    return true;
}

/* Checks a chunk's file by its directory entry alone. */
static bool zarr_file_sound(const struct array *a, const struct zf_entry *e, struct zf_err *err)
{
    if (e->kind != ZF_ENTRY_FILE)
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "this is %s, not a file", e->what);
    if (a->z.codec == ZF_ZARR_RAW ? e->id.size == a->z.chunk_bytes : e->id.size > 0)
        return true;
    return a->z.codec == ZF_ZARR_RAW ? zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                                               "the chunk has %" PRIu64 " bytes, expected %" PRIu64,
                                               e->id.size, a->z.chunk_bytes)
                                     : zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "the chunk is empty");
}

/* Adds a truncated, uncompressed chunk, whose beginning is intact. */
static bool zarr_short(struct array *a, const struct array_file *f, const struct array_box *box,
                       struct zf_err *err)
{
    zf_auto(mem) char *path = zarr_chunk_path(a->of->key, &a->z, f->number, err);
    zf_auto(source) struct zf_source *file =
        path ? zf_store_open_later(a->of->st, path, err) : NULL;

    return file && zf_draft_box(a->draft, box->start, box->size,
                                (struct zf_from){.src = file, .stride = a->stride}, err);
}

/* Checks the first chunk of a compressed array against .zarray; all were written in the same way. */
static bool zarr_first_sound(const struct array *a, const struct array_file *f, struct zf_err *err)
{
    zf_auto(source) struct zf_source *src =
        zarr_chunk_open(a->of->st, a->of->key, &a->z, f->number, a->lim, err);

    return src != NULL;
}

static bool zarr_put(struct array *a, const struct array_file *f, bool first, struct zf_err *err)
{
    char name[ZF_ZARR_NAME];
    struct zf_from from = {.src = a->items, .stride = a->stride};
    struct array_box box;
    bool sound = zarr_file_sound(a, f->e, err);

    (void)zarr_box(&a->z, f->number, 1, &box);
    (void)zf_zarr_name(&a->z, f->number, name);
    if (!sound) {
        (void)zarr_in(a, err, name);
        if (!zf_build_degraded(a->b) || a->z.swapped || f->e->kind != ZF_ENTRY_FILE ||
            f->e->id.size > a->z.chunk_bytes || a->z.codec != ZF_ZARR_RAW)
            return zarr_mark_lost(a, name, &box, err);
        zf_err_clear(err); /* the draft reports it again */
        return zarr_short(a, f, &box, err);
    }
    if (first && a->z.codec != ZF_ZARR_RAW && !zarr_first_sound(a, f, err))
        return zarr_mark_lost(a, name, &box, err);
    return zf_items_add(a->items, f->number, a->z.chunk_bytes, &from.off, err) &&
           zf_draft_box(a->draft, box.start, box.size, from, err);
}

static bool zarr_put_all(struct array *a, struct zf_err *err)
{
    uint64_t next = 0;

    for (size_t i = 0; i < a->file.n; i++) {
        const struct array_file *f = &a->file.at[i];

        if (!zarr_missing(a, next, f->number, err) || !zarr_put(a, f, i == 0, err))
            return false;
        next = f->number + 1;
    }
    zf_items_seal(a->items);
    return zarr_missing(a, next, a->z.n_chunks, err);
}

/* ---- the array ------------------------------------------------------------------------------------ */

static void zarr_strides(struct array *a)
{
    const struct zf_zarr *z = &a->z;
    uint64_t n = 1;

    for (uint32_t i = 0; i < z->ndim; i++) {
        uint32_t d = z->order_f ? i : z->ndim - 1 - i;

        a->stride[d] = n;
        n *= z->chunk[d]; /* cannot overflow: at most chunk_bytes */
    }
}

bool zf_zarr_array_read(struct zf_store *st, const char *key, const struct zf_limits *lim,
                        struct zf_arena *arena, struct zf_zarr_array *out, struct zf_err *err)
{
    uint64_t n = 0;
    zf_auto(mem) char *path = zf_relpath_join(key, ".zarray", err);
    zf_auto(mem) char *text = path ? zf_store_slurp(st, path, lim->json_bytes, &n, err) : NULL;

    if (!text)
        return false;
    *out = (struct zf_zarr_array){.st = st, .key = key};
    if (!zf_zarr_load(text, n, lim, arena, &out->z, err))
        return zf_err_in(err, "%s", path);
    out->text = zf_give(text);
    return true;
}

bool zf_zarr_array_put(const struct zf_zarr_array *array, const struct zf_limits *lim,
                       struct zf_build *b, struct zf_draft *draft, struct zf_err *err)
{
    zf_auto(array) struct array a = {
        .of = array, .z = array->z, .lim = lim, .b = b, .draft = draft};
    char where[600];

    (void)snprintf(where, sizeof where, "%s/.zarray", array->key);
    a.items = zarr_chunks_new(array->st, lim, array->key, array->text, &array->z, err);
    zarr_strides(&a);
    return a.items && zf_draft_where(draft, where, err) && zarr_find_files(&a, err) &&
           zarr_put_all(&a, err);
}
