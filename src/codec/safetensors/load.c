/* SPDX-License-Identifier: Apache-2.0 */
/* A length word, a JSON object, the data.  The reference reader wants the entries to cover the
 * data part without gap or overlap, so they are sorted by offset and each must begin where the one
 * before ends: a header that was edited by hand does not pass. */
#include <inttypes.h>
#include <string.h>

#include <zf/base/bytes.h>
#include <zf/base/num.h>
#include <zf/codec/json.h>
#include <zf/codec/safetensors.h>

/* MAX_HEADER_SIZE of the reference. */
#define HEADER_MAX UINT64_C(100000000)
enum { WORD = 8, SHOWN = 80 };

static bool load_bad_entry(struct zf_err *err, const char *name, const char *what)
{
    return zf_fail(err, ZF_E_FORMAT, WORD, "tensor \"%.*s\": %s", SHOWN, name, what);
}

static bool load_shape(const json_t *shape, struct zf_st_entry *e, struct zf_arena *arena,
                       const struct zf_limits *lim, struct zf_err *err)
{
    uint64_t *dim;

    if (!json_is_array(shape)) {
        return load_bad_entry(err, e->name, "\"shape\" is not a list");
    }
    if (json_array_size(shape) > lim->tensor_dims) {
        return zf_fail(err, ZF_E_LIMIT, WORD,
                       "tensor \"%.*s\" has %zu dimensions, more than %" PRIu64
                       " (limit tensor_dims)",
                       SHOWN, e->name, json_array_size(shape), lim->tensor_dims);
    }
    e->ndim = (uint32_t)json_array_size(shape);
    dim = zf_arena_get(arena, e->ndim, sizeof *dim, err);
    if (!dim) {
        return false;
    }
    for (uint32_t d = 0; d < e->ndim; d++) {
        if (!zf_json_u64(json_array_get(shape, d), &dim[d])) {
            return load_bad_entry(err, e->name, "\"shape\" holds something that is no size");
        }
    }
    e->shape = dim;
    if (e->dtype == ZF_DT_F4) {
        if (e->ndim == 0 || dim[e->ndim - 1] % 2) {
            return load_bad_entry(err, e->name,
                                  "4-bit values come in pairs, but the last extent is odd");
        }
        dim[e->ndim - 1] /= 2;
    }
    return true;
}

static bool load_entry(const char *name, size_t name_len, const json_t *j, struct zf_st_entry *e,
                       struct zf_arena *arena, const struct zf_limits *lim, struct zf_err *err)
{
    const json_t *offs = json_object_get(j, "data_offsets");
    const char *dtype = json_string_value(json_object_get(j, "dtype"));
    uint64_t want;

    e->name = zf_arena_str(arena, name, name_len, err);
    if (!e->name) {
        return false;
    }
    e->name_len = (uint32_t)name_len;
    if (!json_is_object(j) || !dtype) {
        return load_bad_entry(err, e->name, "expected an object with a \"dtype\"");
    }
    if (!zf_dtype_by_safetensors(dtype, &e->dtype)) {
        return zf_fail(err, ZF_E_UNSUPPORTED, WORD,
                       "tensor \"%.*s\" has the unknown dtype \"%.40s\"", SHOWN, e->name, dtype);
    }
    if (!load_shape(json_object_get(j, "shape"), e, arena, lim, err)) {
        return false;
    }
    if (json_array_size(offs) != 2 || !zf_json_u64(json_array_get(offs, 0), &e->begin) ||
        !zf_json_u64(json_array_get(offs, 1), &e->end) || e->begin > e->end) {
        return load_bad_entry(err, e->name, "\"data_offsets\" is not a pair [begin, end]");
    }
    if (!zf_dtype_size(e->dtype, e->ndim, e->shape, &want)) {
        return load_bad_entry(err, e->name, "its shape is larger than any file");
    }
    if (want != e->end - e->begin) {
        return zf_fail(err, ZF_E_FORMAT, WORD,
                       "tensor \"%.*s\" has %" PRIu64 " bytes, its shape and dtype need %" PRIu64,
                       SHOWN, e->name, e->end - e->begin, want);
    }
    return true;
}

static bool load_meta(const json_t *j, struct zf_st_header *out, struct zf_arena *arena,
                      struct zf_err *err)
{
    size_t n = json_object_size(j);
    const char **key = zf_arena_get(arena, n, sizeof *key, err);
    const char **val = key ? zf_arena_get(arena, n, sizeof *val, err) : NULL;
    uint64_t at = 0;
    const char *k;
    json_t *v;

    if (!val) {
        return false;
    }
    if (!json_is_object(j)) {
        return zf_fail(err, ZF_E_FORMAT, WORD, "\"__metadata__\" is not an object");
    }
    json_object_foreach((json_t *)j, k, v)
    {
        if (!json_is_string(v)) {
            return zf_fail(err, ZF_E_FORMAT, WORD,
                           "\"__metadata__\" holds \"%.*s\", which is no text", SHOWN, k);
        }
        key[at] = zf_arena_str(arena, k, strlen(k), err);
        val[at] =
            key[at] ? zf_arena_str(arena, json_string_value(v), json_string_length(v), err) : NULL;
        if (!val[at++]) {
            return false;
        }
    }
    out->meta_key = key;
    out->meta_val = val;
    out->n_meta = n;
    return true;
}

static int load_by_begin(const void *a, const void *b)
{
    const struct zf_st_entry *x = a, *y = b;

    if (x->begin != y->begin) {
        return x->begin < y->begin ? -1 : 1;
    }
    return x->end < y->end ? -1 : x->end > y->end;
}

/* Sorts the entries, checks that each begins where the one before ends, and turns offsets of the
 * data part into offsets of the file. */
static bool load_tile(struct zf_st_entry *e, struct zf_st_header *out, struct zf_err *err)
{
    uint64_t at = 0;

    qsort(e, out->n, sizeof *e, load_by_begin);
    for (uint64_t i = 0; i < out->n; i++) {
        if (e[i].begin != at) {
            return zf_fail(err, ZF_E_FORMAT, WORD,
                           "tensor \"%.*s\" begins at byte %" PRIu64
                           " of the data, expected %" PRIu64 ": the tensors %s",
                           SHOWN, e[i].name, e[i].begin, at,
                           e[i].begin < at ? "overlap" : "leave a hole");
        }
        at = e[i].end;
        if (!zf_add(e[i].begin, out->data_off, &e[i].begin) ||
            !zf_add(e[i].end, out->data_off, &e[i].end)) {
            return load_bad_entry(err, e[i].name, "its offsets are larger than any file");
        }
    }
    out->end_off = out->n ? e[out->n - 1].end : out->data_off;
    out->entry = e;
    return true;
}

static bool load_object(const json_t *j, struct zf_arena *arena, const struct zf_limits *lim,
                        struct zf_st_header *out, struct zf_err *err)
{
    const json_t *meta = json_object_get(j, "__metadata__");
    uint64_t n = json_object_size(j) - (meta ? 1 : 0), at = 0;
    struct zf_st_entry *e;
    const char *k;
    json_t *v;

    if (n > lim->tensors) {
        return zf_fail(err, ZF_E_LIMIT, WORD,
                       "%" PRIu64 " tensors, more than %" PRIu64 " (limit tensors)", n,
                       lim->tensors);
    }
    if (meta && !load_meta(meta, out, arena, err)) {
        return false;
    }
    e = zf_arena_get(arena, n, sizeof *e, err);
    if (!e) {
        return false;
    }
    json_object_foreach((json_t *)j, k, v)
    {
        if (v != meta && !load_entry(k, strlen(k), v, &e[at++], arena, lim, err)) {
            return false;
        }
    }
    out->n = n;
    return load_tile(e, out, err);
}

/* The length word, checked against the file and the limits. */
static bool load_header_len(struct zf_source *src, const struct zf_limits *lim, uint64_t *len_out,
                            struct zf_err *err)
{
    uint8_t word[WORD];

    if (src->size < WORD) {
        return zf_fail(err, ZF_E_FORMAT, 0,
                       "found %" PRIu64
                       " bytes, expected at least the 8 of safetensors' length word",
                       src->size);
    }
    if (!zf_source_pread(src, word, WORD, 0, err)) {
        return false;
    }
    struct zf_bytes b = zf_bytes_of(word, WORD);
    uint64_t n = zf_bytes_le64(&b);
    if (n > HEADER_MAX) {
        return zf_fail(err, ZF_E_FORMAT, 0,
                       "found a header of %" PRIu64 " bytes, safetensors allows %" PRIu64, n,
                       HEADER_MAX);
    }
    if (n > lim->json_bytes) {
        return zf_fail(err, ZF_E_LIMIT, 0,
                       "header of %" PRIu64 " bytes, more than %" PRIu64 " (limit json_bytes)", n,
                       lim->json_bytes);
    }
    if (!zf_within(WORD, n, src->size)) {
        return zf_fail(err, ZF_E_FORMAT, 0,
                       "found a header of %" PRIu64 " bytes, but only %" PRIu64
                       " follow in the file",
                       n, src->size - WORD);
    }
    *len_out = n;
    return true;
}

static bool load_head(struct zf_source *src, struct zf_arena *arena, const struct zf_limits *lim,
                      struct zf_st_header *out, struct zf_err *err)
{
    zf_auto(mem) char *text = NULL;
    zf_auto(json) json_t *j = NULL;
    uint64_t n = 0;

    if (!load_header_len(src, lim, &n, err)) {
        return false;
    }
    text = malloc(n ? n : 1);
    if (!text) {
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE,
                       "out of memory for a header of %" PRIu64 " bytes", n);
    }
    if (!zf_source_pread(src, text, n, WORD, err)) {
        return false;
    }
    j = zf_json_load(text, n, lim, err);
    if (!j) {
        if (err->off != ZF_OFF_NONE) {
            err->off += WORD;
        }
        return false;
    }
    if (!json_is_object(j)) {
        return zf_fail(err, ZF_E_FORMAT, WORD, "the header is not a JSON object");
    }
    out->data_off = WORD + n;
    return load_object(j, arena, lim, out, err);
}

bool zf_st_load_head(struct zf_source *src, struct zf_arena *arena, const struct zf_limits *lim,
                     struct zf_st_header *out, struct zf_err *err)
{
    *out = (struct zf_st_header){.n = 0};
    if (load_head(src, arena, lim, out, err)) {
        return true;
    }
    /* The source has put its own name there when it was the one that failed. */
    return err->path[0] ? false : zf_err_in(err, "%s", src->name);
}

bool zf_st_load(struct zf_source *src, struct zf_arena *arena, const struct zf_limits *lim,
                struct zf_st_header *out, struct zf_err *err)
{
    if (!zf_st_load_head(src, arena, lim, out, err)) {
        return false;
    }
    if (out->end_off != src->size) {
        zf_fail(err, ZF_E_FORMAT, out->end_off < src->size ? out->end_off : src->size,
                "found a file of %" PRIu64 " bytes, its header describes %" PRIu64, src->size,
                out->end_off);
        return zf_err_in(err, "%s", src->name);
    }
    return true;
}

bool zf_st_sniff(struct zf_source *src)
{
    uint8_t head[WORD + 8];
    struct zf_err ignored = {.code = ZF_OK};
    size_t n = src->size < sizeof head ? (size_t)src->size : sizeof head;

    if (n < WORD + 2 || !zf_source_pread(src, head, n, 0, &ignored)) {
        return false;
    }
    struct zf_bytes b = zf_bytes_of(head, n);
    uint64_t len = zf_bytes_le64(&b);
    if (len > HEADER_MAX || !zf_within(WORD, len, src->size)) {
        return false;
    }
    for (size_t i = WORD; i < n; i++) {
        if (head[i] != ' ' && head[i] != '\t' && head[i] != '\r' && head[i] != '\n') {
            return head[i] == '{';
        }
    }
    return true;
}
