/* SPDX-License-Identifier: Apache-2.0 */
/* Reads `.zarray`: JSON that describes an array completely, except which chunks exist.  It is used only
 * after its numbers were found to be consistent. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <zf/base/num.h>

#include "inside.h"

static bool array_bad(struct zf_err *err, const char *key, const char *what)
{
    return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "%s is %s", key, what);
}

/* ---- element types ---------------------------------------------------------------------------- */

static bool array_dtype_unknown(struct zf_err *err, const char *said)
{
    return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                   "elements of dtype \"%.40s\" are not supported", said);
}

/* Reads NumPy's descr: byte order, kind and size.  All sizes have one digit, except c16. */
static bool array_dtype_numpy(const char *said, struct zf_zarr *z, struct zf_err *err)
{
    char descr[8];
    size_t n = strlen(said);
    bool big = said[0] == '>';

    if (n < 3 || n > 4 || !strchr("<>|=", said[0]))
        return array_dtype_unknown(err, said);
    memcpy(descr, said, n + 1);
    /* A 2-byte type without a name in NumPy: Megatron stores only bfloat16 like this (zarr.py). */
    if (strcmp(descr + 1, "V2") == 0) {
        z->dtype = ZF_DT_BF16;
        z->swapped = big;
        return true;
    }
    for (unsigned t = 0; t < ZF_DT_COUNT; t++) {
        const struct zf_dtype_info *info = zf_dtype_info((enum zf_dtype)t);

        if (strchr("biufc", info->kind) && info->npy[1] != 'V' &&
            strcmp(descr + 1, info->npy + 1) == 0) {
            z->dtype = (enum zf_dtype)t;
            z->swapped = big && info->bytes > 1;
            return said[0] != '|' || info->bytes == 1 || array_dtype_unknown(err, said);
        }
    }
    return array_dtype_unknown(err, said);
}

static bool array_dtype(const json_t *v, struct zf_zarr *z, struct zf_err *err)
{
    const char *said = json_string_value(v);

    if (json_is_array(v)) {
        return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                       "elements that are records (dtype is a list) are not supported");
    }
    if (!said)
        return array_bad(err, "dtype", "not a string");
    /* tensorstore's names for types without a NumPy name. */
    if (strcmp(said, "bfloat16") == 0 || strncmp(said, "float8_", 7) == 0)
        return zf_dtype_by_torch(said, strlen(said), &z->dtype) || array_dtype_unknown(err, said);
    return array_dtype_numpy(said, z, err);
}

/* ---- shape and chunks -------------------------------------------------------------------------- */

static bool array_extents(const json_t *v, const char *key, const struct zf_limits *lim,
                          struct zf_arena *arena, const uint64_t **out, uint32_t *n_out,
                          struct zf_err *err)
{
    size_t n = json_array_size(v);

    if (!json_is_array(v))
        return array_bad(err, key, "not a list");
    if (n > ZF_ZARR_DIMS || n > lim->tensor_dims) {
        return zf_fail_limit(
            err, ZF_LIMIT_tensor_dims, ZF_OFF_NONE,
            "%s has %zu dimensions, more than zerofs reads (%d, limit tensor_dims=%" PRIu64 ")",
            key, n, ZF_ZARR_DIMS, lim->tensor_dims);
    }
    uint64_t *at = zf_arena_get(arena, n, sizeof *at, err);
    if (!at)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!zf_json_u64(json_array_get(v, i), &at[i]))
            return array_bad(err, key, "not a list of whole numbers >= 0");
    *out = at;
    *n_out = (uint32_t)n;
    return true;
}

static bool array_grid(struct zf_zarr *z, const struct zf_limits *lim, struct zf_arena *arena,
                       struct zf_err *err)
{
    uint64_t *grid = zf_arena_get(arena, z->ndim, sizeof *grid, err);

    if (!grid)
        return false;
    for (uint32_t d = 0; d < z->ndim; d++) {
        if (z->chunk[d] == 0 && z->shape[d] != 0) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "the chunk length in dimension %" PRIu32
                           " is 0, but the array has %" PRIu64 " elements",
                           d, z->shape[d]);
        }
        grid[d] = z->shape[d] ? (z->shape[d] - 1) / z->chunk[d] + 1 : 0;
    }
    z->grid = grid;
    if (!zf_dtype_size(z->dtype, z->ndim, z->shape, &z->bytes) || z->bytes > INT64_MAX)
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "the array has more than 2^63 bytes");
    if (!zf_dtype_size(z->dtype, z->ndim, z->chunk, &z->chunk_bytes) || z->chunk_bytes > INT64_MAX)
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "a chunk has more than 2^63 bytes");
    if (!zf_elems(z->ndim, z->grid, &z->n_chunks) || z->n_chunks > lim->grid_cells) {
        return zf_fail_limit(err, ZF_LIMIT_grid_cells, ZF_OFF_NONE,
                             "the array has more than %" PRIu64 " chunks (limit grid_cells)",
                             lim->grid_cells);
    }
    return true;
}

static bool array_shape(const json_t *j, const struct zf_limits *lim, struct zf_arena *arena,
                        struct zf_zarr *z, struct zf_err *err)
{
    const json_t *shape = json_object_get(j, "shape"), *chunks = json_object_get(j, "chunks");
    uint32_t n = 0;

    if (!array_extents(shape, "shape", lim, arena, &z->shape, &z->ndim, err) ||
        !array_extents(chunks, "chunks", lim, arena, &z->chunk, &n, err))
        return false;
    if (n != z->ndim) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "shape has %" PRIu32 " dimensions, chunks has %" PRIu32, z->ndim, n);
    }
    return array_grid(z, lim, arena, err);
}

/* ---- compressor and fill value ------------------------------------------------------------------ */

static bool array_compressor(const json_t *v, struct zf_zarr *z, struct zf_err *err)
{
    static const char *const known[] = {[ZF_ZARR_ZLIB] = "zlib",
                                        [ZF_ZARR_GZIP] = "gzip",
                                        [ZF_ZARR_ZSTD] = "zstd",
                                        [ZF_ZARR_LZ4] = "lz4",
                                        [ZF_ZARR_BLOSC] = "blosc"};
    const char *id = json_string_value(json_object_get(v, "id"));

    if (json_is_null(v))
        return true;
    if (!id)
        return array_bad(err, "compressor", "neither null nor an object with an id");
    for (unsigned i = 1; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(id, known[i]) == 0) {
            z->codec = (enum zf_zarr_codec)i;
            return zf_zarr_can(z->codec, err);
        }
    }
    return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                   "chunks compressed with \"%.40s\" are not supported", id);
}

static bool array_filters(const json_t *v, struct zf_err *err)
{
    const char *id = json_string_value(json_object_get(json_array_get(v, 0), "id"));

    if (!v || json_is_null(v) || (json_is_array(v) && json_array_size(v) == 0))
        return true;
    return id ? zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                        "chunks with the filter \"%.40s\" are not supported", id)
              : array_bad(err, "filters", "not a list of objects with an id");
}

static bool array_order(const json_t *v, struct zf_zarr *z, struct zf_err *err)
{
    const char *said = json_string_value(v);

    z->order_f = said && strcmp(said, "F") == 0;
    return z->order_f || (said && strcmp(said, "C") == 0) ||
           array_bad(err, "order", "neither \"C\" nor \"F\"");
}

static bool array_separator(const json_t *v, struct zf_zarr *z, struct zf_err *err)
{
    const char *said = v ? json_string_value(v) : ".";

    if (!said || (strcmp(said, ".") != 0 && strcmp(said, "/") != 0))
        return array_bad(err, "dimension_separator", "neither \".\" nor \"/\"");
    z->separator = said[0];
    return true;
}

static bool array_version(const json_t *v, struct zf_err *err)
{
    if (json_is_integer(v) && json_integer_value(v) == 2)
        return true;
    return json_is_integer(v) ? zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                                        "zarr_format %lld is not supported, only 2 is",
                                        (long long)json_integer_value(v))
                              : array_bad(err, "zarr_format", "not a whole number");
}

static bool array_keys(const json_t *j, struct zf_err *err)
{
    static const char *const needed[] = {"zarr_format", "shape", "chunks",    "dtype",
                                         "compressor",  "order", "fill_value"};

    if (!json_is_object(j))
        return zf_fail(err, ZF_E_FORMAT, 0, "this is not a JSON object");
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++)
        if (!json_object_get(j, needed[i]))
            return array_bad(err, needed[i], "missing");
    return true;
}

/* Accepts only null and 0 as fill values, which Megatron and tensorstore write: zero bytes. */
static bool array_fill(const json_t *v, struct zf_zarr *z, struct zf_err *err)
{
    const double x = json_number_value(v);
    zf_auto(mem) char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII);

    if (!text)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    const bool zero =
        json_is_number(v) ? x == 0 && !signbit(x) : json_is_false(v) && z->dtype == ZF_DT_BOOL;

    z->fill = json_is_null(v) ? ZF_ZARR_UNDEFINED : zero ? ZF_ZARR_ZERO : ZF_ZARR_OTHER;
    (void)snprintf(z->fill_text, sizeof z->fill_text, "%s", text);
    return true;
}

bool zf_zarr_load(const char *text, uint64_t n, const struct zf_limits *lim, struct zf_arena *arena,
                  struct zf_zarr *out, struct zf_err *err)
{
    zf_auto(json) json_t *j = zf_json_load(text, n, lim, err);

    memset(out, 0, sizeof *out);
    if (!j || !array_keys(j, err) || !array_version(json_object_get(j, "zarr_format"), err) ||
        !array_dtype(json_object_get(j, "dtype"), out, err) ||
        !array_shape(j, lim, arena, out, err) ||
        !array_filters(json_object_get(j, "filters"), err) ||
        !array_compressor(json_object_get(j, "compressor"), out, err) ||
        !array_order(json_object_get(j, "order"), out, err) ||
        !array_separator(json_object_get(j, "dimension_separator"), out, err))
        return false;
    return array_fill(json_object_get(j, "fill_value"), out, err);
}

/* ---- names of chunks ---------------------------------------------------------------------------- */

/* Parses digits without a leading zero. */
static const char *array_index(const char *p, uint64_t *out)
{
    const char *start = p;

    for (*out = 0; *p >= '0' && *p <= '9'; p++) {
        if (p - start >= 18 || (p > start && *start == '0'))
            return NULL;
        *out = *out * 10 + (uint64_t)(*p - '0');
    }
    return p > start ? p : NULL;
}

bool zf_zarr_number(const struct zf_zarr *z, const char *name, uint64_t *out, bool *outside)
{
    bool like_one = *name && name[strspn(name, "0123456789./")] == '\0';
    uint64_t number = 0, index;

    *outside = false;
    for (uint32_t d = 0; d < z->ndim && name; d++) {
        name = d && *name != z->separator ? NULL : array_index(name + (d > 0), &index);
        name = name && index < z->grid[d] ? name : NULL;
        number = name ? number * z->grid[d] + index : 0;
    }
    if (z->ndim == 0)
        name += *name == '0';
    *out = number;
    bool is = like_one && name && *name == '\0';
    *outside = like_one && !is;
    return is;
}

size_t zf_zarr_name(const struct zf_zarr *z, uint64_t number, char *out)
{
    uint64_t index[ZF_ZARR_DIMS] = {0};
    size_t n = 0;

    for (uint32_t d = z->ndim; d-- > 0; number /= z->grid[d])
        index[d] = number % z->grid[d];
    for (uint32_t d = 0; d < z->ndim || d == 0; d++) {
        if (d)
            out[n++] = z->separator;
        n += zf_num_digits(out + n, index[d]);
    }
    out[n] = '\0';
    return n;
}
