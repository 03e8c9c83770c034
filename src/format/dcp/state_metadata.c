/* SPDX-License-Identifier: Apache-2.0 */
/* state_dict_metadata: which tensors and byte items there are, and their chunks. */
#include <stdio.h>
#include <string.h>

#include <zf/base/num.h>

#include "reading.h"

void *zf_dcp_room(void *p, uint64_t n, uint64_t *cap, size_t each, struct zf_err *err)
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
bool zf_dcp_in_file(const struct zf_dcp_reading *r, struct zf_err *err)
{
    size_t n = strlen(r->path);

    return strncmp(err->path, r->path, n) == 0 ? false : zf_err_in(err, "%s", r->path);
}

/* A degraded build goes on after a failure. */
bool zf_dcp_settle(struct zf_dcp_reading *r, struct zf_err *err)
{
    (void)zf_dcp_in_file(r, err);
    return zf_forgive(r->b, err);
}

static uint64_t key_hash(const struct zf_dcp *d, const char *p, uint64_t n)
{
    return zf_dcp_table_hash(d->seed + d->at_group, p, n);
}

/* The key of this name in the state dict that is read. */
uint32_t zf_dcp_find_key(const struct zf_dcp *d, const char *p, uint64_t n)
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
uint32_t zf_dcp_find_chunk(const struct zf_dcp *d, uint32_t key, const uint64_t *start,
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
bool zf_dcp_read_size(const struct zf_pv *v, uint32_t ndim, uint64_t *out)
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
uint64_t *zf_dcp_box_room(struct zf_dcp *d, uint32_t ndim, struct zf_err *err)
{
    uint64_t *box = zf_dcp_room(d->box, d->n_box + 2u * ndim + 1, &d->cap_box, sizeof *box, err);

    if (!box) {
        return NULL;
    }
    d->box = box;
    return box + d->n_box;
}

static bool push_chunk(struct zf_dcp_reading *r, uint32_t key, bool known, struct zf_err *err)
{
    struct zf_dcp *d = r->d;
    struct zf_dcp_chunk *chunk;
    uint64_t hash = box_hash(d, key, &d->box[d->n_box]);

    if (d->n_chunks >= r->lim->pieces || d->n_chunks >= ZF_DCP_NONE - 1) {
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "more than %llu chunks (limit pieces)",
                       (unsigned long long)d->n_chunks);
    }
    chunk = zf_dcp_room(d->chunk, d->n_chunks + 1, &d->cap_chunks, sizeof *chunk, err);
    if (!chunk) {
        return false;
    }
    d->chunk = chunk;
    chunk[d->n_chunks] = (struct zf_dcp_chunk){.key = key, .file = ZF_DCP_NONE, .box = d->n_box};
    d->n_box += 2 * (uint64_t)d->key[key].ndim;
    return (known || zf_dcp_table_add(&d->chunks, hash, (uint32_t)d->n_chunks, err)) &&
           ++d->n_chunks;
}

/* -o degraded: a chunk or another rank contradicts the shape of the key.  It becomes the smallest one that
 * holds the box as well, where that makes sense. */
static bool doubt(struct zf_dcp_reading *r, uint32_t key, const uint64_t *start,
                  const uint64_t *size, struct zf_err *err)
{
    struct zf_dcp_key *k = &r->d->key[key];
    uint64_t *wider = zf_arena_get(r->d->pickles, k->ndim, sizeof *wider, err), bytes;

    if (!wider) {
        return false;
    }
    k->doubtful = true;
    for (uint32_t i = 0; i < k->ndim; i++) {
        if (!zf_add(start ? start[i] : 0, size[i], &wider[i])) {
            return true;
        }
        wider[i] = wider[i] > k->shape[i] ? wider[i] : k->shape[i];
    }
    if (zf_dtype_size(k->dtype, k->ndim, wider, &bytes) && bytes <= INT64_MAX) {
        k->shape = wider;
    }
    return true;
}

/* A chunk of no elements holds nothing, but where the whole tensor is said to hold nothing its item is the
 * only other witness. */
static bool keep_empty(struct zf_dcp_reading *r, uint32_t key, const uint64_t *start,
                       struct zf_err *err)
{
    struct zf_dcp *d = r->d;
    uint64_t n;

    if (!zf_elems(d->key[key].ndim, d->key[key].shape, &n) || n > 0 ||
        zf_dcp_find_chunk(d, key, start, 0) != ZF_DCP_NONE) {
        return true;
    }
    if (!push_chunk(r, key, false, err)) {
        return false;
    }
    d->chunk[d->n_chunks - 1].empty = true;
    return true;
}

/* Takes one ChunkStorageMetadata. */
static bool take_chunk(struct zf_dcp_reading *r, uint32_t key, const struct zf_pv *v,
                       struct zf_err *err)
{
    struct zf_dcp *d = r->d;
    const struct zf_dcp_key *k = &d->key[key];
    uint64_t *start = zf_dcp_box_room(d, k->ndim, err), *size = start + k->ndim, n;
    bool known = false;
    uint32_t twin;

    if (!start) {
        return false;
    }
    if (!zf_dcp_read_size(zf_pv_attr(v, "offsets"), k->ndim, start) ||
        !zf_dcp_read_size(zf_pv_attr(v, "sizes"), k->ndim, size)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "\"%.160s\": a chunk's offsets or sizes are not %u numbers >= 0", k->name,
                       k->ndim) ||
               (zf_dcp_settle(r, err) && doubt(r, key, NULL, k->shape, err));
    }
    if (zf_elems(k->ndim, size, &n) && n == 0) {
        return keep_empty(r, key, start, err); /* it may even start behind the end */
    }
    for (uint32_t i = 0; i < k->ndim; i++) {
        if (!zf_within(start[i], size[i], k->shape[i])) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "\"%.160s\": a chunk spans %llu … %llu of dimension %u, which has %llu",
                           k->name, (unsigned long long)start[i],
                           (unsigned long long)(start[i] + size[i]), i,
                           (unsigned long long)k->shape[i]) ||
                   (zf_dcp_settle(r, err) && doubt(r, key, start, size, err));
        }
    }
    twin = zf_dcp_find_chunk(d, key, start, 0);
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
static bool take_key(struct zf_dcp_reading *r, const char *name, uint64_t n, uint32_t *key_out,
                     bool *new_out, struct zf_err *err)
{
    struct zf_dcp *d = r->d;
    uint32_t i = zf_dcp_find_key(d, name, n);
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
    key = zf_dcp_room(d->key, d->n_keys + 1, &d->cap_keys, sizeof *key, err);
    if (!key) {
        return false;
    }
    d->key = key;
    *key_out = (uint32_t)d->n_keys;
    key[d->n_keys] = (struct zf_dcp_key){.name = name,
                                         .name_len = (uint32_t)n,
                                         .from = r->path,
                                         .pass = d->n_passes,
                                         .group = d->at_group};
    return zf_dcp_table_add(&d->keys, key_hash(d, name, n), *key_out, err) && ++d->n_keys;
}

/* dtype and shape of a TensorStorageMetadata. */
static bool read_tensor(struct zf_dcp_reading *r, const struct zf_pv *v, struct zf_dcp_key *out,
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
    if (!zf_dcp_read_size(size, (uint32_t)ndim, shape)) {
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

/* "float32 [4, 6]", or "bytes". */
static const char *describe(const struct zf_dcp_key *k, char *out, size_t n)
{
    int at = k->is_bytes ? snprintf(out, n, "bytes")
                         : snprintf(out, n, "%s [", zf_dtype_info(k->dtype)->torch);

    for (uint32_t i = 0; !k->is_bytes && i <= k->ndim && at > 0 && (size_t)at < n; i++) {
        at += i == k->ndim ? snprintf(out + at, n - (size_t)at, "]")
                           : snprintf(out + at, n - (size_t)at, "%s%llu", i ? ", " : "",
                                      (unsigned long long)k->shape[i]);
    }
    return out;
}

/* The metadata of two ranks describe one name in two ways. */
static bool differs(struct zf_dcp_reading *r, uint32_t key, const struct zf_dcp_key *seen,
                    struct zf_err *err)
{
    struct zf_dcp_key *k = &r->d->key[key];
    char here[80], there[80];

    (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                  "\"%.100s\" is %s, but %s in %.60s: metadata of two saves?", k->name,
                  describe(seen, here, sizeof here), describe(k, there, sizeof there), k->from);
    k->doubtful = true;
    return zf_dcp_settle(r, err) &&
           (seen->ndim != k->ndim || doubt(r, key, NULL, seen->shape, err));
}

static bool take_tensor(struct zf_dcp_reading *r, const char *name, uint64_t n,
                        const struct zf_pv *v, struct zf_err *err)
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
        return differs(r, key, &seen, err);
    }
    for (uint64_t i = 0; i < zf_pv_len(chunks); i++) {
        if (!take_chunk(r, key, zf_pv_item(chunks, i), err) && !zf_dcp_settle(r, err)) {
            return false;
        }
    }
    return true;
}

static bool take_bytes(struct zf_dcp_reading *r, const char *name, uint64_t n, struct zf_err *err)
{
    uint32_t key;
    bool fresh;

    if (!take_key(r, name, n, &key, &fresh, err)) {
        return false;
    }
    if (!fresh) {
        const struct zf_dcp_key seen = {.is_bytes = true};

        return r->d->key[key].is_bytes || differs(r, key, &seen, err);
    }
    r->d->key[key].is_bytes = true;
    return zf_dcp_box_room(r->d, 0, err) && push_chunk(r, key, false, err);
}

bool zf_dcp_take_state(struct zf_dcp_reading *r, const struct zf_pv *dict, struct zf_err *err)
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
        if (!ok && !zf_dcp_settle(r, err)) {
            return false;
        }
    }
    return true;
}
