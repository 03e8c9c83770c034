/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include <zf/base/num.h>

#include "dcp_flat.h"
#include "dcp_metadata.h"
#include "relpath.h"

/* One metadata file while it is read. */
struct reading {
    struct zf_dcp *d;
    const struct zf_limits *lim;
    struct zf_build *b;
    const char *dir, *path;        /* its directory, itself */
    uint64_t first_chunk;          /* of this file */
    const struct zf_pv *last_path; /* files are named over and over again by the same value */
    uint32_t last_file;
    uint64_t n_strange; /* items that no tensor owns */
};

static void *room(void *p, uint64_t n, uint64_t *cap, size_t each, struct zf_err *err)
{
    uint64_t want = *cap ? *cap : 64, bytes;
    void *q;

    if (n <= *cap) {
        return p;
    }
    while (want < n) {
        want *= 2;
    }
    if (!zf_mul(want, each, &bytes) || !(q = realloc(p, bytes))) {
        zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "no memory for %llu entries of metadata",
                (unsigned long long)want);
        return NULL;
    }
    *cap = want;
    return q;
}

/* Names the file in the failure, once. */
static bool in_file(const struct reading *r, struct zf_err *err)
{
    size_t n = strlen(r->path);

    return strncmp(err->path, r->path, n) == 0 ? false : zf_err_in(err, "%s", r->path);
}

/* A degraded build goes on after a failure. */
static bool settle(struct reading *r, struct zf_err *err)
{
    (void)in_file(r, err);
    return zf_forgive(r->b, err);
}

static uint64_t key_hash(const struct zf_dcp *d, const char *p, uint64_t n)
{
    return zf_dcp_table_hash(d->seed + d->at_group, p, n);
}

/* The key of this name in the state dict that is read. */
static uint32_t find_key(const struct zf_dcp *d, const char *p, uint64_t n)
{
    uint64_t hash = key_hash(d, p, n), at = 0;
    uint32_t i;

    while ((i = zf_dcp_table_next(&d->keys, hash, &at)) != ZF_DCP_NONE) {
        const struct zf_dcp_key *k = &d->key[i];

        if (k->group == d->at_group && k->name_len == n && memcmp(k->name, p, n) == 0) {
            return i;
        }
    }
    return ZF_DCP_NONE;
}

static uint64_t box_hash(const struct zf_dcp *d, uint32_t key, const uint64_t *start)
{
    uint64_t h = zf_dcp_table_hash(d->seed, &key, sizeof key);

    return zf_dcp_table_hash(h, start, d->key[key].ndim * sizeof *start);
}

/* The chunk of `key` that starts there and has number `from` or more. */
static uint32_t find_chunk(const struct zf_dcp *d, uint32_t key, const uint64_t *start,
                           uint64_t from)
{
    uint64_t hash = box_hash(d, key, start), at = 0;
    uint32_t i;

    while ((i = zf_dcp_table_next(&d->chunks, hash, &at)) != ZF_DCP_NONE) {
        const struct zf_dcp_chunk *c = &d->chunk[i];

        if (i >= from && c->key == key &&
            memcmp(&d->box[c->box], start, d->key[key].ndim * sizeof *start) == 0) {
            return i;
        }
    }
    return ZF_DCP_NONE;
}

/* torch.Size, or a plain tuple or list, of exactly ndim sizes. */
static bool read_size(const struct zf_pv *v, uint32_t ndim, uint64_t *out)
{
    if (zf_pv_is(v, NULL, "Size")) {
        v = zf_pv_arg(v, 0);
    }
    if (!zf_pv_is_seq(v) || zf_pv_len(v) != ndim) {
        return false;
    }
    for (uint32_t i = 0; i < ndim; i++) {
        if (!zf_pv_u64(zf_pv_item(v, i), &out[i]) || out[i] > INT64_MAX) {
            return false;
        }
    }
    return true;
}

static uint64_t size_len(const struct zf_pv *v)
{
    return zf_pv_len(zf_pv_is(v, NULL, "Size") ? zf_pv_arg(v, 0) : v);
}

/* Makes place for two more sizes of ndim numbers behind the boxes. */
static uint64_t *box_room(struct zf_dcp *d, uint32_t ndim, struct zf_err *err)
{
    uint64_t *box = room(d->box, d->n_box + 2u * ndim + 1, &d->cap_box, sizeof *box, err);

    if (!box) {
        return NULL;
    }
    d->box = box;
    return box + d->n_box;
}

static bool push_chunk(struct reading *r, uint32_t key, bool known, struct zf_err *err)
{
    struct zf_dcp *d = r->d;
    struct zf_dcp_chunk *chunk;
    uint64_t hash = box_hash(d, key, &d->box[d->n_box]);

    if (d->n_chunks >= r->lim->pieces || d->n_chunks >= ZF_DCP_NONE - 1) {
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "more than %llu chunks (limit pieces)",
                       (unsigned long long)d->n_chunks);
    }
    chunk = room(d->chunk, d->n_chunks + 1, &d->cap_chunks, sizeof *chunk, err);
    if (!chunk) {
        return false;
    }
    d->chunk = chunk;
    chunk[d->n_chunks] = (struct zf_dcp_chunk){.key = key, .file = ZF_DCP_NONE, .box = d->n_box};
    d->n_box += 2 * (uint64_t)d->key[key].ndim;
    return (known || zf_dcp_table_add(&d->chunks, hash, (uint32_t)d->n_chunks, err)) &&
           ++d->n_chunks;
}

/* Takes one ChunkStorageMetadata. */
static bool take_chunk(struct reading *r, uint32_t key, const struct zf_pv *v, struct zf_err *err)
{
    struct zf_dcp *d = r->d;
    const struct zf_dcp_key *k = &d->key[key];
    uint64_t *start = box_room(d, k->ndim, err), *size = start + k->ndim, n;
    bool known = false;
    uint32_t twin;

    if (!start) {
        return false;
    }
    if (!read_size(zf_pv_attr(v, "offsets"), k->ndim, start) ||
        !read_size(zf_pv_attr(v, "sizes"), k->ndim, size)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "\"%.160s\": a chunk's offsets or sizes are not %u numbers >= 0", k->name,
                       k->ndim);
    }
    if (zf_elems(k->ndim, size, &n) && n == 0) {
        return true; /* an empty shard may even start behind the end */
    }
    for (uint32_t i = 0; i < k->ndim; i++) {
        if (!zf_within(start[i], size[i], k->shape[i])) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "\"%.160s\": a chunk spans %llu … %llu of dimension %u, which has %llu",
                           k->name, (unsigned long long)start[i],
                           (unsigned long long)(start[i] + size[i]), i,
                           (unsigned long long)k->shape[i]);
        }
    }
    twin = find_chunk(d, key, start, 0);
    if (twin != ZF_DCP_NONE) {
        const uint64_t *other = &d->box[d->chunk[twin].box + k->ndim];

        known = twin >= r->first_chunk;
        if (!known && memcmp(other, size, k->ndim * sizeof *size) == 0) {
            return true; /* replicated: rank-local metadata tells of it once a rank */
        }
    }
    if (known && !zf_build_degraded(r->b)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "\"%.160s\": two chunks start at the same place", k->name);
    }
    return push_chunk(r, key, known, err);
}

/* The number of the key, which is made when it is new (then *new_out). */
static bool take_key(struct reading *r, const char *name, uint64_t n, uint32_t *key_out,
                     bool *new_out, struct zf_err *err)
{
    struct zf_dcp *d = r->d;
    uint32_t i = find_key(d, name, n);
    struct zf_dcp_key *key;

    *new_out = i == ZF_DCP_NONE;
    *key_out = i;
    if (!*new_out) {
        if (d->key[i].pass == d->n_passes) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "\"%.160s\" is described twice", name);
        }
        return true;
    }
    if (d->n_keys >= r->lim->tensors || d->n_keys >= ZF_DCP_NONE - 1 || n > UINT32_MAX) {
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "more than %llu tensors (limit tensors)",
                       (unsigned long long)d->n_keys);
    }
    key = room(d->key, d->n_keys + 1, &d->cap_keys, sizeof *key, err);
    if (!key) {
        return false;
    }
    d->key = key;
    *key_out = (uint32_t)d->n_keys;
    key[d->n_keys] = (struct zf_dcp_key){
        .name = name, .name_len = (uint32_t)n, .pass = d->n_passes, .group = d->at_group};
    return zf_dcp_table_add(&d->keys, key_hash(d, name, n), *key_out, err) && ++d->n_keys;
}

/* dtype and shape of a TensorStorageMetadata. */
static bool read_tensor(struct reading *r, const struct zf_pv *v, struct zf_dcp_key *out,
                        struct zf_err *err)
{
    const struct zf_pv *props = zf_pv_attr(v, "properties"), *state = zf_pv_state(props);
    const struct zf_pv *type =
        zf_pv_kind(state) == ZF_PV_TUPLE ? zf_pv_item(state, 0) : zf_pv_attr(props, "dtype");
    const struct zf_pv *size = zf_pv_attr(v, "size");
    const char *dtype = zf_pv_kind(type) == ZF_PV_GLOBAL ? zf_pv_name(type) : "";
    uint64_t ndim = size_len(size), bytes;
    uint64_t *shape;

    if (ndim > r->lim->tensor_dims || ndim > UINT32_MAX / 2) {
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "%llu dimensions (limit tensor_dims)",
                       (unsigned long long)ndim);
    }
    shape = zf_arena_get(r->d->pickles, ndim, sizeof *shape, err);
    if (!shape) {
        return false;
    }
    if (!read_size(size, (uint32_t)ndim, shape)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "its size is not a list of numbers >= 0");
    }
    if (!zf_dtype_by_torch(dtype, strlen(dtype), &out->dtype)) {
        return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE, "its dtype \"%.60s\" is not known",
                       dtype);
    }
    if (!zf_dtype_size(out->dtype, (uint32_t)ndim, shape, &bytes) || bytes > INT64_MAX) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "its size overflows");
    }
    out->ndim = (uint32_t)ndim;
    out->shape = shape;
    return true;
}

static bool same_tensor(const struct zf_dcp_key *a, const struct zf_dcp_key *b)
{
    return a->is_bytes == b->is_bytes && a->dtype == b->dtype && a->ndim == b->ndim &&
           memcmp(a->shape, b->shape, a->ndim * sizeof *a->shape) == 0;
}

static bool take_tensor(struct reading *r, const char *name, uint64_t n, const struct zf_pv *v,
                        struct zf_err *err)
{
    const struct zf_pv *chunks = zf_pv_attr(v, "chunks");
    struct zf_dcp_key seen = {0};
    uint32_t key;
    bool fresh;

    if (!read_tensor(r, v, &seen, err)) {
        return zf_err_in(err, "!%.160s", name);
    }
    if (!zf_pv_is_seq(chunks)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "\"%.160s\" has no list of chunks", name);
    }
    if (!take_key(r, name, n, &key, &fresh, err)) {
        return false;
    }
    if (fresh) {
        struct zf_dcp_key *k = &r->d->key[key];

        k->dtype = seen.dtype;
        k->ndim = seen.ndim;
        k->shape = seen.shape;
    } else if (!same_tensor(&r->d->key[key], &seen)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "\"%.160s\" has another dtype or shape than in the metadata of another rank",
                       name);
    }
    for (uint64_t i = 0; i < zf_pv_len(chunks); i++) {
        if (!take_chunk(r, key, zf_pv_item(chunks, i), err) && !settle(r, err)) {
            return false;
        }
    }
    return true;
}

static bool take_bytes(struct reading *r, const char *name, uint64_t n, struct zf_err *err)
{
    uint32_t key;
    bool fresh;

    if (!take_key(r, name, n, &key, &fresh, err)) {
        return false;
    }
    if (!fresh) {
        return r->d->key[key].is_bytes ||
               zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "\"%.160s\" is a tensor for one rank, bytes for another", name);
    }
    r->d->key[key].is_bytes = true;
    return box_room(r->d, 0, err) && push_chunk(r, key, false, err);
}

static bool take_state(struct reading *r, const struct zf_pv *dict, struct zf_err *err)
{
    for (uint64_t i = 0; i < zf_pv_len(dict); i++) {
        const struct zf_pv *key = zf_pv_key(dict, i), *v = zf_pv_val(dict, i);
        uint64_t n = 0;
        const char *name = zf_pv_kind(key) == ZF_PV_STR ? zf_pv_text(key, &n) : NULL;
        bool ok;

        if (!name) {
            ok = zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                         "entry %llu of state_dict_metadata has no name", (unsigned long long)i);
        } else if (zf_pv_is(v, NULL, "TensorStorageMetadata")) {
            ok = take_tensor(r, name, n, v, err);
        } else if (zf_pv_is(v, NULL, "BytesStorageMetadata")) {
            ok = take_bytes(r, name, n, err);
        } else {
            ok = zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                         "\"%.120s\" is described by \"%.80s\", expected TensorStorageMetadata or "
                         "BytesStorageMetadata (torch 1.12 and older are not read)",
                         name, zf_pv_name(v));
        }
        if (!ok && !settle(r, err)) {
            return false;
        }
    }
    return true;
}

static bool take_file(struct reading *r, const struct zf_pv *v, uint32_t *out, struct zf_err *err)
{
    struct zf_dcp *d = r->d;
    uint64_t n = 0, at = 0, hash;
    const char *name = zf_pv_text(v, &n), **file;
    char *path;
    uint32_t i;

    if (v && v == r->last_path) {
        *out = r->last_file;
        return true;
    }
    if (zf_pv_kind(v) != ZF_PV_STR || strlen(name) != n || !zf_relpath_ok(name)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "relative_path \"%.120s\" names no file beside .metadata", name ? name : "");
    }
    path = zf_arena_fmt(d->pickles, err, "%s%s%s", r->dir, *r->dir ? "/" : "", name);
    if (!path) {
        return false;
    }
    hash = zf_dcp_table_hash(d->seed, path, strlen(path));
    while ((i = zf_dcp_table_next(&d->files, hash, &at)) != ZF_DCP_NONE &&
           strcmp(d->file[i], path) != 0) {
    }
    if (i == ZF_DCP_NONE) {
        file = room(d->file, d->n_files + 1, &d->cap_files, sizeof *file, err);
        if (!file) {
            return false;
        }
        d->file = file;
        i = (uint32_t)d->n_files;
        if (!zf_dcp_table_add(&d->files, hash, i, err)) {
            return false;
        }
        d->file[d->n_files++] = path;
    }
    r->last_path = v;
    r->last_file = *out = i;
    return true;
}

static enum zf_dcp_wrap read_wrap(const struct zf_pv *list)
{
    uint64_t n = 0;
    const char *name = zf_pv_text(zf_pv_item(list, 0), &n);

    if (zf_pv_len(list) == 0) {
        return ZF_DCP_PLAIN;
    }
    return zf_pv_len(list) == 1 && name && strncmp(name, "stream.zstd", 11) == 0 ? ZF_DCP_ZSTD
                                                                                 : ZF_DCP_OTHER;
}

/* Takes one _StorageInfo for chunk c. */
static bool take_info(struct reading *r, struct zf_dcp_chunk *c, const struct zf_pv *v,
                      struct zf_err *err)
{
    const char *name = r->d->key[c->key].name;
    uint64_t end;

    if (c->file != ZF_DCP_NONE || c->lost) {
        c->file = ZF_DCP_NONE;
        c->lost = true;
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "\"%.160s\": storage_data has two items for one chunk", name);
    }
    c->lost = true;
    if (!zf_pv_u64(zf_pv_attr(v, "offset"), &c->off) ||
        !zf_pv_u64(zf_pv_attr(v, "length"), &c->len) || !zf_add(c->off, c->len, &end) ||
        end > INT64_MAX) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "\"%.160s\": an item's offset and length are not numbers that make sense",
                       name);
    }
    if (!take_file(r, zf_pv_attr(v, "relative_path"), &c->file, err)) {
        return zf_err_in(err, "!%.160s", name);
    }
    c->wrap = read_wrap(zf_pv_attr(v, "transform_descriptors"));
    c->lost = false;
    return true;
}

/* Takes one pair of storage_data. */
static bool take_item(struct reading *r, const struct zf_pv *index, const struct zf_pv *info,
                      struct zf_err *err)
{
    struct zf_dcp *d = r->d;
    const struct zf_pv *fqn = zf_pv_attr(index, "fqn"), *offset = zf_pv_attr(index, "offset");
    uint64_t n = 0, *start;
    const char *name = zf_pv_kind(fqn) == ZF_PV_STR ? zf_pv_text(fqn, &n) : NULL;
    uint32_t key = name ? find_key(d, name, n) : ZF_DCP_NONE, chunk;

    if (key == ZF_DCP_NONE) {
        r->n_strange++;
        return true;
    }
    start = box_room(d, d->key[key].ndim, err);
    if (!start) {
        return false;
    }
    if (!d->key[key].is_bytes && !read_size(offset, d->key[key].ndim, start)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "\"%.160s\": storage_data has an offset that is not %u numbers >= 0", name,
                       d->key[key].ndim);
    }
    chunk = find_chunk(d, key, start, r->first_chunk);
    if (chunk == ZF_DCP_NONE) {
        return true; /* an empty shard, or the copy of another rank */
    }
    return take_info(r, &d->chunk[chunk], info, err);
}

static bool take_storage(struct reading *r, const struct zf_pv *dict, struct zf_err *err)
{
    for (uint64_t i = 0; i < zf_pv_len(dict); i++) {
        if (!take_item(r, zf_pv_key(dict, i), zf_pv_val(dict, i), err) && !settle(r, err)) {
            return false;
        }
    }
    return !r->n_strange ||
           zf_build_note(r->b, err, "storage_data has %llu items that nothing describes",
                         (unsigned long long)r->n_strange);
}

static void take_paths(struct zf_dcp *d, const struct zf_pv *planner)
{
    for (uint64_t i = 0; i < zf_pv_len(planner); i++) {
        uint64_t n = 0;
        const char *name = zf_pv_text(zf_pv_key(planner, i), &n);
        uint32_t key = name ? find_key(d, name, n) : ZF_DCP_NONE;

        if (key != ZF_DCP_NONE) {
            d->key[key].path = zf_pv_val(planner, i);
        }
    }
}

/* What Megatron hangs on the metadata; see dcp_flat.h. */
static bool take_mcore(struct reading *r, const struct zf_pv *mcore, struct zf_err *err)
{
    struct zf_dcp *d = r->d;

    for (uint64_t i = 0; i < zf_pv_len(mcore); i++) {
        uint64_t n = 0;
        const char *name = zf_pv_text(zf_pv_key(mcore, i), &n);
        uint32_t key = name ? find_key(d, name, n) : ZF_DCP_NONE;

        if (key != ZF_DCP_NONE && !zf_dcp_flat_take(d, &d->key[key], zf_pv_val(mcore, i), err)) {
            return false;
        }
    }
    return true;
}

static bool take_root(struct reading *r, const struct zf_pv *root, struct zf_err *err)
{
    const struct zf_pv *state = zf_pv_attr(root, "state_dict_metadata");
    const struct zf_pv *storage = zf_pv_attr(root, "storage_data");

    if (!zf_pv_is_map(state)) {
        return zf_fail(
            err, ZF_E_FORMAT, ZF_OFF_NONE,
            "is a pickle of \"%.80s\" without state_dict_metadata, expected the Metadata of "
            "torch.distributed.checkpoint",
            *zf_pv_name(root) ? zf_pv_name(root) : "a plain value");
    }
    if (!zf_pv_is_map(storage)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "has no storage_data that says where the items stand");
    }
    if (!take_state(r, state, err) || !take_storage(r, storage, err) ||
        !take_mcore(r, zf_pv_attr(root, "mcore_data"), err)) {
        return false;
    }
    take_paths(r->d, zf_pv_attr(root, "planner_data"));
    r->d->root = root;
    return true;
}

/* The values of one pickle; its bytes are not kept. */
static const struct zf_pv *load(struct reading *r, struct zf_store *st, struct zf_err *err)
{
    uint64_t n = 0;
    zf_auto(mem) char *text = zf_store_slurp(st, r->path, r->lim->pickle_bytes, &n, err);
    struct zf_bytes in = zf_bytes_of(text, n);
    const struct zf_pv *root;

    if (!text) {
        return NULL;
    }
    root = zf_pickle_load(&in, r->d->pickles, r->lim, err);
    if (!root) {
        (void)in_file(r, err);
    }
    return root;
}

bool zf_dcp_read(struct zf_dcp *d, struct zf_store *st, const char *dir, const char *name,
                 const struct zf_limits *lim, struct zf_build *b, struct zf_err *err)
{
    struct reading r = {.d = d, .lim = lim, .b = b, .dir = dir, .first_chunk = d->n_chunks};
    const struct zf_pv *root;

    d->n_passes++;
    r.path = zf_arena_fmt(d->pickles, err, "%s%s%s", dir, *dir ? "/" : "", name);
    if (!r.path) {
        return false;
    }
    root = load(&r, st, err);
    return root && (take_root(&r, root, err) || in_file(&r, err));
}
