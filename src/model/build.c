/* SPDX-License-Identifier: Apache-2.0 */
#include "build_kind.h"

#include <stdio.h>
#include <string.h>

#include <zf/base/num.h>
#include <zf/base/path.h>

/* The kernel's limit (PATH_MAX). */
#define PATH_BYTES 4096

struct zf_build *zf_build_new(struct zf_store *st, const struct zf_limits *lim, bool degraded,
                              struct zf_err *err)
{
    zf_auto(build) struct zf_build *b = calloc(1, sizeof *b);

    if (!b)
        return zf_null(zf_fail_sys(err, "make a model"));
    (void)pthread_mutex_init(&b->reading, NULL);
    b->lim = *lim;
    b->degraded = degraded;
    b->rest.tag = b->rest.prefix = "";
    b->store = st ? zf_store_ref(st) : NULL;
    b->keep = zf_arena_new(lim->model_memory, err);
    b->temp = b->keep ? zf_arena_new(lim->model_memory, err) : NULL;
    b->maps = b->temp ? zf_arena_new(lim->model_memory, err) : NULL;
    if (!b->maps)
        return NULL;
    b->sources = calloc(1, sizeof *b->sources);
    if (!b->sources)
        return zf_null(zf_fail_sys(err, "make a model"));
    return sources_init(b->sources, err) ? zf_give(b) : NULL;
}

void zf_build_free(struct zf_build *b)
{
    if (!b)
        return;
    build_forget_names(b);
    zf_vec_fini(&b->drafts);
    zf_vec_fini(&b->sets);
    zf_vec_fini(&b->lists.blobs);
    zf_vec_fini(&b->lists.told);
    zf_vec_fini(&b->lists.notes);
    zf_vec_fini(&b->lists.named);
    zf_vec_fini(&b->lists.missing);
    zf_vec_fini(&b->lists.copies);
    if (b->sources) {
        sources_fini(b->sources);
        free(b->sources);
    }
    zf_store_unref(&b->store);
    zf_arena_free(b->keep);
    zf_arena_free(b->temp);
    zf_arena_free(b->maps);
    (void)pthread_mutex_destroy(&b->reading);
    free(b);
}

uint64_t zf_build_n_tensors(const struct zf_build *b)
{
    return b->drafts.n;
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
    b->rest.fill_lost = true;
}

void zf_build_record_copies(struct zf_build *b)
{
    b->record_copies = true;
}

bool zf_build_records_copies(const struct zf_build *b)
{
    return b->record_copies;
}

/* ---- names -------------------------------------------------------------------------------- */

/* Checks the path of a set or blob, which becomes a path of the mounted tree. */
static bool build_check_path(const char *path, struct zf_err *err)
{
    return zf_relpath_ok(path) ||
           zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "\"%.200s\" is not a plain relative path", path);
}

bool zf_build_prefix(struct zf_build *b, const char *prefix, struct zf_err *err)
{
    if (*prefix && !build_check_path(prefix, err))
        return false;
    b->rest.prefix = zf_arena_str(b->temp, prefix, strlen(prefix), err);
    return b->rest.prefix != NULL;
}

/* dir/path in `full`, or path if dir is empty; NULL: longer than PATH_BYTES. */
static const char *build_path_below(const char *dir, const char *path, char full[PATH_BYTES])
{
    if (!*dir)
        return path;
    int n = snprintf(full, PATH_BYTES, "%s%s%s", dir, *path ? "/" : "", path);
    return n < 0 || n >= PATH_BYTES ? NULL : full;
}

static const char *build_full_path(const struct zf_build *b, const char *path,
                                   char full[PATH_BYTES])
{
    return build_path_below(b->rest.prefix, path, full);
}

static bool build_fail_long(const char *path, struct zf_err *err)
{
    return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "\"%.200s\" is longer than a path can be", path);
}

bool build_may_add(uint64_t n, uint64_t most, const char *what, enum zf_limit limit,
                   struct zf_err *err)
{
    return (n < most && n < UINT32_MAX) ||
           zf_fail_limit(err, limit, ZF_OFF_NONE, "there are more than %llu %s (limit %s)",
                         (unsigned long long)most, what, zf_limit_name(limit));
}

void build_forget_names(struct zf_build *b)
{
    for (struct draft_set *s = b->by_path; s; s = s->hh.next)
        HASH_CLEAR(hh, s->drafts);
    HASH_CLEAR(hh, b->by_path);
    build_forget_asked(b);
}

static struct draft_set *build_get_set(struct zf_build *b, const char *path)
{
    struct build_asked *a = &b->asked;

    if (!a->in || strcmp(a->in->path, path) != 0)
        a->in = zf_table_find_str(b->by_path, path);
    return a->in;
}

static struct draft_set *build_need_set(struct zf_build *b, const char *path, struct zf_err *err)
{
    struct draft_set *s = build_get_set(b, path);

    if (s)
        return s;
    if (*path && !build_check_path(path, err))
        return NULL;
    s = zf_arena_get(b->temp, 1, sizeof *s, err);
    if (!s || !(s->path = zf_arena_str(b->keep, path, strlen(path), err)) ||
        !zf_vec_room(&b->sets, 1, err) ||
        !zf_table_add(b->by_path, s->path, strlen(s->path), s, err))
        return NULL;
    s->number = (uint32_t)b->sets.n;
    b->sets.at[b->sets.n++] = s;
    return s;
}

static struct zf_draft *build_find_in(struct zf_build *b, const struct draft_set *s,
                                      const char *name, size_t n, unsigned *hash)
{
    struct build_asked *a = &b->asked;

    if (a->set != s || a->n != n || memcmp(a->name, name, n) != 0) {
        HASH_VALUE(name, n, a->hash);
        HASH_FIND_BYHASHVALUE(hh, s->drafts, name, n, a->hash, a->found);
        a->set = n <= sizeof a->name ? s : NULL;
        a->n = n;
        memcpy(a->name, name, a->set ? n : 0);
    }
    *hash = a->hash;
    return a->found;
}

struct zf_draft *zf_build_find_below(struct zf_build *b, const char *dir, struct zf_spot spot)
{
    char full[PATH_BYTES];
    const char *path = build_path_below(dir, spot.set, full);
    struct draft_set *s = path ? build_get_set(b, path) : NULL;
    unsigned hash;
    struct zf_draft *d = s ? build_find_in(b, s, spot.name, spot.name_len, &hash) : NULL;

    return d && draft_tie(d) ? draft_tie(d) : d;
}

struct zf_draft *zf_build_find(struct zf_build *b, struct zf_spot spot)
{
    return zf_build_find_below(b, b->rest.prefix, spot);
}

/* A draft of that name in another set, or NULL.  Optimizer states repeat the names of the weights in their order, so the
 * draft after the last one found is tried first, then the name in the first set. */
static const struct zf_draft *build_namesake(struct zf_build *b, const struct draft_set *s,
                                             const char *name, size_t n, unsigned hash)
{
    const struct zf_draft *d = b->namesake < b->drafts.n ? b->drafts.at[b->namesake] : NULL;

    if (!s || s == b->sets.at[0])
        return NULL;
    if (!d || d->name_len != n || memcmp(draft_name(d), name, n) != 0)
        HASH_FIND_BYHASHVALUE(hh, b->sets.at[0]->drafts, name, n, hash, d);
    b->namesake = d ? d->number + 1 : b->namesake;
    return d;
}

/* A draft without a shape, added to its set unless that is NULL. */
static struct zf_draft *build_new_draft(struct zf_build *b, struct draft_set *s, const char *name,
                                        size_t n, struct zf_err *err)
{
    unsigned hash = 0;

    if (s && build_find_in(b, s, name, n, &hash)) {
        return zf_null(zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                               "there are two tensors named \"%.*s\"%s%s", (int)(n < 160 ? n : 160),
                               name, *s->path ? " in " : "", s->path));
    }
    if (!build_may_add(n > UINT32_MAX ? n : b->drafts.n, b->lim.tensors, "tensors",
                       ZF_LIMIT_tensors, err))
        return NULL;
    struct zf_draft *d = zf_arena_get(b->temp, 1, sizeof *d, err);
    const struct zf_draft *like = d ? build_namesake(b, s, name, n, hash) : NULL;
    const char *kept = like ? draft_name(like) : d ? zf_arena_str(b->keep, name, n, err) : NULL;
    if (!kept)
        return NULL;
    d->b = b;
    d->number = (uint32_t)b->drafts.n;
    d->set = s;
    d->hh.key = kept;
    d->name_len = (uint32_t)n;
    b->asked.set = NULL;
    if (!zf_vec_room(&b->drafts, 1, err) ||
        (s && !zf_table_add_hashed(s->drafts, kept, n, hash, d, err)))
        return NULL;
    b->drafts.at[b->drafts.n++] = d;
    if (s)
        s->n++;
    return d;
}

bool zf_shape_equal(uint32_t an, const uint64_t *a, uint32_t bn, const uint64_t *b)
{
    return an == bn && (an == 0 || memcmp(a, b, an * sizeof *a) == 0);
}

bool zf_type_equal(struct zf_type a, struct zf_type b)
{
    return a.dtype == b.dtype && zf_shape_equal(a.ndim, a.shape, b.ndim, b.shape);
}

/* The set at prefix/set, created if it does not exist. */
static struct draft_set *build_full_set(struct zf_build *b, const char *set, struct zf_err *err)
{
    char full[PATH_BYTES];
    const char *path = build_full_path(b, set, full);

    if (!path)
        return zf_null(build_fail_long(set, err));
    return build_need_set(b, path, err);
}

/* A copy of the shape in the checkpoint's arena, shared with the tensor before where both are equal: an optimizer's two
 * moments, the projections of an attention. */
static const uint64_t *build_shape(struct zf_build *b, struct zf_type type, struct zf_err *err)
{
    const struct zf_draft *last = b->drafts.n ? b->drafts.at[b->drafts.n - 1] : NULL;
    size_t n = type.ndim * sizeof *type.shape;

    if (last && last->ndim == type.ndim && (n == 0 || memcmp(last->shape, type.shape, n) == 0))
        return last->shape;
    return zf_arena_copy(b->keep, type.shape, type.ndim, sizeof *type.shape, err);
}

/* A draft of that type, added at that spot unless its set is NULL. */
static struct zf_draft *build_typed_draft(struct zf_build *b, struct zf_spot spot,
                                          struct zf_type type, struct zf_err *err)
{
    const uint64_t *shape = build_shape(b, type, err);
    struct draft_set *s = shape && spot.set ? build_full_set(b, spot.set, err) : NULL;
    bool ok = shape && (s || !spot.set);
    struct zf_draft *d = ok ? build_new_draft(b, s, spot.name, spot.name_len, err) : NULL;

    if (!d)
        return NULL;
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
        return zf_null(
            zf_fail_limit(err, ZF_LIMIT_tensor_dims, ZF_OFF_NONE,
                          "tensor \"%.*s\" has %u dimensions, more than %llu (limit tensor_dims)",
                          shown, spot.name, type.ndim, (unsigned long long)b->lim.tensor_dims));
    }
    if (!zf_elems(type.ndim, type.shape, &elems) ||
        !zf_dtype_size(type.dtype, type.ndim, type.shape, &bytes)) {
        return zf_null(zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                               "tensor \"%.*s\" is larger than 2^64 bytes", shown, spot.name));
    }
    struct zf_draft *d = build_typed_draft(b, spot, type, err);
    if (d)
        d->elems = elems;
    return d;
}

struct zf_draft *zf_build_hidden(struct zf_build *b, const char *name, size_t name_len,
                                 struct zf_type type, struct zf_err *err)
{
    return zf_build_tensor(b, (struct zf_spot){.name = name, .name_len = name_len}, type, err);
}

bool zf_build_raw_only(struct zf_build *b, const char *set, struct zf_err *err)
{
    struct draft_set *s = build_full_set(b, set, err);

    return s && (s->raw_only = true);
}

/* Makes d another name for the data of `of`; tie: the draft in the same set that it is tied to, or NULL. */
static void build_share(struct zf_draft *d, struct zf_draft *of, struct zf_draft *tie)
{
    d->kind = ZF_DRAFT_SAME;
    d->same.as = draft_data(of);
    d->same.tie = tie;
    d->shape = of->shape;
    d->ndim = of->ndim;
    d->dtype = of->dtype;
    d->elems = of->elems;
}

struct zf_draft *zf_build_show(struct zf_build *b, struct zf_spot spot, struct zf_draft *of,
                               struct zf_err *err)
{
    struct draft_set *s = build_full_set(b, spot.set, err);
    struct zf_draft *d = s ? build_new_draft(b, s, spot.name, spot.name_len, err) : NULL;

    if (d)
        build_share(d, of, NULL);
    return d;
}

bool zf_build_alias(struct zf_build *b, struct zf_draft *of, const char *name, size_t name_len,
                    struct zf_err *err)
{
    struct zf_draft *d = build_new_draft(b, of->set, name, name_len, err);

    if (d)
        build_share(d, of, of);
    return d != NULL;
}

bool zf_build_scalar(struct zf_build *b, struct zf_spot spot, enum zf_dtype t, const void *value,
                     struct zf_err *err)
{
    struct zf_draft *d = zf_build_tensor(b, spot, (struct zf_type){.dtype = t}, err);

    if (!d)
        return false;
    d->kind = ZF_DRAFT_MEM;
    d->mem = zf_arena_str(b->keep, value, draft_bytes(d), err);
    return d->mem != NULL;
}

/* ---- files that are not tensors ----------------------------------------------------------- */

/* prefix/path in the checkpoint's arena. */
static const char *build_kept_path(struct zf_build *b, const char *path, struct zf_err *err)
{
    char full[PATH_BYTES];
    const char *whole = build_full_path(b, path, full);

    if (!whole)
        (void)build_fail_long(path, err);
    return whole ? zf_arena_str(b->keep, whole, strlen(whole), err) : NULL;
}

static bool build_add_blob(struct zf_build *b, const char *path, const struct zf_map *map,
                           struct zf_err *err)
{
    struct zf_blob blob = {.data = map}, *to;

    if (!map || !build_check_path(path, err) || !(blob.path = build_kept_path(b, path, err)) ||
        !build_may_add(b->lists.blobs.n, b->lim.tensors, "files", ZF_LIMIT_tensors, err) ||
        !(to = zf_vec_push(&b->lists.blobs, err)))
        return false;
    *to = blob;
    return true;
}

bool zf_build_has_file(const struct zf_build *b, const char *path)
{
    char full[PATH_BYTES];
    const char *whole = build_full_path(b, path, full);
    size_t i = 0;

    while (whole && i < b->lists.blobs.n && strcmp(b->lists.blobs.at[i].path, whole) != 0)
        i++;
    return whole && i < b->lists.blobs.n;
}

bool zf_build_blob(struct zf_build *b, const char *path, struct zf_source *src, uint64_t off,
                   uint64_t n, struct zf_err *err)
{
    uint32_t number;

    if (!zf_within(off, n, src->size)) {
        (void)zf_fail(err, ZF_E_FORMAT, off,
                      "%llu bytes are needed here, but the file has only %llu",
                      (unsigned long long)n, (unsigned long long)src->size);
        return zf_err_in(err, "%s", src->name);
    }
    return sources_add(b->sources, src, &number, err) &&
           build_add_blob(b, path, zf_map_of_source(b->keep, src, off, n, err), err);
}

bool zf_build_text(struct zf_build *b, const char *path, const char *p, uint64_t n,
                   struct zf_err *err)
{
    char *copy = zf_arena_str(b->keep, p, n, err);

    return copy && build_add_blob(b, path, zf_map_of_mem(b->keep, copy, n, err), err);
}

bool zf_build_told(struct zf_build *b, const char *path, struct zf_err *err)
{
    const char *kept = build_kept_path(b, path, err), **to;

    return kept && build_may_add(b->lists.told.n, b->lim.tensors, "files", ZF_LIMIT_tensors, err) &&
           (to = zf_vec_push(&b->lists.told, err)) && (*to = kept);
}

/* ---- the rest --------------------------------------------------------------------------------- */

bool zf_build_copy(struct zf_build *b, const struct zf_copy *copy, struct zf_err *err)
{
    struct zf_copy *to;
    uint32_t ignored;

    if (!sources_add(b->sources, copy->src[0], &ignored, err) ||
        !sources_add(b->sources, copy->src[1], &ignored, err) ||
        !build_may_add(b->lists.copies.n, b->lim.pieces, "copies", ZF_LIMIT_pieces, err) ||
        !(to = zf_vec_push(&b->lists.copies, err)))
        return false;
    *to = *copy;
    return true;
}

const char *zf_build_source(const struct zf_build *b, size_t i)
{
    i += SOURCES_FILES;
    return i < b->sources->n ? b->sources->at[i]->name : NULL;
}

bool zf_build_missing(struct zf_build *b, const char *name, size_t name_len,
                      const struct zf_lost *how, struct zf_err *err)
{
    const char *file = how->file ? how->file : "";
    struct zf_missing m = {.name = zf_arena_str(b->keep, name, name_len, err)}, *to;

    if (!m.name || !(m.how.file = zf_arena_str(b->keep, file, strlen(file), err)) ||
        !(m.how.why = zf_arena_str(b->keep, how->why, strlen(how->why), err)) ||
        !build_may_add(b->lists.missing.n, b->lim.tensors, "lost tensors", ZF_LIMIT_tensors, err) ||
        !(to = zf_vec_push(&b->lists.missing, err)))
        return false;
    *to = m;
    return true;
}

bool zf_build_tag(struct zf_build *b, const char *tag, struct zf_err *err)
{
    char *copy = zf_arena_str(b->keep, tag, strlen(tag), err);

    b->rest.tag = copy ? copy : "";
    return copy != NULL;
}

void zf_build_step(struct zf_build *b, int64_t step)
{
    b->rest.step = step;
    b->rest.has_step = true;
}

bool zf_build_has_step(const struct zf_build *b, int64_t *out)
{
    if (b->rest.has_step)
        *out = b->rest.step;
    return b->rest.has_step;
}
