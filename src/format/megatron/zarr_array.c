/* SPDX-License-Identifier: Apache-2.0 */
/* One zarr array becomes a tensor: the chunks that its directory lists are boxes of it, at their addresses
 * in one items source, which opens a chunk's file when it is first read.  What no file holds is the
 * fill_value, or lost.  Nothing here depends on how large the grid is, only on how many files there
 * are: chunks that are missing one after the other become a few boxes. */
#include "zarr_array.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/assemble/degraded.h>
#include <zf/base/num.h>
#include <zf/base/path.h>
#include <zf/codec/zarr.h>
#include <zf/source/items.h>

/* ---- reading a chunk, long after ---------------------------------------------------------------- */

/* Of the items source: all that a chunk's first read takes. */
struct array_files {
    struct zf_store *st;
    struct zf_limits lim;
    struct zf_zarr z; /* its grid is here, the other lists are gone */
    uint64_t *grid;
    char key[];
};

static void array_files_free(void *ctx)
{
    struct array_files *f = ctx;

    zf_store_unref(&f->st);
    free(f->grid);
    free(f);
}

static struct array_files *array_files_new(const struct mg_save *s, const char *key,
                                           const struct zf_zarr *z, struct zf_err *err)
{
    size_t n = strlen(key) + 1;
    struct array_files *f = calloc(1, sizeof *f + n);
    uint64_t *grid = calloc((size_t)z->ndim + 1, sizeof *grid);

    if (!f || !grid) {
        free(f);
        free(grid);
        (void)zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
        return NULL;
    }
    if (z->ndim) {
        memcpy(grid, z->grid, z->ndim * sizeof *grid);
    }
    f->st = zf_store_ref(s->st);
    f->lim = *s->lim;
    f->z = *z;
    f->z.grid = f->grid = grid;
    f->z.shape = f->z.chunk = NULL;
    memcpy(f->key, key, n);
    return f;
}

/* The path of a chunk's file, malloc'ed. */
static char *array_path(const char *key, const struct zf_zarr *z, uint64_t number,
                        struct zf_err *err)
{
    char name[ZF_ZARR_NAME];

    (void)zf_zarr_name(z, number, name);
    return zf_relpath_join(key, name, err);
}

/* The elements of a chunk; gives a reference. */
static struct zf_source *array_chunk(struct zf_store *st, const char *key, const struct zf_zarr *z,
                                     uint64_t number, const struct zf_limits *lim,
                                     struct zf_err *err)
{
    zf_auto(mem) char *path = array_path(key, z, number, err);
    zf_auto(source) struct zf_source *file = path ? zf_store_open_later(st, path, err) : NULL;

    return file ? zf_zarr_chunk(z, file, lim, err) : NULL;
}

static bool array_locate(void *ctx, struct zf_source *file, const struct zf_item *item,
                         struct zf_item_at *out, struct zf_err *err)
{
    const struct array_files *f = ctx;

    (void)file;
    *out =
        (struct zf_item_at){.src = array_chunk(f->st, f->key, &f->z, item->rec_off, &f->lim, err)};
    return out->src != NULL;
}

/* ---- made again, for a model that was kept ---------------------------------------------------------- */

static bool array_recipe(void *ctx, struct zf_recipe *out)
{
    const struct array_files *f = ctx;
    const char *text[] = {zf_store_below(f->st), f->key};

    out->kind = &mg_zarr_kind;
    out->n[0] = f->z.n_chunks;
    out->n[1] = f->z.chunk_bytes;
    for (size_t i = 0; i < 2; i++) {
        zf_out_counted(&out->bytes, text[i], strlen(text[i]));
    }
    zf_out_u8(&out->bytes, (uint8_t)f->z.dtype);
    zf_out_u8(&out->bytes, (uint8_t)f->z.codec);
    zf_out_u8(&out->bytes, (uint8_t)f->z.separator);
    zf_out_u8(&out->bytes, f->z.swapped);
    zf_out_u8(&out->bytes, (uint8_t)f->z.ndim);
    for (uint32_t d = 0; d < f->z.ndim; d++) {
        zf_out_var(&out->bytes, f->grid[d]);
    }
    return true;
}

static char *array_remake_text(struct zf_remake *r)
{
    uint64_t n;
    const char *p = zf_bytes_counted(&r->bytes, &n);

    return p ? strndup(p, (size_t)n) : NULL;
}

static bool array_remake_grid(struct zf_remake *r, struct zf_zarr *z, uint64_t *grid)
{
    uint64_t n = 1;
    bool ok = z->ndim <= ZF_ZARR_DIMS;

    for (uint32_t d = 0; ok && d < z->ndim; d++) {
        grid[d] = zf_bytes_var(&r->bytes);
        ok = zf_mul(n, grid[d], &n);
    }
    return ok && !r->bytes.bad && n == z->n_chunks;
}

static struct zf_source *array_make(struct zf_remake *r, struct zf_err *err)
{
    zf_auto(mem) char *below = array_remake_text(r), *key = array_remake_text(r);
    uint64_t grid[ZF_ZARR_DIMS];
    struct zf_zarr z = {.n_chunks = r->n[0], .chunk_bytes = r->n[1], .grid = grid};

    z.dtype = zf_bytes_u8(&r->bytes) % ZF_DT_COUNT;
    z.codec = zf_bytes_u8(&r->bytes) % (ZF_ZARR_BLOSC + 1);
    z.separator = zf_bytes_u8(&r->bytes) == '/' ? '/' : '.';
    z.swapped = zf_bytes_u8(&r->bytes);
    z.ndim = zf_bytes_u8(&r->bytes);
    if (!below || !key || !array_remake_grid(r, &z, grid)) {
        (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "chunks of no array");
        return NULL;
    }
    zf_auto(store) struct zf_store *st = zf_store_sub(r->store, below, err);
    struct array_files *files =
        st ? array_files_new(&(const struct mg_save){.st = st, .lim = r->lim}, key, &z, err) : NULL;
    struct zf_source *items =
        files ? zf_items_new(NULL, array_locate, files, array_files_free, err) : NULL;
    if (files && !items) {
        array_files_free(files);
    }
    if (items) {
        zf_items_recipe(items, array_recipe);
    }
    if (items && !zf_items_remake(items, z.n_chunks, r, err)) {
        zf_source_unref(&items);
    }
    return items;
}

const struct zf_source_kind mg_zarr_kind = {.name = "zarr items", .make = array_make};

/* ---- the files that are there ------------------------------------------------------------------- */

struct array_file {
    uint64_t number;
    const struct zf_entry *e; /* the listing's */
};

struct array {
    struct mg_save *s;
    const char *key;
    struct zf_zarr z;
    zf_vec(struct array_file) file; /* by number */
    struct zf_draft *draft;
    struct zf_source *items;
    uint64_t *stride; /* [ndim] elements of a chunk, in its order */
};

static void zf_auto_array(struct array *a)
{
    zf_vec_fini(&a->file);
    zf_source_unref(&a->items);
}

static bool array_in(const struct array *a, struct zf_err *err, const char *name)
{
    return zf_err_in(err, "%s/%s", a->key, name);
}

/* A chunk that the grid does not have: either the grid is wrong, or what is here is of another save. */
static bool array_outside(struct array *a, const char *name, struct zf_err *err)
{
    (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "the array has no such chunk, by its .zarray");
    (void)array_in(a, err, name);
    return zf_forgive(a->s->b, err);
}

static bool array_found(struct array *a, const char *name, const struct zf_entry *e,
                        struct zf_err *err)
{
    bool outside;
    uint64_t number;

    if (!zf_zarr_number(&a->z, name, &number, &outside)) {
        return !outside || array_outside(a, name, err);
    }
    struct array_file *f = zf_vec_push(&a->file, err);
    if (f) {
        *f = (struct array_file){number, e};
    }
    return f != NULL;
}

/* "0", then "0/3", … : the directories of the next level, whose names begin so; each malloc'ed. */
struct array_dirs {
    zf_vec(char *) dir;
};

static void zf_auto_array_dirs(struct array_dirs *d)
{
    for (size_t i = 0; i < d->dir.n; i++) {
        free(d->dir.at[i]);
    }
    zf_vec_fini(&d->dir);
}

/* Lists `dir` of the array ("" = the array's own): chunks on the last level, else directories. */
static bool array_list(struct array *a, const char *dir, bool last, struct array_dirs *next,
                       struct zf_err *err)
{
    const struct zf_entry *e;
    size_t n;
    zf_auto(mem) char *path = dir[0] ? zf_relpath_join(a->key, dir, err) : strdup(a->key);

    if (!path || !zf_store_list(a->s->st, path, &e, &n, err) ||
        !zf_store_rely(a->s->st, path, err)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (e[i].name[0] < '0' || e[i].name[0] > '9') {
            continue;
        }
        zf_auto(mem) char *name = zf_relpath_join(dir, e[i].name, err);
        if (!name) {
            return false;
        }
        if (last && !array_found(a, name, &e[i], err)) {
            return false;
        }
        /* "0.1" where .zarray's separator is "/": what lies here is not its. */
        if (!last && e[i].kind != ZF_ENTRY_DIR && !array_outside(a, name, err)) {
            return false;
        }
        if (!last && e[i].kind == ZF_ENTRY_DIR) {
            char **at = zf_vec_push(&next->dir, err);

            if (!at) {
                return false;
            }
            *at = zf_give(name);
        }
    }
    return true;
}

static bool array_list_nested(struct array *a, struct zf_err *err)
{
    zf_auto(array_dirs) struct array_dirs now = {0};

    for (uint32_t level = 1; level <= a->z.ndim; level++) {
        zf_auto(array_dirs) struct array_dirs next = {0};
        bool ok = level > 1 || array_list(a, "", level == a->z.ndim, &next, err);

        for (size_t i = 0; ok && i < now.dir.n; i++) {
            ok = array_list(a, now.dir.at[i], level == a->z.ndim, &next, err);
        }
        if (!ok) {
            return false;
        }
        struct array_dirs done = now;
        now = next;
        next = done;
    }
    return true;
}

/* By number, because listings are in natural order. */
static bool array_find_files(struct array *a, struct zf_err *err)
{
    bool nested = a->z.separator == '/' && a->z.ndim > 1;

    return nested ? array_list_nested(a, err) : array_list(a, "", true, NULL, err);
}

/* ---- pieces --------------------------------------------------------------------------------------- */

struct array_box {
    uint64_t start[ZF_ZARR_DIMS], size[ZF_ZARR_DIMS]; /* elements, within the tensor */
};

/* Chunks count [] in each dimension from chunk `number` on. */
static void array_box_of(const struct zf_zarr *z, uint64_t number, const uint64_t *count,
                         struct array_box *out)
{
    for (uint32_t d = z->ndim; d-- > 0; number /= z->grid[d]) {
        uint64_t i = number % z->grid[d], end = i + (count ? count[d] : 1);

        out->start[d] = i * z->chunk[d];
        out->size[d] = (end == z->grid[d] ? z->shape[d] : end * z->chunk[d]) - out->start[d];
    }
}

/* The largest box of whole chunks that begins at chunk `number` and has at most n; how many into count
 * [ndim].  Returns how many there are. */
static uint64_t array_most(const struct zf_zarr *z, uint64_t number, uint64_t n, uint64_t *count)
{
    uint64_t all = 1; /* chunks in the inner dimensions, of which the box has all */
    uint32_t d = z->ndim;

    for (uint32_t i = 0; i < z->ndim; i++) {
        count[i] = 1;
    }
    while (d > 0 && number % (all * z->grid[d - 1]) == 0 && n >= all * z->grid[d - 1]) {
        d--;
        count[d] = z->grid[d];
        all *= z->grid[d];
    }
    if (d > 0) {
        uint64_t at = number / all % z->grid[d - 1], left = z->grid[d - 1] - at;

        count[d - 1] = n / all < left ? n / all : left;
        all *= count[d - 1];
    }
    return all;
}

/* fill_value in all of the box. */
static bool array_fill(struct array *a, const struct array_box *box, struct zf_err *err)
{
    static const uint8_t zeros[sizeof a->z.fill];
    uint32_t n = zf_dtype_info(a->z.dtype)->bytes;
    uint64_t none[ZF_ZARR_DIMS] = {0};

    if (memcmp(a->z.fill, zeros, n) == 0) {
        return zf_draft_box(a->draft, box->start, box->size, (struct zf_from){0}, err);
    }
    uint8_t *one = malloc(n);
    if (!one) {
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    }
    memcpy(one, a->z.fill, n);
    zf_auto(source) struct zf_source *src = zf_mem_new("", one, n, true, err);
    if (!src) {
        free(one);
        return false;
    }
    return zf_draft_box(a->draft, box->start, box->size,
                        (struct zf_from){.src = src, .stride = none}, err);
}

/* The failure in *err is about what should be in the box: refused, or noted and lost. */
static bool array_lose(struct array *a, const char *name, const struct array_box *box,
                       struct zf_err *err)
{
    char why[sizeof err->msg];
    char file[1200];

    (void)snprintf(why, sizeof why, "is not there as it should be: %.250s", err->msg);
    (void)snprintf(file, sizeof file, "%s/%s/%s", zf_store_name(a->s->st), a->key, name);
    return zf_forgive(a->s->b, err) &&
           zf_draft_lost_box(a->draft, box->start, box->size,
                             &(struct zf_lost){.file = file, .why = why}, err);
}

/* Chunks [from, end), of which there are no files. */
static bool array_missing(struct array *a, uint64_t from, uint64_t end, struct zf_err *err)
{
    uint64_t count[ZF_ZARR_DIMS];
    char name[ZF_ZARR_NAME];
    struct array_box box;

    for (uint64_t n; from < end; from += n) {
        n = array_most(&a->z, from, end - from, count);
        array_box_of(&a->z, from, count, &box);
        if (a->z.has_fill) {
            if (!array_fill(a, &box, err)) {
                return false;
            }
            continue;
        }
        (void)zf_zarr_name(&a->z, from, name);
        (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                      n == 1 ? "the chunk is missing, and .zarray has no fill_value"
                             : "the chunk is missing, and more behind it, and .zarray has no "
                               "fill_value");
        (void)array_in(a, err, name);
        if (!array_lose(a, name, &box, err)) {
            return false;
        }
    }
    return true;
}

/* Checks a chunk's file by its directory entry alone. */
static bool array_file_sound(const struct array *a, const struct zf_entry *e, struct zf_err *err)
{
    if (e->kind != ZF_ENTRY_FILE) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "this is %s, not a file", e->what);
    }
    if (a->z.codec == ZF_ZARR_RAW ? e->id.size == a->z.chunk_bytes : e->id.size > 0) {
        return true;
    }
    return a->z.codec == ZF_ZARR_RAW ? zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                                               "the chunk has %" PRIu64 " bytes, expected %" PRIu64,
                                               e->id.size, a->z.chunk_bytes)
                                     : zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "the chunk is empty");
}

/* Does the first chunk of a compressed array hold what .zarray says?  All were written alike. */
static bool array_first_sound(const struct array *a, uint64_t number, struct zf_err *err)
{
    zf_auto(source) struct zf_source *src =
        array_chunk(a->s->st, a->key, &a->z, number, a->s->lim, err);

    return src != NULL;
}

/* The beginning of an uncompressed chunk that was cut short is sound. */
static bool array_short(struct array *a, const struct array_file *f, const struct array_box *box,
                        struct zf_err *err)
{
    zf_auto(mem) char *path = array_path(a->key, &a->z, f->number, err);
    zf_auto(source) struct zf_source *file = path ? zf_store_open_later(a->s->st, path, err) : NULL;

    return file && zf_draft_box(a->draft, box->start, box->size,
                                (struct zf_from){.src = file, .stride = a->stride}, err);
}

static bool array_put(struct array *a, const struct array_file *f, bool first, struct zf_err *err)
{
    char name[ZF_ZARR_NAME];
    struct zf_from from = {.src = a->items, .stride = a->stride};
    struct array_box box;
    bool sound = array_file_sound(a, f->e, err);

    array_box_of(&a->z, f->number, NULL, &box);
    (void)zf_zarr_name(&a->z, f->number, name);
    if (!sound) {
        (void)array_in(a, err, name);
        if (!zf_build_degraded(a->s->b) || a->z.swapped || f->e->kind != ZF_ENTRY_FILE ||
            f->e->id.size > a->z.chunk_bytes || a->z.codec != ZF_ZARR_RAW) {
            return array_lose(a, name, &box, err);
        }
        zf_err_clear(err); /* the draft says it again */
        return array_short(a, f, &box, err);
    }
    if (first && a->z.codec != ZF_ZARR_RAW && !array_first_sound(a, f->number, err)) {
        return array_lose(a, name, &box, err);
    }
    return zf_items_add(a->items, f->number, a->z.chunk_bytes, &from.off, err) &&
           zf_draft_box(a->draft, box.start, box.size, from, err);
}

static bool array_put_all(struct array *a, struct zf_err *err)
{
    uint64_t next = 0;

    for (size_t i = 0; i < a->file.n; i++) {
        const struct array_file *f = &a->file.at[i];

        if (!array_missing(a, next, f->number, err) || !array_put(a, f, i == 0, err)) {
            return false;
        }
        next = f->number + 1;
    }
    zf_items_seal(a->items);
    return array_missing(a, next, a->z.n_chunks, err);
}

/* ---- the tensor ----------------------------------------------------------------------------------- */

static bool array_strides(struct array *a, struct zf_err *err)
{
    const struct zf_zarr *z = &a->z;
    uint64_t n = 1;

    a->stride = zf_arena_get(a->s->arena, z->ndim, sizeof *a->stride, err);
    for (uint32_t i = 0; a->stride && i < z->ndim; i++) {
        uint32_t d = z->order_f ? i : z->ndim - 1 - i;

        a->stride[d] = n;
        n *= z->chunk[d]; /* chunk_bytes is that much at least */
    }
    return a->stride != NULL;
}

static bool array_start(struct array *a, struct zf_err *err)
{
    struct array_files *files = array_files_new(a->s, a->key, &a->z, err);
    char where[600];

    if (!files) {
        return false;
    }
    a->items = zf_items_new(NULL, array_locate, files, array_files_free, err);
    if (!a->items) {
        array_files_free(files);
        return false;
    }
    zf_items_recipe(a->items, array_recipe);
    const struct mg_tensor *t =
        mg_save_tensor(a->s, a->key, strlen(a->key),
                       (struct zf_type){a->z.dtype, a->z.ndim, a->z.shape}, a->z.grid, err);
    if (!t) {
        return false;
    }
    a->draft = t->draft;
    (void)snprintf(where, sizeof where, "%s/.zarray", a->key);
    return zf_draft_where(a->draft, where, err) && array_strides(a, err);
}

static bool array_load(struct array *a, struct zf_err *err)
{
    uint64_t n = 0;
    zf_auto(mem) char *path = zf_relpath_join(a->key, ".zarray", err);
    zf_auto(mem) char *text =
        path ? zf_store_slurp(a->s->st, path, a->s->lim->json_bytes, &n, err) : NULL;

    if (!text) {
        return false;
    }
    return zf_zarr_load(text, n, a->s->lim, a->s->arena, &a->z, err) || zf_err_in(err, "%s", path);
}

bool mg_zarr_lost(struct mg_save *s, const char *key, struct zf_err *err)
{
    char why[sizeof err->msg];

    memcpy(why, err->msg, sizeof why);
    return zf_forgive(s->b, err) &&
           zf_build_missing(s->b, key, strlen(key), &(struct zf_lost){.why = why, .unshaped = true},
                            err);
}

bool mg_zarr_array(struct mg_save *s, const char *key, struct zf_err *err)
{
    zf_auto(array) struct array a = {.s = s, .key = key};

    if (!array_load(&a, err)) {
        return mg_zarr_lost(s, key, err);
    }
    return array_find_files(&a, err) && array_start(&a, err) && array_put_all(&a, err);
}
