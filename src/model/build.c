/* SPDX-License-Identifier: Apache-2.0 */
#include "build_kind.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <zf/base/num.h>

/* How many notes of one kind are told in full. */
#define NOTES_OF_A_KIND 256
/* Longer paths cannot be opened (PATH_MAX). */
#define PATH_BYTES 4096

struct zf_build *zf_build_new(struct zf_store *st, const struct zf_limits *lim, bool degraded,
                              struct zf_err *err)
{
    zf_auto(build) struct zf_build *b = calloc(1, sizeof *b);

    if (!b) {
        (void)zf_fail_sys(err, "make a model");
        return NULL;
    }
    b->lim = *lim;
    b->degraded = degraded;
    b->draft_end = &b->draft_list;
    b->note_end = &b->notes;
    b->tag = b->prefix = "";
    b->store = st ? zf_store_ref(st) : NULL;
    b->keep = zf_arena_new(lim->model_memory, err);
    b->temp = b->keep ? zf_arena_new(lim->model_memory, err) : NULL;
    if (!b->temp || !zf_hash_key_init(&b->key, err)) {
        return NULL;
    }
    b->sources = calloc(1, sizeof *b->sources);
    if (!b->sources) {
        (void)zf_fail_sys(err, "make a model");
        return NULL;
    }
    struct zf_build *out = b;
    b = NULL;
    return out;
}

void zf_build_free(struct zf_build *b)
{
    if (!b) {
        return;
    }
    HASH_CLEAR(hh, b->drafts);
    HASH_CLEAR(hh, b->sets);
    if (b->sources) {
        zf_sources_fini(b->sources);
        free(b->sources);
    }
    zf_store_unref(&b->store);
    zf_arena_free(b->keep);
    zf_arena_free(b->temp);
    free(b);
}

uint64_t zf_build_n_tensors(const struct zf_build *b)
{
    return b->n_tensors;
}

bool zf_build_degraded(const struct zf_build *b)
{
    return b->degraded;
}

struct zf_store *zf_build_store(const struct zf_build *b)
{
    return b->store;
}

void zf_build_fill_lost(struct zf_build *b)
{
    b->fill_lost = true;
}

/* ---- names -------------------------------------------------------------------------------- */

/* Paths of sets and blobs become paths of the tree, so they must be plain: relative, and every
 * component something. */
static bool check_path(const char *path, struct zf_err *err)
{
    const char *p = path;

    for (;;) {
        size_t n = strcspn(p, "/");

        if (n == 0 || (n <= 2 && strncmp(p, "..", n) == 0)) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "\"%.200s\" is not a plain relative path",
                           path);
        }
        if (p[n] == '\0') {
            return true;
        }
        p += n + 1;
    }
}

bool zf_build_prefix(struct zf_build *b, const char *prefix, struct zf_err *err)
{
    if (*prefix && !check_path(prefix, err)) {
        return false;
    }
    b->prefix = zf_arena_str(b->temp, prefix, strlen(prefix), err);
    return b->prefix != NULL;
}

/* The path behind the prefix; NULL when it is too long for a path of the tree. */
static const char *full_path(const struct zf_build *b, const char *path, char full[PATH_BYTES])
{
    if (!*b->prefix) {
        return path;
    }
    int n = snprintf(full, PATH_BYTES, "%s%s%s", b->prefix, *path ? "/" : "", path);
    return n < 0 || n >= PATH_BYTES ? NULL : full;
}

static bool fail_long(const char *path, struct zf_err *err)
{
    return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "\"%.200s\" is longer than a path can be", path);
}

static struct zf_draft_set *get_set(struct zf_build *b, const char *path)
{
    struct zf_draft_set *s = NULL;
    unsigned hash = (unsigned)zf_hash_of(&b->key, 0, path, strlen(path));

    HASH_FIND_BYHASHVALUE(hh, b->sets, path, strlen(path), hash, s);
    return s;
}

static struct zf_draft_set *need_set(struct zf_build *b, const char *path, struct zf_err *err)
{
    struct zf_draft_set *s = get_set(b, path);
    size_t n = strlen(path);

    if (s) {
        return s;
    }
    if (n > 0 && !check_path(path, err)) {
        return NULL;
    }
    s = zf_arena_get(b->temp, 1, sizeof *s, err);
    char *copy = s ? zf_arena_str(b->keep, path, n, err) : NULL;
    if (!copy) {
        return NULL;
    }
    s->path = copy;
    HASH_ADD_KEYPTR_BYHASHVALUE(hh, b->sets, s->path, n, (unsigned)zf_hash_of(&b->key, 0, path, n),
                                s);
    if (!s->hh.tbl) {
        (void)zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "no memory for the set \"%.200s\"", path);
        return NULL;
    }
    s->next = b->set_list;
    b->set_list = s;
    b->n_sets++;
    return s;
}

/* Tensors of all sets share one table: the set's address goes into the hash, its identity is
 * compared by walking what has the same name. */
static unsigned hash_in(const struct zf_build *b, const struct zf_draft_set *s, const char *name,
                        size_t n)
{
    return (unsigned)zf_hash_of(&b->key, (uint64_t)(uintptr_t)s, name, n);
}

static struct zf_draft *find_in(struct zf_build *b, const struct zf_draft_set *s, const char *name,
                                size_t n)
{
    unsigned hash = hash_in(b, s, name, n);
    struct zf_draft *d = NULL;

    HASH_FIND_BYHASHVALUE(hh, b->drafts, name, n, hash, d);
    /* The same name in another set whose hash collides: go on behind it in the bucket. */
    while (d && d->set != s) {
        do {
            d = d->hh.hh_next ? ELMT_FROM_HH(b->drafts->hh.tbl, d->hh.hh_next) : NULL;
        } while (d && !(d->hh.hashv == hash && d->name_len == n && memcmp(d->name, name, n) == 0));
    }
    return d;
}

struct zf_draft *zf_build_find(struct zf_build *b, struct zf_spot spot)
{
    char full[PATH_BYTES];
    const char *path = full_path(b, spot.set, full);
    struct zf_draft_set *s = path ? get_set(b, path) : NULL;
    struct zf_draft *d = s ? find_in(b, s, spot.name, spot.name_len) : NULL;

    return d && d->tie ? d->tie : d;
}

/* A draft without shape, entered under its name. */
static struct zf_draft *new_draft(struct zf_build *b, struct zf_draft_set *s, const char *name,
                                  size_t n, struct zf_err *err)
{
    if (find_in(b, s, name, n)) {
        (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                      "there are two tensors of the name \"%.*s\"%s%s", (int)(n < 160 ? n : 160),
                      name, *s->path ? " in " : "", s->path);
        return NULL;
    }
    if (b->n_tensors >= b->lim.tensors || n > UINT32_MAX || b->n_tensors >= UINT32_MAX) {
        (void)zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE,
                      "there are more than %llu tensors (limit tensors)",
                      (unsigned long long)b->lim.tensors);
        return NULL;
    }
    struct zf_draft *d = zf_arena_get(b->temp, 1, sizeof *d, err);
    char *copy = d ? zf_arena_str(b->keep, name, n, err) : NULL;
    if (!copy) {
        return NULL;
    }
    d->b = b;
    d->number = b->n_tensors;
    d->set = s;
    d->name = copy;
    d->name_len = (uint32_t)n;
    HASH_ADD_KEYPTR_BYHASHVALUE(hh, b->drafts, d->name, n, hash_in(b, s, name, n), d);
    if (!d->hh.tbl) {
        (void)zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "no memory for the name of a tensor");
        return NULL;
    }
    *b->draft_end = d;
    b->draft_end = &d->next;
    b->n_tensors++;
    s->n++;
    return d;
}

bool zf_type_equal(struct zf_type a, struct zf_type b)
{
    return a.dtype == b.dtype && a.ndim == b.ndim &&
           (a.ndim == 0 || memcmp(a.shape, b.shape, a.ndim * sizeof *a.shape) == 0);
}

/* A draft of that type at that place, with the sizes of its data. */
static struct zf_draft *place_draft(struct zf_build *b, struct zf_spot spot, struct zf_type type,
                                    struct zf_err *err)
{
    char full[PATH_BYTES];
    const char *path = full_path(b, spot.set, full);
    uint64_t *shape = zf_arena_get(b->keep, type.ndim, sizeof *shape, err);

    if (!path) {
        (void)fail_long(spot.set, err);
        return NULL;
    }
    struct zf_draft_set *s = shape ? need_set(b, path, err) : NULL;
    struct zf_draft *d = s ? new_draft(b, s, spot.name, spot.name_len, err) : NULL;
    if (!d) {
        return NULL;
    }
    if (type.ndim > 0) {
        memcpy(shape, type.shape, type.ndim * sizeof *shape);
    }
    d->shape = shape;
    d->ndim = type.ndim;
    d->dtype = type.dtype;
    return d;
}

struct zf_draft *zf_build_tensor(struct zf_build *b, struct zf_spot spot, struct zf_type type,
                                 struct zf_err *err)
{
    int shown = (int)(spot.name_len < 160 ? spot.name_len : 160);
    uint64_t elems = 0, bytes = 0;

    if (type.ndim > b->lim.tensor_dims) {
        (void)zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE,
                      "tensor \"%.*s\" has %u dimensions, more than %llu (limit tensor_dims)",
                      shown, spot.name, type.ndim, (unsigned long long)b->lim.tensor_dims);
        return NULL;
    }
    if (!zf_elems(type.ndim, type.shape, &elems) ||
        !zf_dtype_size(type.dtype, type.ndim, type.shape, &bytes)) {
        (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "tensor \"%.*s\" is larger than 2^64 bytes",
                      shown, spot.name);
        return NULL;
    }
    struct zf_draft *d = place_draft(b, spot, type, err);
    if (d) {
        d->elems = elems;
        d->bytes = bytes;
    }
    return d;
}

bool zf_build_alias(struct zf_build *b, struct zf_draft *of, const char *name, size_t name_len,
                    struct zf_err *err)
{
    struct zf_draft *d = new_draft(b, of->set, name, name_len, err);

    if (!d) {
        return false;
    }
    d->same = zf_draft_data(of);
    d->tie = of;
    d->shape = of->shape;
    d->ndim = of->ndim;
    d->dtype = of->dtype;
    d->elems = of->elems;
    d->bytes = of->bytes;
    return true;
}

bool zf_build_scalar(struct zf_build *b, struct zf_spot spot, enum zf_dtype t, const void *value,
                     struct zf_err *err)
{
    struct zf_draft *d = zf_build_tensor(b, spot, (struct zf_type){.dtype = t}, err);

    if (!d) {
        return false;
    }
    d->kind = ZF_DRAFT_MEM;
    d->mem = zf_arena_str(b->keep, value, d->bytes, err);
    return d->mem != NULL;
}

/* ---- files that are no tensors ------------------------------------------------------------ */

static bool add_blob(struct zf_build *b, const char *path, struct zf_map *map, struct zf_err *err)
{
    struct zf_blob_item *item = map ? zf_arena_get(b->temp, 1, sizeof *item, err) : NULL;
    char full[PATH_BYTES];

    if (!item || !check_path(path, err)) {
        return false;
    }
    const char *whole = full_path(b, path, full);
    if (!whole) {
        return fail_long(path, err);
    }
    if (b->n_blobs >= b->lim.tensors || b->n_blobs == UINT32_MAX) {
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE,
                       "there are more than %llu files (limit tensors)",
                       (unsigned long long)b->lim.tensors);
    }
    item->map = map;
    item->path = zf_arena_str(b->keep, whole, strlen(whole), err);
    if (!item->path) {
        return false;
    }
    item->next = b->blobs;
    b->blobs = item;
    b->n_blobs++;
    return true;
}

bool zf_build_has_file(const struct zf_build *b, const char *path)
{
    const struct zf_blob_item *item = b->blobs;
    char full[PATH_BYTES];
    const char *whole = full_path(b, path, full);

    while (whole && item && strcmp(item->path, whole) != 0) {
        item = item->next;
    }
    return whole && item;
}

bool zf_build_blob(struct zf_build *b, const char *path, struct zf_source *src, uint64_t off,
                   uint64_t n, struct zf_err *err)
{
    uint32_t number;

    if (!zf_within(off, n, src->size)) {
        (void)zf_fail(err, ZF_E_FORMAT, off, "%llu bytes are wanted of a file of %llu",
                      (unsigned long long)n, (unsigned long long)src->size);
        return zf_err_in(err, "%s", src->name);
    }
    return zf_sources_add(b->sources, src, &number, err) &&
           add_blob(b, path, zf_map_of_source(b->keep, src, off, n, err), err);
}

bool zf_build_text(struct zf_build *b, const char *path, const char *p, uint64_t n,
                   struct zf_err *err)
{
    char *copy = zf_arena_str(b->keep, p, n, err);

    return copy && add_blob(b, path, zf_map_of_mem(b->keep, copy, n, err), err);
}

/* ---- what info tells ---------------------------------------------------------------------- */

static bool keep_note(struct zf_build *b, const char *text, size_t n, struct zf_err *err)
{
    struct zf_note_item *item = zf_arena_get(b->temp, 1, sizeof *item, err);

    if (!item || !(item->text = zf_arena_str(b->keep, text, n, err))) {
        return false;
    }
    *b->note_end = item;
    b->note_end = &item->next;
    b->n_notes++;
    return true;
}

bool zf_build_note(struct zf_build *b, struct zf_err *err, const char *fmt, ...)
{
    struct zf_note_kind *kind = b->note_kinds;
    va_list ap;
    char text[1024];

    while (kind && strcmp(kind->fmt, fmt) != 0) {
        kind = kind->next;
    }
    if (!kind) {
        kind = zf_arena_get(b->temp, 1, sizeof *kind, err);
        if (!kind || !(kind->fmt = zf_arena_str(b->temp, fmt, strlen(fmt), err))) {
            return false;
        }
        kind->next = b->note_kinds;
        b->note_kinds = kind;
    }
    if (kind->n++ >= NOTES_OF_A_KIND) {
        return true;
    }
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return keep_note(b, text, n < 0 ? 0 : strlen(text), err);
}

const char *zf_build_first_note(const struct zf_build *b)
{
    return b->notes ? b->notes->text : NULL;
}

bool zf_build_missing(struct zf_build *b, const char *name, size_t name_len,
                      const struct zf_lost *how, struct zf_err *err)
{
    const char *file = how->file ? how->file : "";
    struct zf_missing_item *item = zf_arena_get(b->temp, 1, sizeof *item, err);

    if (!item || !(item->missing.name = zf_arena_str(b->keep, name, name_len, err)) ||
        !(item->missing.how.file = zf_arena_str(b->keep, file, strlen(file), err)) ||
        !(item->missing.how.why = zf_arena_str(b->keep, how->why, strlen(how->why), err))) {
        return false;
    }
    item->next = b->missing;
    b->missing = item;
    b->n_missing++;
    return true;
}

bool zf_build_tag(struct zf_build *b, const char *tag, struct zf_err *err)
{
    char *copy = zf_arena_str(b->keep, tag, strlen(tag), err);

    b->tag = copy ? copy : "";
    return copy != NULL;
}

void zf_build_step(struct zf_build *b, int64_t step)
{
    b->step = step;
    b->has_step = true;
}
