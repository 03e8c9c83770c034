/* SPDX-License-Identifier: Apache-2.0 */
/* Reads state_dict_metadata: the tensors, the bytes items, and their chunks. */
#include "metadata.h"

#include <stdio.h>
#include <string.h>

#include <zf/base/num.h>
#include <zf/codec/torch.h>

/* Room for a shape, preceded by zeros.  NULL: ZF_E_NOMEM, ZF_E_LIMIT. */
static uint64_t *state_shape_room(struct dcp_reading *r, uint64_t ndim, struct zf_err *err)
{
    uint64_t *corner = zf_arena_get(r->d->pickles, 2 * ndim, sizeof *corner, err);

    return corner ? corner + ndim : NULL;
}

/* -o degraded: handles a chunk, or the metadata of another rank, that contradicts the shape of the key.  The
 * key takes the smallest shape that also contains that box, unless such a tensor would be too large. */
static bool state_doubt(struct dcp_reading *r, uint32_t key, const uint64_t *start,
                        const uint64_t *size, struct zf_err *err)
{
    struct dcp_key *k = &r->d->key.at[key];
    uint64_t *wider = state_shape_room(r, k->ndim, err), bytes;

    if (!wider)
        return false;
    k->doubtful = true;
    for (uint32_t i = 0; i < k->ndim; i++) {
        if (!zf_add(start ? start[i] : 0, size[i], &wider[i]))
            return true;
        wider[i] = wider[i] > k->shape[i] ? wider[i] : k->shape[i];
    }
    if (zf_dtype_size(k->dtype, k->ndim, wider, &bytes) && bytes <= INT64_MAX)
        k->shape = wider;
    return true;
}

/* Drops a chunk without elements, unless the whole tensor is described as empty: then only its item can
 * show whether that is true. */
static bool state_take_empty(struct dcp_reading *r, uint32_t key, const uint64_t *start,
                             struct zf_err *err)
{
    struct zf_dcp *d = r->d;
    struct dcp_chunk *c;
    uint64_t n;

    if (!zf_elems(d->key.at[key].ndim, d->key.at[key].shape, &n) || n > 0 ||
        dcp_find_chunk(d, key, start, 0) != ZF_DCP_NONE)
        return true;
    c = dcp_add_chunk(d, key, false, r->lim, err);
    if (!c)
        return false;
    c->empty = true;
    return true;
}

/* Takes one ChunkStorageMetadata. */
static bool state_take_chunk(struct dcp_reading *r, uint32_t key, const struct zf_pv *v,
                             struct zf_err *err)
{
    struct zf_dcp *d = r->d;
    const struct dcp_key *k = &d->key.at[key];
    uint64_t *start = dcp_box_room(d, k->ndim, err), *size = start + k->ndim, n;
    bool known = false;
    uint32_t twin;

    if (!start)
        return false;
    if (!zf_torch_extents(zf_pv_attr(v, "offsets"), k->ndim, start) ||
        !zf_torch_extents(zf_pv_attr(v, "sizes"), k->ndim, size)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "\"%.160s\": a chunk's offsets or sizes are not %u numbers >= 0", k->name,
                       k->ndim) ||
               (dcp_forgive(r, err) && state_doubt(r, key, NULL, k->shape, err));
    }
    if (zf_elems(k->ndim, size, &n) && n == 0)
        return state_take_empty(r, key, start, err); /* it may even start after the end */
    for (uint32_t i = 0; i < k->ndim; i++) {
        if (!zf_within(start[i], size[i], k->shape[i])) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "\"%.160s\": a chunk spans %llu … %llu of dimension %u, which has %llu",
                           k->name, (unsigned long long)start[i],
                           (unsigned long long)(start[i] + size[i]), i,
                           (unsigned long long)k->shape[i]) ||
                   (dcp_forgive(r, err) && state_doubt(r, key, start, size, err));
        }
    }
    twin = dcp_find_chunk(d, key, start, 0);
    if (twin != ZF_DCP_NONE) {
        const uint64_t *other = d->chunk.at[twin].box + k->ndim;

        known = twin >= r->first_chunk;
        if (!known && memcmp(other, size, k->ndim * sizeof *size) == 0)
            return true; /* replicated: every rank-local metadata lists it */
    }
    if (known && !zf_build_degraded(r->b)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "\"%.160s\": two chunks start at the same place", k->name);
    }
    return dcp_add_chunk(d, key, known, r->lim, err) != NULL;
}

/* The number of the key; adds it if it is new (*new_out). */
static bool state_take_key(struct dcp_reading *r, const struct zf_pv *fqn, uint32_t *key_out,
                           bool *new_out, struct zf_err *err)
{
    struct zf_dcp *d = r->d;
    uint64_t n;
    const char *name = zf_pv_text(fqn, &n);

    if (!dcp_take_key(d, name, n, key_out, new_out, err))
        return false;
    if (*new_out)
        zf_pv_keep(fqn);
    else if (d->key.at[*key_out].pass == d->pass.n)
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "\"%.160s\" is described twice", name);
    return true;
}

/* Reads dtype and shape of a TensorStorageMetadata. */
static bool state_read_tensor(struct dcp_reading *r, const struct zf_pv *v, struct dcp_key *out,
                              struct zf_err *err)
{
    const struct zf_pv *props = zf_pv_attr(v, "properties"), *state = zf_pv_state(props);
    const struct zf_pv *type =
        zf_pv_kind(state) == ZF_PV_TUPLE ? zf_pv_item(state, 0) : zf_pv_attr(props, "dtype");
    const struct zf_pv *size = zf_torch_size(zf_pv_attr(v, "size"));
    const char *dtype = zf_pv_kind(type) == ZF_PV_GLOBAL ? zf_pv_name(type) : "";
    uint64_t ndim = zf_pv_len(size), bytes, bits = 0;
    uint64_t *shape;
    enum zf_dtype of;

    if (ndim > r->lim->tensor_dims || ndim > UINT32_MAX / 2) {
        return zf_fail_limit(err, ZF_LIMIT_tensor_dims, ZF_OFF_NONE,
                             "%llu dimensions (limit tensor_dims)", (unsigned long long)ndim);
    }
    shape = state_shape_room(r, ndim, err);
    if (!shape)
        return false;
    if (!zf_torch_extents(size, ndim, shape))
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "its size is not a list of numbers >= 0");
    if (!zf_dtype_by_torch(dtype, strlen(dtype), &of)) {
        return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE, "its dtype \"%.60s\" is not known",
                       dtype);
    }
    for (uint64_t i = 0; i < ndim; i++)
        bits |= shape[i];
    if (!zf_dtype_size(of, (uint32_t)ndim, shape, &bytes) || (bytes | bits) > INT64_MAX)
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "its size overflows");
    out->dtype = of & 0xff;
    out->ndim = (uint32_t)ndim;
    out->shape = shape;
    return true;
}

static bool state_same_tensor(const struct dcp_key *a, const struct dcp_key *b)
{
    return a->is_bytes == b->is_bytes && a->dtype == b->dtype &&
           zf_shape_equal(a->ndim, a->shape, b->ndim, b->shape);
}

/* Describes the key: "float32 [4, 6]", or "bytes". */
static const char *state_describe(const struct dcp_key *k, char *out, size_t n)
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

/* Handles a name that the metadata of two ranks describes in two ways. */
static bool state_differs(struct dcp_reading *r, uint32_t key, const struct dcp_key *seen,
                          struct zf_err *err)
{
    struct dcp_key *k = &r->d->key.at[key];
    char here[80], there[80];

    (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                  "\"%.100s\" is %s, but %s in %.60s: are two saves mixed?", k->name,
                  state_describe(seen, here, sizeof here), state_describe(k, there, sizeof there),
                  r->d->pass.at[k->pass - 1]);
    k->doubtful = true;
    return dcp_forgive(r, err) &&
           (seen->ndim != k->ndim || state_doubt(r, key, NULL, seen->shape, err));
}

static bool state_take_tensor(struct dcp_reading *r, const struct zf_pv *fqn, const struct zf_pv *v,
                              struct zf_err *err)
{
    const struct zf_pv *chunks = zf_pv_attr(v, "chunks");
    uint64_t n;
    const char *name = zf_pv_text(fqn, &n);
    struct dcp_key seen = {0};
    uint32_t key;
    bool fresh;

    if (!state_read_tensor(r, v, &seen, err))
        return zf_err_in(err, "!%.160s", name);
    if (!zf_pv_is_seq(chunks))
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "\"%.160s\" has no list of chunks", name);
    if (!state_take_key(r, fqn, &key, &fresh, err))
        return false;
    if (fresh) {
        struct dcp_key *k = &r->d->key.at[key];

        k->dtype = seen.dtype;
        k->ndim = seen.ndim;
        k->shape = seen.shape;
    } else if (!state_same_tensor(&r->d->key.at[key], &seen)) {
        return state_differs(r, key, &seen, err);
    }
    for (uint64_t i = 0; i < zf_pv_len(chunks); i++)
        if (!state_take_chunk(r, key, zf_pv_item(chunks, i), err) && !dcp_forgive(r, err))
            return false;
    return true;
}

static bool state_take_bytes(struct dcp_reading *r, const struct zf_pv *fqn, struct zf_err *err)
{
    uint32_t key;
    bool fresh;

    if (!state_take_key(r, fqn, &key, &fresh, err))
        return false;
    if (!fresh) {
        const struct dcp_key seen = {.is_bytes = true};

        return r->d->key.at[key].is_bytes || state_differs(r, key, &seen, err);
    }
    r->d->key.at[key].is_bytes = true;
    return dcp_box_room(r->d, 0, err) && dcp_add_chunk(r->d, key, false, r->lim, err);
}

bool dcp_take_state(struct dcp_reading *r, const struct zf_pv *key, const struct zf_pv *v,
                    struct zf_err *err)
{
    uint64_t n = 0;
    const char *name = zf_pv_kind(key) == ZF_PV_STR ? zf_pv_text(key, &n) : NULL;
    bool ok;

    if (!name) {
        ok = zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "an entry of state_dict_metadata has no name");
    } else if (zf_pv_is(v, NULL, "TensorStorageMetadata")) {
        ok = state_take_tensor(r, key, v, err);
    } else if (zf_pv_is(v, NULL, "BytesStorageMetadata")) {
        ok = state_take_bytes(r, key, err);
    } else {
        ok = zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                     "\"%.120s\" is described by \"%.80s\", expected TensorStorageMetadata or "
                     "BytesStorageMetadata (torch 1.12 and older are not read)",
                     name, zf_pv_name(v));
    }
    return ok || dcp_forgive(r, err);
}
